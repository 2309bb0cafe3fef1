# SPDX-License-Identifier: Apache-2.0
"""fastprof report, diff, convert and doctor, called in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_traces import run, saved_pair
from trace_tables import T0, every_column_table, nested_table

import fastprof
from fastprof.cli.formats import FORMATS
from fastprof.model.table import EventTable

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return saved_pair(tmp_path)


def test_help_teaches(capsys: Capsys) -> None:
    for command in ((), ("run",), ("report",), ("explain",), ("diff",), ("convert",), ("doctor",)):
        with pytest.raises(SystemExit) as caught:
            run(*command, "--help")
        assert caught.value.code == 0
        text = capsys.readouterr().out
        assert "examples:" in text and "fastprof" in text
        for line in text.splitlines():
            assert len(line) <= 110
        assert ".htmlmemory" not in text
    assert run() == 0
    assert "examples:" in capsys.readouterr().out


def test_report_prints_the_table(tmp_path: Path, capsys: Capsys) -> None:
    table = nested_table(300)
    path = tmp_path / "t.fastprof"
    fastprof.save(table, path)
    csv, js = tmp_path / "a.csv", tmp_path / "a.json"
    assert (
        run("report", path, "--sort-by", "count", "--row-limit", "3", "--csv", csv, "--json", js)
        == 0
    )
    out = capsys.readouterr().out
    expected = fastprof.EventList.from_table(table).key_averages()
    assert expected.table(sort_by="count", row_limit=3) in out
    assert "program, pid 77: 300 rows on 3 threads" in out
    assert len(csv.read_text().splitlines()) == len(expected) + 2  # one name has a line end
    assert len(json.loads(js.read_text())) == len(expected)


def test_errors_are_one_line_and_code_2(tmp_path: Path, capsys: Capsys) -> None:
    fastprof.save(nested_table(30), tmp_path / "t")
    (tmp_path / "bad").write_text('{"traceEvents": [1]}')
    for args, message in (
        (("report", tmp_path / "absent"), "cannot read"),
        (("report", tmp_path / "bad"), "event 0"),
        (("report", tmp_path / "t", "--sort-by", "beauty"), "self_cpu_time_total"),
        (("convert", tmp_path / "t", tmp_path / "x.doc"), "unknown format of"),
        (("diff", tmp_path / "t", tmp_path / "absent"), "cannot read"),
        (("diff", tmp_path / "t", tmp_path / "t", "--metric", "device_time_total"), "device_time"),
    ):
        assert run(*args) == 2
        err = capsys.readouterr().err
        assert "error:" in err and message in err and "Traceback" not in err
    for wrong in ("0", "-1", "x"):
        with pytest.raises(SystemExit) as caught:
            run("report", tmp_path / "t", "--max-memory-mb", wrong)
        assert caught.value.code == 2 and "--max-memory-mb" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        run("diff", "only one")
    assert caught.value.code == 2


def test_diff_lists_changes_by_size(
    pair: tuple[Path, Path], capsys: Capsys, tmp_path: Path
) -> None:
    assert run("diff", *pair, "--json", tmp_path / "d.json") == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines[lines.index("") + 3 :]]
    body = [row for row in rows if not row[0].startswith("-")]
    assert [row[0] for row in body] == ["slower", "new", "gone", "tiny", "steady", "all"]
    assert body[0] == ["slower", "1", "1", "1.000", "1.200", "+0.200", "+20.0", "%"]
    assert body[1][-1] == "new" and body[2][-1] == "gone"
    document = json.loads((tmp_path / "d.json").read_text())
    by_name = {row["name"]: row for row in document["names"]}
    assert by_name["new"]["percent"] is None and by_name["new"]["calls"] == [0, 1]
    assert by_name["slower"]["change_us"] == pytest.approx(200)
    assert document["total"]["time_us"] == pytest.approx([1251, 1463])


@pytest.mark.parametrize(
    ("limits", "exceeded"),
    [
        ((), []),
        (("--max-growth", "10"), ["slower", "new", "tiny"]),
        (("--max-growth", "10%", "--min-ms", "0.05"), ["slower", "new"]),
        (("--max-growth", "25", "--min-ms", "0.1"), []),
        (("--max-growth", "20"), ["new", "tiny"]),
        (("--max-growth", "19.9", "--min-ms", "1.2"), ["slower"]),
        (("--max-total-growth", "16"), ["all together"]),
        (("--max-total-growth", "17"), []),
        (("--per-call", "--max-growth", "150", "--min-ms", "0.1"), []),
        (("--per-call", "--max-total-growth", "16"), ["all together"]),
    ],
)
def test_diff_limits_make_the_exit_code(
    pair: tuple[Path, Path], capsys: Capsys, limits: tuple[str, ...], exceeded: list[str]
) -> None:
    assert run("diff", *pair, *limits) == (1 if exceeded else 0)
    out = capsys.readouterr().out
    assert [line.split(": ")[1] for line in out.splitlines() if "EXCEEDED" in line] == exceeded


def test_diff_of_a_trace_with_itself_is_nothing(pair: tuple[Path, Path], capsys: Capsys) -> None:
    limits = ("--max-growth", "0", "--max-total-growth", "0")
    for sort in ("change", "growth", "percent", "name", "count"):
        assert run("diff", pair[0], pair[0], "--sort-by", sort, *limits) == 0
    assert "+0.0 %" in capsys.readouterr().out


def test_limits_of_rows_reach_the_command(pair: tuple[Path, Path], capsys: Capsys) -> None:
    def names(*more: str) -> list[str]:
        assert run("diff", *pair, *more) == 0
        rows = capsys.readouterr().out.split("\n\n")[1].splitlines()[2:]
        return [row.split()[0] for row in rows if not row.startswith("-")]

    assert names("--row-limit", "2")[:2] == ["slower", "new"]
    assert "gone" not in names("--row-limit", "2") and "steady" in names("--row-limit", "-1")


def test_convert_to_views(tmp_path: Path) -> None:
    fastprof.save(nested_table(60), tmp_path / "in")
    for name in ("o.folded", "o.speedscope.json", "o.csv"):
        assert run("convert", tmp_path / "in", tmp_path / name) == 0
        assert (tmp_path / name).stat().st_size > 100
    assert run("convert", tmp_path / "in", tmp_path / "o.memory.html") == 2  # no memory in it


def test_convert_to_stdout_in_every_format(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    args = {"Addr": 1, "Bytes": 64, "Total Allocated": 64, "Device Type": 0, "Device Id": -1}
    place = {"pid": 1, "tid": 1}
    events = [
        {"ph": "X", "name": "step", "ts": 0, "dur": 9, **place},
        {"ph": "i", "name": "[memory]", "ts": 3, "args": args, **place},
    ]
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"traceEvents": events}))
    for kind in ("chrome", "perfetto", "memory", "html"):
        output = tmp_path / f"out{FORMATS[kind][0][0]}"
        assert run("convert", "--to", kind, path, output) == 0
        assert run("convert", "--to", kind, path, "-") == 0
        assert capfdbinary.readouterr().out[:40] == output.read_bytes()[:40]


@pytest.mark.parametrize("option", [(), ("--no-source",)])
def test_a_comparison_has_source_files_unless_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    path = tmp_path / "t.fastprof"
    fastprof.save(nested_table(5), path)
    asked: list[bool] = []
    monkeypatch.setattr(
        "fastprof.report.export.export_comparison", lambda *_, sources, **__: asked.append(sources)
    )
    page = tmp_path / "page.html"
    page.write_text("")
    assert run("diff", path, path, "--html", page, *option) == 0
    assert asked == [not option]


def test_tables_of_any_order_and_kind_become_traces(tmp_path: Path) -> None:
    """A table with every column and its rows in random order can be written and read again."""
    table = every_column_table()
    order = np.random.default_rng(1).permutation(len(table))
    fastprof.save(table[order], tmp_path / "in")
    assert run("convert", tmp_path / "in", tmp_path / "o.json") == 0
    assert len(fastprof.load(tmp_path / "o.json")) == len(table)


def test_doctor_tells_in_text_and_json(capsys: Capsys) -> None:
    assert run("doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    topics = [line[4:].split()[0] for line in lines[:4]]
    assert topics == ["recording", "torch", "devices", "machine"]
    assert (
        lines[0].startswith("ok  recording")
        and "fastprof doctor -v" in lines.pop(4)
        and len(lines) == 4
    )
    assert run("doctor", "-v") == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line[:4] in ("ok  ", "no  ", "--  ") for line in lines)
    assert lines[0].startswith("ok  recording") and len(lines) > 15
    assert run("doctor", "--as-json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["can_record"] is True
    topics = [finding["topic"] for finding in document["findings"]]
    for topic in (
        "recording",
        "clock",
        "membarrier",
        "perf counters",
        "huge pages",
        "CPUs",
        "CUDA",
        "torch",
    ):
        assert topic in topics
    assert all(finding["text"] for finding in document["findings"])


def test_doctor_of_a_machine_that_has_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    from fastprof.cli import checks

    def fail(*_: Any) -> tuple[int, int]:
        return -1, 38

    monkeypatch.setattr(checks, "_read", lambda path: "")
    monkeypatch.setattr(checks, "_syscall", fail)
    monkeypatch.setattr(
        checks, "recording_check", lambda: [checks.Finding("recording", False, "x")]
    )
    monkeypatch.setattr(checks.importlib.util, "find_spec", lambda name: None)
    assert run("doctor") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "no  recording  x" and len(lines) == 5
    assert lines[3].startswith("--  machine") and "perf counters" in lines[3]
    assert run("doctor", "-v") == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("no") for line in lines) >= 12


def test_diff_writes_names_that_are_no_unicode(tmp_path: Path) -> None:
    table = EventTable(
        {"start_ns": [T0], "end_ns": [T0 + 5_000], "site": [0]},
        sites=[fastprof.Site("half \ud800 pair")], t0_ns=T0,
    )  # fmt: skip
    fastprof.save(table, tmp_path / "a.fastprof")
    path = tmp_path / "a.fastprof"
    assert run("diff", path, path, "--json", tmp_path / "d.json") == 0
    document = json.loads((tmp_path / "d.json").read_text())
    assert document["names"][0]["name"] in ("half ? pair", "half \ufffd pair")


def test_a_report_needs_a_trace(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the page is written
    trace = tmp_path / "t.fastprof"
    fastprof.save(nested_table(30), trace)
    for more in ((), ("--html", tmp_path / "r.html"), ("--html", tmp_path / "r.htm.gz")):
        assert run("report", *more) == 2
        assert "no trace to read. Add FILE" in capsys.readouterr().err
    assert run("report", "--html", trace) == 0  # FILE, where it looks like the path of the page
    assert str(trace) in capsys.readouterr().out


def test_an_input_is_never_replaced(pair: tuple[Path, Path], capsys: Capsys) -> None:
    a, b = pair
    link = a.with_name("link.html")
    link.symlink_to(b)
    before = a.read_bytes(), b.read_bytes()
    for words, path in (
        (("report", "--csv", a, a), a),
        (("report", f"--html={link}", a, b), link),
        (("diff", "--json", a, a, b), a),
        (("convert", "--to", "native", a, a), a),
        (("merge", "--to", "csv", "-o", b, a, b), b),
        (("explain", "--explanation", b, a, b), b),
        (("run", "--to", "csv", "-o", a, a), a),
    ):
        assert run(*words) == 2
        message = f"cannot write {path}: the command reads this file, and would replace it."
        assert message in capsys.readouterr().err
    assert run("report", "--csv", "one", "--json", "./one", a) == 2
    assert "two results have this name" in capsys.readouterr().err
    assert (a.read_bytes(), b.read_bytes()) == before
