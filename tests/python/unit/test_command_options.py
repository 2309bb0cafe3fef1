# SPDX-License-Identifier: Apache-2.0
"""Every option of every command: its spellings, what it is without being given, and what it becomes when given."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from fastprof.cli.formats import FORMATS
from fastprof.cli.main import make_parser

# (words on the command line, name of the value, the value without them, the value with them)
Option = tuple[str, str, Any, Any]

TABLE: list[Option] = [
    ("--sort-by count", "sort_by", "self_cpu_time_total", "count"),
    ("--row-limit -1", "row_limit", 30, -1),
    ("--by-shape", "by_shape", False, True),
    ("--by-stack 3", "by_stack", 0, 3),
    ("--top-level", "top_level", False, True),
    ("--time-unit ms", "time_unit", None, "ms"),
]
TEXTS: list[Option] = [
    ("--tree", "tree", False, True),
    ("--flame", "flame", False, True),
    ("--depth 4", "depth", None, 4),
    ("--min-percent 2.5", "min_percent", 0.5, 2.5),
    ("--pager", "pager", False, True),
    ("--memory", "memory", False, True),
    ("--csv a.csv", "csv", None, "a.csv"),
    ("--json a.json", "json", None, "a.json"),
]
HTML: list[Option] = [
    ("--html a.html", "html", None, "a.html"),
    ("--html", "html", None, ""),
    ("--open", "open", False, True),
    ("--no-source", "no_source", False, True),
]
READING: list[Option] = [
    ("--max-memory-mb 7", "max_memory_mb", 0, 7),
    ("--salvage", "salvage", False, True),
]
RECORDING: list[Option] = [
    ("--calls", "calls", None, True),
    ("--no-calls", "calls", None, False),
    ("--min-duration 1.5", "min_duration", 0, 1.5),
    ("--follow", "follow", False, True),
    ("--record-shapes", "record_shapes", False, True),
    ("--shapes", "record_shapes", False, True),
    ("--profile-memory", "profile_memory", False, True),
    ("--memory", "profile_memory", False, True),
    ("--python-memory", "python_memory", False, True),
    ("--exact-python-memory", "exact_python_memory", False, True),
    ("--with-stack", "with_stack", False, True),
    ("--stack", "with_stack", False, True),
    ("--native", "native", False, True),
    ("--with-flops", "with_flops", False, True),
    ("--with-modules", "with_modules", False, True),
    ("--counter cycles", "counter", [], ["cycles"]),
    ("--max-mb 9", "max_mb", 0, 9),
    *(("--overflow " + way, "overflow", "drop_newest", way) for way in ("drop_newest", "overwrite_oldest", "spill")),
    ("--spill-folder d", "spill_folder", None, "d"),
    ("--backing-file f", "backing_file", None, "f"),
]  # fmt: skip
PROGRAM: list[Option] = [("-m mod", "m", None, "mod"), ("-c code", "c", None, "code")]
TO: list[Option] = [(f"--to {name}", "to", None, name) for name in FORMATS]
OUTPUT: list[Option] = [(f"{o} out", "output", None, "out") for o in ("-o", "--output")]

COMMANDS: dict[str, list[Option]] = {
    "run": [
        *PROGRAM,
        *OUTPUT,
        *TO,
        ("--html", "html", False, True),
        *HTML[2:],
        ("--no-trace", "no_trace", False, True),
        ("--no-table", "no_table", False, True),
        *RECORDING,
        ("--this-thread", "this_thread", False, True),
        ("--nvtx", "nvtx", False, True),
        ("--itt", "itt", False, True),
        *TABLE,
    ],
    "report": [*TABLE, *TEXTS, *HTML, *READING],
    "explain": [
        *PROGRAM,
        *OUTPUT,
        ("--live", "live", False, True),
        ("--step name", "step", None, "name"),
        ("--json", "json", False, True),
        *READING,
        *RECORDING,
    ],
    "recover FILE": [
        *((f"{o} out", "output", [], ["out"]) for o in ("-o", "--output")),
        *TO,
        ("--session 3", "session", 0, 3),
        *TABLE,
        *TEXTS,
        *HTML,
    ],
    "diff BEFORE AFTER": [
        *(
            (f"--metric {name}_time_total", "metric", "self_cpu_time_total", f"{name}_time_total")
            for name in ("self_cpu", "cpu", "self_device", "device")
        ),
        ("--per-call", "per_call", False, True),
        *(
            (f"--sort {way}", "sort", "change", way)
            for way in ("change", "growth", "percent", "name", "count")
        ),
        ("--row-limit 5", "row_limit", 30, 5),
        ("--json a.json", "json", None, "a.json"),
        *HTML,
        *READING,
        ("--max-growth 10", "max_growth", None, 10.0),
        ("--max-total-growth 20%", "max_total_growth", None, 20.0),
        ("--min-ms 0.5", "min_ms", 0.0, 0.5),
    ],
    "convert IN OUT": [*TO, *READING],
    "config": [
        (f"--{name}", name.replace("-", "_"), False, True)
        for name in (
            "includes",
            "cflags",
            "libs",
            "definitions",
            "cmakedir",
            "pkgconfigdir",
            "nvtx-injection",
            "itt-collector",
        )
    ],
    "doctor": [
        ("--json", "json", False, True),
        ("-v", "verbose", False, True),
        ("--verbose", "verbose", False, True),
    ],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_a_command(command: str) -> None:
    parser = make_parser("fastprof")
    plain = vars(parser.parse_args(command.split()))
    for words, name, without, given in COMMANDS[command]:
        assert plain[name] == without and type(plain[name]) is type(without), words
        options = vars(parser.parse_args([*command.split(), *words.split()]))
        assert options[name] == given and type(options[name]) is type(given), words
        assert {n for n in plain if plain[n] != options[n]} <= {name}, words


def test_options_take_what_they_can_use() -> None:
    parser = make_parser("fastprof")
    wrong = [
        "report --time-unit h", "report --max-memory-mb 0", "report --max-memory-mb -1", "report --row-limit x",
        "run --overflow newest", "run --to png", "diff a b --metric count", "diff a b --sort self",
        "diff a b --max-growth x", "diff a", "convert a", "recover", "doctor x", "nothing", "run --max-mb 1.5",
    ]  # fmt: skip
    for words in wrong:
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(words.split())
        assert ended.value.code == 2, words


def test_options_without_a_command() -> None:
    parser = make_parser("fastprof")
    names = (
        "includes", "cflags", "libs", "definitions", "cmakedir", "pkgconfigdir", "nvtx_injection", "itt_collector",
    )  # fmt: skip
    for name in names:
        options: argparse.Namespace = parser.parse_args(["--" + name.replace("_", "-")])
        assert [getattr(options, other) for other in names] == [other == name for other in names]
        assert "command" not in options
    for command in COMMANDS:  # each by a function of its own file
        function = parser.parse_args(command.split()).command
        assert function.__module__ == f"fastprof.cli.{command.split()[0]}"


def test_examples_are_printed_as_they_are_written() -> None:
    """argparse joins the lines of other texts."""
    parser = make_parser("fastprof")
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    assert list(commands.choices) == [command.split()[0] for command in COMMANDS]
    for each in (parser, *commands.choices.values()):
        assert each.epilog and each.format_help().endswith(each.epilog)
    for name, command in commands.choices.items():
        assert command.prog.endswith(name) and command.description[0].isupper()
        assert command.description.endswith(".")
