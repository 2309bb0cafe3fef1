# SPDX-License-Identifier: Apache-2.0
"""What a terminal gets of `fastprof report`, and that a pipe gets none of it. A pseudo-terminal stands for the one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastprof
from fastprof import EventList, EventTable, Site, Track, errors
from fastprof.base.text_style import TextStyle, cut_to_width, text_width
from fastprof.cli.screen import Screen
from fastprof.views.path_tree import path_tree

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
LIMIT_S = 60
NAMES = ["train step", "load \x1b[2J\x1b]0;title\x07", "back\u202eward", "名前 of a range"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """outer (1000 us) contains three of 600, 300 and 4 us."""
    begins, ends = [0, 0, 600, 900], [1000, 600, 900, 904]
    table = EventTable(
        {
            "start_ns": np.array(begins) * 1000,
            "end_ns": np.array(ends) * 1000,
            "site": [0, 1, 2, 3],
        },
        sites=[Site(name) for name in NAMES],
        process_name="python\x1b[1m",
    )
    path = tmp_path / "t.fastprof"
    fastprof.save(table, path)
    return path


def environment(**more: str) -> dict[str, str]:
    left_out = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "PAGER", "LESS")
    kept = {k: v for k, v in os.environ.items() if k not in left_out}
    return {**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **more}


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "fastprof", *map(str, words)]


def on_terminal(*words: object, width: int = 100, **more: str) -> str:
    """Return what a command prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(
        command(*words), stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**more)
    )
    os.close(theirs)
    said = b""
    end = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < end:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not piece:
                break
            said += piece
        assert process.wait(LIMIT_S) == 0, said
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return said.decode().replace("\r\n", "\n")


def in_pipe(*words: object, **more: str) -> str:
    done = subprocess.run(
        command(*words), capture_output=True, timeout=LIMIT_S, env=environment(**more), check=True
    )
    return done.stdout.decode()


def test_a_pipe_gets_the_plain_table(trace: Path) -> None:
    text = in_pipe("report", trace)
    table = fastprof.load(trace)
    expected = EventList.from_table(table).key_averages(include_python_functions=True)
    assert text.endswith(expected.table(sort_by="self_cpu_time_total", row_limit=30) + "\n")
    assert text == in_pipe("report", "--pager", trace, PAGER="false", NO_COLOR="1")
    assert not ESCAPE.search(text.replace("\x1b[2J", "").replace("\x1b[1m", ""))


