# SPDX-License-Identifier: Apache-2.0
"""fastprof run in this process: options become arguments of profile(), and the program's arguments are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_traces import own_process_state  # noqa: F401 (serves every test)

import fastprof
from fastprof.cli import main as cli
from fastprof.cli.program_call import ProgramCall

Capsys = pytest.CaptureFixture[str]


class _ProfileBegins(BaseException):
    """Raised instead of profiling, with the arguments of profile()."""


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ([], {"python_calls": fastprof.CallFilter(sum_frequent=True)}),
        (["--calls"], {"python_calls": True}),
        (["--no-calls", "--with-stack"], {"python_calls": False, "with_stack": True}),
        (["--follow"], {"follow_children": True}),
        (["--native"], {"native": True, "python_calls": None}),
        (["--calls", "--min-duration", "50"], {"python_calls": fastprof.CallFilter(min_duration_us=50)}),
        (
            ["--with-stack", "--min-duration", "50"],
            {"with_stack": True, "python_calls": fastprof.CallFilter(min_duration_us=50)},
        ),
        (
            ["--native", "--min-duration", "50"],
            {"native": True, "python_calls": fastprof.CallFilter(min_duration_us=50)},
        ),
        (["--sample"], {"sample_hz": 1000.0, "python_calls": False}),
        (["--sample-tasks"], {"sample_hz": 1000.0, "python_calls": False, "sample_tasks": True}),
        (["--sample=50", "--calls"], {"sample_hz": 50.0, "python_calls": True}),
        (["--record-shapes"], {"record_shapes": True}),
        (["--profile-memory"], {"profile_memory": True}),
        (["--python-memory"], {"profile_memory": True, "python_memory": True}),
        (["--exact-python-memory"], {"profile_memory": True, "python_memory": "exact"}),
        (["--with-stack"], {"with_stack": True, "python_calls": None}),
        (["--with-flops"], {"with_flops": True}),
        (["--with-modules"], {"with_modules": True}),
        (["--this-thread"], {"all_threads": False}),
        (["--max-records-mb", "3"], {"max_bytes": 3 << 20}),
        (["--overflow", "overwrite_oldest"], {"overflow": "overwrite_oldest"}),
        (["--overflow", "spill", "--spill-folder", "d"], {"overflow": "spill", "spill_folder": "d"}),
        (["--backing-file", "/d/records"], {"backing_file": "/d/records", "keep_backing_file": True}),
        (["--counter", "instructions", "--counter", "page-faults"], {"counters": ["instructions", "page-faults"]}),
    ],
)  # fmt: skip
def test_each_option_is_an_argument_of_profile(
    words: list[str], changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(**given: Any) -> None:
        raise _ProfileBegins(given)

    def arguments(*words: str) -> dict[str, Any]:
        with pytest.raises(_ProfileBegins) as begun:
            cli.main(["run", *words, "-c", "pass"])
        given: dict[str, Any] = begun.value.args[0]
        return given

    monkeypatch.setattr(fastprof, "profile", begin)
    assert arguments(*words) == arguments() | changes


RANGES = "import sys, fastprof\nwith fastprof.record_function('inside'): print(sys.argv)"


def names(path: Path) -> list[str]:
    table = fastprof.load(path)
    calls = table.column("is_python_function")
    return [table.name(row) for row in range(len(table)) if not calls[row]]


def test_the_trace_and_the_table_of_a_run(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "work.py").write_text(RANGES)
    assert cli.main(["run", "work.py", "--no-trace", "x"]) == 0
    said = capsys.readouterr()
    assert said.out == "['work.py', '--no-trace', 'x']\n"
    assert "inside" in said.err and "wrote" in said.err and "https://ui.perfetto.dev" in said.err
    assert names(tmp_path / "work.trace.json") == ["work.py", "inside"]

    assert cli.main(["run", "--no-trace", "-c", RANGES]) == 0
    said = capsys.readouterr()
    assert "inside" in said.err and "wrote" not in said.err
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".json") == ["work.trace.json"]

    assert cli.main(["run", "--no-table", "-o", "o.fastprof", "-c", RANGES]) == 0
    said = capsys.readouterr()
    assert "Self CPU" not in said.err and "fastprof report" in said.err
    assert names(tmp_path / "o.fastprof") == ["-c", "inside"]


def test_table_options_of_a_run(capsys: Capsys) -> None:
    most = ["--sort-by", "cpu_time_total", "--row-limit", "1"]  # of which "inside" is a part
    assert cli.main(["run", "--no-trace", *most, "-c", RANGES]) == 0
    assert "inside" not in capsys.readouterr().err
    for words, wrong in ((("--row-limit", "-2"), "-2"), (("--by-stack", "-1"), "-1")):
        assert cli.main(["run", *words, "-c", "pass"]) == 2
        assert f"invalid {words[0]} {wrong}" in capsys.readouterr().err
    assert cli.main(["run", "--max-records-mb", "-1", "-c", "pass"]) == 2
    assert "invalid --max-records-mb -1" in capsys.readouterr().err


def test_a_run_without_ranges_says_so_and_writes_nothing(tmp_path: Path, capsys: Capsys) -> None:
    assert cli.main(["run", "--no-calls", "-c", "pass"]) == 0
    said = capsys.readouterr().err
    assert "entered no range, so no trace was written" in said and "with record_function" in said
    assert "--this-thread" not in said
    assert list(tmp_path.iterdir()) == []
    assert cli.main(["run", "--no-calls", "--this-thread", "-o", "t.json", "-c", "pass"]) == 0
    said = capsys.readouterr().err
    assert "--this-thread" in said and "no trace was written" not in said
    assert names(tmp_path / "t.json") == ["-c"]


def test_memory_over_time_needs_memory(tmp_path: Path, capsys: Capsys) -> None:
    for path in ("m.memory.html", "m.memory.json"):
        assert cli.main(["run", "-o", path, "-c", "pass"]) == 2
        assert "Add --profile-memory" in capsys.readouterr().err
    assert cli.main(["run", "--profile-memory", "--to", "memory", "-o", "m.png", "-c", ""]) == 2
    assert "Use .json, .csv or .html" in capsys.readouterr().err
    code = "import fastprof; fastprof.report_memory_usage(1, 64)"
    assert cli.main(["run", "--profile-memory", "-o", "m.memory.html", "-c", code]) == 0
    assert (tmp_path / "m.memory.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("words", [["--sample"], ["--sample-tasks"], ["--no-calls"]])
def test_statistics_of_calls_need_calls(words: list[str], tmp_path: Path, capsys: Capsys) -> None:
    assert cli.main(["run", *words, "-o", "s.pstats", "-c", "open('ran', 'w')"]) == 2
    assert "Add --calls" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "label", "stem"),
    [
        (ProgramCall("script", "folder/train.py", ()), "folder/train.py", "train"),
        (ProgramCall("script", "folder/app.zip", ()), "folder/app.zip", "app.zip"),
        (ProgramCall("script", "/", ()), "/", "program"),
        (ProgramCall("module", "package.main", ()), "-m package.main", "package.main"),
        (ProgramCall("code", "print(1)", ()), "-c", "command"),
        (ProgramCall("stdin", "-", ()), "-", "stdin"),
    ],
)
def test_names_of_the_range_and_the_trace(call: ProgramCall, label: str, stem: str) -> None:
    assert (call.label, call.file_stem) == (label, stem)


@pytest.mark.parametrize(
    ("words", "own", "call"),
    [
        (["--with-stack", "s.py", "--with-stack"], 1, ("script", "s.py", ("--with-stack",))),
        (["--row-limit", "3", "s.py"], 2, ("script", "s.py", ())),
        (["--row-limit=3", "s.py", "-m"], 1, ("script", "s.py", ("-m",))),
        (["-m", "package.main", "x"], 0, ("module", "package.main", ("x",))),
        (["-mpackage"], 0, ("module", "package", ())),
        (["-c", "code", "-"], 0, ("code", "code", ("-",))),
        (["-ccode", "x"], 0, ("code", "code", ("x",))),
        (["-", "x"], 0, ("stdin", "-", ("x",))),
        (["--", "-"], 0, ("stdin", "-", ())),
        (["--", "-c"], 0, ("script", "-c", ())),
        (["--no-table", "--", "--odd.py", "--"], 1, ("script", "--odd.py", ("--",))),
        (["-m"], 0, None),
        (["--"], 0, None),
        (["--no-table"], 1, None),
    ],
)
def test_where_the_program_begins(
    words: list[str], own: int, call: tuple[str, str, tuple[str, ...]] | None
) -> None:
    parser = cli.make_parser("fastprof")
    given, found = cli.split_program(parser, ["run", *words])
    assert given == ["run", *words[:own]]
    assert found == (None if call is None else ProgramCall(*call))


def test_only_run_has_a_program() -> None:
    parser = cli.make_parser("fastprof")
    for words in (["report", "s.py"], ["--includes"], []):
        assert cli.split_program(parser, words) == (words, None)


@pytest.mark.parametrize(
    ("words", "now"),
    [
        (["run", "--memory", "--no-trace", "-c", "pass"], "--memory is now spelled --profile-memory"),
        (["run", "--max-mb", "9", "--no-trace", "-c", "pass"], "--max-mb is now spelled --max-records-mb"),
        (["explain", "--json", "-o", "why.json", "t.json"], "-o is now spelled --explanation"),
        (["explain", "--live", "--json", "-c", "pass"], "--json is now spelled --as-json"),
        (["diff", "--sort", "count", "t.json", "t.json"], "--sort is now spelled --sort-by"),
        (["doctor", "--json"], "--json is now spelled --as-json"),
    ],
)  # fmt: skip
def test_earlier_spellings_work_and_name_the_new_ones(
    words: list[str], now: str, tmp_path: Path, capsys: Capsys
) -> None:
    with fastprof.profile() as prof, fastprof.record_function("work"):
        pass
    prof.export("t.json")
    assert cli.main(words) == 0
    said = capsys.readouterr()
    assert f"fastprof: {now}\n" in said.err
    if "--json" in words:  # what is printed is JSON, as before
        text = Path("why.json").read_text() if "-o" in words else said.out or said.err
        assert '"findings"' in text or '"first"' in text


def test_a_trace_without_a_name_has_the_suffix_of_its_format(tmp_path: Path) -> None:
    for kind, name in (("speedscope", "command.speedscope.json"), ("chrome", "command.trace.json")):
        assert cli.main(["run", "--no-table", "--to", kind, "-c", RANGES]) == 0
        assert (tmp_path / name).is_file()


def test_a_page_of_a_run_has_the_name_that_is_given(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "work.py").write_text(RANGES)
    assert cli.main(["run", "--html=page.html", "--no-table", "work.py", "--html"]) == 0
    assert "['work.py', '--html']" in capsys.readouterr().out
    assert cli.main(["run", "--html", "--no-table", "work.py"]) == 0
    assert {p.name for p in tmp_path.iterdir()} == {"page.html", "work.html", "work.py"}