@pytest.mark.parametrize(
    ("handler", "more"),
    [
        ("strict", {"PYTHONIOENCODING": "ascii"}),
        ("surrogateescape", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    ],
)
def test_names_that_the_encoding_lacks(trace: Path, handler: str, more: dict[str, str]) -> None:
    more = {"PYTHONIOENCODING": "", **more}
    for words in (
        ("report", trace),
        ("report", "--tree", "--min-percent=0", trace),
        ("diff", trace, trace),
    ):
        assert r"\u540d\u524d of a range" in in_pipe(*words, **more)
    program = "import sys; print(sys.stdout.errors)"  # its own output is as without a profile
    assert in_pipe("run", "--no-trace", "-c", program, **more) == f"{handler}\n"


@pytest.mark.parametrize("width", [60, 100, 200])
@pytest.mark.parametrize("form", [(), ("--tree",), ("--flame",), ("--tree", "--flame")])
def test_a_terminal_gets_colours_within_its_width(
    trace: Path, width: int, form: tuple[str, ...]
) -> None:
    text = on_terminal("report", *form, trace, width=width)
    assert ESCAPE.search(text)
    plain = ESCAPE.sub("", text)
    assert "\x1b" not in plain and "\x07" not in plain and "\u202e" not in plain
    if not form:
        assert ("\u2588" in text) == (width >= 100)
    for line in plain.split("\n")[2:]:
        assert text_width(line) <= width or line.startswith("Not shown")


@pytest.mark.parametrize(
    ("more", "colours", "bars"),
    [
        ({}, True, True),
        ({"NO_COLOR": "1"}, False, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
    ],
)
def test_the_environment_decides(
    trace: Path, more: dict[str, str], colours: bool, bars: bool
) -> None:
    text = on_terminal("report", trace, width=160, **more)
    assert bool(ESCAPE.search(text)) == colours
    assert ("\u2588" in text) == bars
    assert "\x1b[2J" not in text and "title\u2407" in text


def test_force_color_reaches_a_pipe(trace: Path) -> None:
    assert ESCAPE.search(in_pipe("report", "--tree", trace, FORCE_COLOR="1"))
    tree = in_pipe("report", "--tree", trace).split("\n", 2)[2]  # below the name of the process
    assert "\x1b" not in tree and "title" in tree


def test_the_pager_gets_the_text_only_when_asked(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "page"
    pager = f"cat > '{page}'"
    text = on_terminal("report", trace, PAGER=pager)
    assert "Self CPU" in text and not page.exists()
    assert "Self CPU" not in on_terminal("report", "--pager", trace, PAGER=pager)
    assert "Self CPU" in page.read_text() and "\x1b[1m" in page.read_text()
    assert "Self CPU" in on_terminal("report", "--pager", trace, PAGER="no-such-program-here")
    on_terminal("report", "--pager", trace, PAGER="true")  # left at once


# ---- the tree and the flame graph -------------------------------------------------------------------


def lines_of(text: str) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in text.splitlines()[1:]]


def test_the_tree_has_times_shares_and_counts() -> None:
    begins, ends = [0, 0, 100, 600, 2000, 2000], [1000, 500, 200, 900, 3000, 2400]
    table = EventTable(
        {"start_ns": np.array(begins) * 1000, "end_ns": np.array(ends) * 1000, "site": [0, 1, 2, 1, 0, 1]},
        sites=[Site("step"), Site("fit"), Site("back")],
    )  # fmt: skip
    events = EventList.from_table(table)
    assert lines_of(events.tree_text()) == [
        ["2.000ms", "800.000us", "100.0%", "2", "step"],
        ["1.200ms", "1.100ms", "60.0%", "3", "fit"],
        ["100.000us", "100.000us", "5.0%", "1", "back"],
    ]
    assert lines_of(events.tree_text(time_unit="ms", max_depth=2)) == [
        ["2.000ms", "0.800ms", "100.0%", "2", "step"],
        ["1.200ms", "1.100ms", "60.0%", "3", "fit"],
        ["0.100ms", "0.100ms", "5.0%", "1", "[1 more]"],
    ]
    assert len(lines_of(events.tree_text(min_percent=10))) == 2
    own = [average.self_cpu_time_total for average in events.key_averages()]
    assert own == [800, 1100, 100]
    assert EventList(list(events)).tree_text() == events.tree_text()
    assert EventList([]).tree_text() == ""
    with pytest.raises(errors.StateError, match="averages have no tree"):
        events.key_averages().tree_text()
    with pytest.raises(errors.ValueError, match="unknown time_unit"):
        events.tree_text(time_unit="h")


@pytest.mark.parametrize(
    ("processes", "heads"),
    [
        (None, ["pid 10 main", "pid 11", "pid 12"]),
        ([{"pid": 11, "name": "worker"}], ["pid 10 main", "pid 11 worker", "pid 12"]),
        ([{"pid": 10, "name": "named"}, {"pid": 12}], ["pid 10 named", "pid 11", "pid 12"]),
        ([3, "pid", ["pid"], None, {"name": "x"}, {"pid": 12, "name": "y"}], ["pid 10 main", "pid 11", "pid 12 y"]),
        ((), ["pid 10 main", "pid 11", "pid 12"]),
    ],
)  # fmt: skip
def test_headings_of_processes_have_their_names(processes: Any, heads: list[str]) -> None:
    """Also of a file that says something else than processes."""
    table = EventTable(
        {"start_ns": [0, 0, 0, 0], "end_ns": [3, 2, 1, 9], "site": [0] * 4, "track": [0, 1, 2, 0],
         "device_type": [0, 0, 0, 99]},
        sites=[Site("a")], tracks=[Track(i, 10 + i) for i in range(3)], pid=10, process_name="main",
        metadata={} if processes is None else {"processes": processes},
    )  # fmt: skip
    names = [node.name for node in path_tree(EventList.from_table(table), visible=True)]
    assert names == [*heads, "[device99]"]


def test_a_deep_recursion_is_a_tree_too() -> None:
    depth = 3000
    table = EventTable(
        {
            "start_ns": np.arange(depth),
            "end_ns": 10_000_000 - np.arange(depth),
            "site": np.zeros(depth, np.int64),
            "parent": np.arange(depth) - 1,
        },
        sites=[Site("f")],
    )
    events = EventList.from_table(table, dedupe=False)
    assert len(events.tree_text().splitlines()) == depth + 1
    from fastprof.views.flame_text import flame_text

    lines = flame_text(events, 80).splitlines()
    assert lines[-1] == f"{depth - 40} deeper levels: use a larger depth"
    assert all(len(line) <= 80 for line in lines)


def test_a_million_rows_become_a_short_tree() -> None:
    start = np.arange(1_000_000, dtype=np.int64) * 10
    table = EventTable(
        {"start_ns": start, "end_ns": start + 5, "site": np.arange(1_000_000) % 7},
        sites=[Site(f"n{i}") for i in range(7)],
    )
    lines = lines_of(EventList.from_table(table).tree_text())
    assert len(lines) == 7 and lines[0][3] == "142,858"


def test_widths_of_characters() -> None:
    assert text_width("ab名") == 4 and text_width("e\u0301") == 1
    assert cut_to_width("名前名前名前", 9) == "名前...前"
    assert cut_to_width("名前", 3) == "名 " and cut_to_width("a", 3) == "a  "
    plain = TextStyle(False, False)
    assert plain.bar(0.5, 10) == "#####" and plain.paint("x", "hot") == plain.fill("x", 1) == "x"
    assert TextStyle(True, True).bar(0.5, 3) == "\u2588\u258c"
    assert TextStyle(True, True).bar(float("nan"), 3) == "" == TextStyle(True, True).bar(-1, 3)
    assert Screen.of(None) == Screen()


# ---- in this process: screens and pagers -----------------------------------------------------------


def test_the_pagers_options_and_pagers_that_are_left_early(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from fastprof.cli import screen

    page = tmp_path / "page"
    monkeypatch.setattr(screen, "terminal_width", lambda stream: 80)
    for variable in ("LESS", "LV"):
        monkeypatch.delenv(variable, raising=False)
    for options in ("FRX -c", "own -c"):
        monkeypatch.setenv("PAGER", f"cat > '{page}'; echo $LESS $LV >> '{page}'")
        with screen.paged(True):
            print("text \ud800")
        assert capfd.readouterr().out == "" and page.read_text() == f"text ?\n{options}\n"
        monkeypatch.setenv("LESS", "own")
    monkeypatch.setenv("PAGER", "exit 126")
    with screen.paged(True):
        print("printed instead")
    assert capfd.readouterr().out == "printed instead\n"
    monkeypatch.setenv("PAGER", "true")
    with screen.paged(True):
        print("y" * 1_000_000)
    assert capfd.readouterr().out == ""
