# SPDX-License-Identifier: Apache-2.0
"""The data of the HTML report: read back in Python, equal to the table; of bounded size; the same each time."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_reader import ReportData, read_report
from report_tables import made, written
from trace_tables import T0

import fastprof
from fastprof import errors, record_function
from fastprof.model.columns import CodedColumn
from fastprof.model.table import EventTable
from fastprof.report.export import export_comparison, export_html
from fastprof.report.packing import Packer
from fastprof.report.rows import arrange
from fastprof.report.texts import MAX_TEXT
from fastprof.views import EventList


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        [],
        [0, 0, 0],
        [1, 255, 256, 65535, 65536, 2**31, 2**32, 2**40, 2**53],
        [-1, 1, -(2**40), 2**62 - 1, 0, -5],
        list(range(100_000)),
        np.random.default_rng(0).integers(0, 2**20, 100_000).tolist(),
    ],
    ids=lambda values: f"{len(values)}",
)
def test_integers_come_back(values: list[int], delta: bool) -> None:
    signed = delta or min(values, default=0) < 0
    with Packer() as pack:
        pack.block("x").integers("v", np.array(values, np.int64), delta=delta, signed=signed)
        pack.block("x").floats("f", np.array(values, np.float64) / 3)
        directory, data = pack.finish()["x"]
    head = {"blocks": {"x": directory}}
    reader = ReportData.__new__(ReportData)
    reader._blocks, reader._prefix, reader.head = {"a:block:x": data}, "a", head
    columns = reader.block("x")
    assert columns["v"].tolist() == values
    assert columns["f"].tolist() == (np.array(values, np.float64) / 3).tolist()


def test_the_rows_are_those_of_the_list(tmp_path: Path) -> None:
    def work() -> None:
        for i in range(40):
            with record_function(f"outer {i % 3}"), record_function("inner"):
                fastprof.mark("here")

    with fastprof.profile() as prof:
        threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(3)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
    data = written(prof.events(), tmp_path, title="four threads")
    rows, table = data.rows(), prof.event_table
    wanted = sorted((e.name, e.thread, e.start_ns, e.end_ns) for e in _rows(prof.events()))
    lanes = [lane["tid"] for lane in data.head["lanes"]]
    ids = {track.tid: track.id for track in table.tracks}
    got = sorted(
        (name, ids[lanes[lane]], table.t0_ns + start, table.t0_ns + start + length)
        for name, lane, start, length in zip(
            data.names(),
            rows["lane"].tolist(),
            rows["start"].tolist(),
            rows["length"].tolist(),
            strict=True,
        )
    )
    assert got == wanted and len(got) == 320
    names = {data.head["strings"][lane["name"]] for lane in data.head["lanes"]}
    assert {"worker 0", "worker 1", "worker 2"} <= names
    marks = data.block("marks")
    assert len(marks["time"]) == data.head["marks"] == 160
    assert (marks["row"] > 0).all()
    around = marks["row"] - 1
    assert (marks["time"] >= rows["start"][around]).all()
    assert (marks["time"] <= rows["start"][around] + rows["length"][around]).all()
    assert data.head["title"] == "four threads"


class _Row:
    def __init__(self, name: str, thread: int, start_ns: int, end_ns: int) -> None:
        self.name, self.thread, self.start_ns, self.end_ns = name, thread, start_ns, end_ns


def _rows(events: Any) -> list[_Row]:
    tree = events.event_tree
    table = tree.table
    numbers = [tree.table_row(i) for i in range(len(tree))]
    return [
        _Row(table.name(n), int(table.thread[n]), int(table.start_ns[n]), int(table.end_ns[n]))
        for n in numbers
    ]


def derived_parents(depth: list[int], lane: list[int]) -> list[int]:
    """The rule of the format: the last row before it, in its lane, that is one level up."""
    found, last = [], {}
    for row, level in enumerate(depth):
        found.append(last.get((lane[row], level - 1), -1) if level else -1)
        last[lane[row], level] = row
    return found


@pytest.mark.parametrize("seed", range(20))
def test_depths_give_the_parents_of_the_tree(tmp_path: Path, seed: int) -> None:
    """Rows in any order, of nested ranges on two tracks."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int, int, int]] = []

    def nest(begin: int, end: int, track: int, level: int) -> None:
        at = begin
        while at < end - 2 and level < 6:
            at += int(rng.integers(0, 3))
            stop = at + int(rng.integers(1, max((end - at) // 2, 2)))
            if stop > end:
                break
            rows.append((at, stop, int(rng.integers(0, 4)), track))
            nest(at, stop, track, level + 1)
            at = stop + 1

    nest(0, 400, 0, 0)
    nest(3, 300, 1, 0)
    shuffled = [rows[i] for i in rng.permutation(len(rows)).tolist()]
    table = made(shuffled)
    tree = EventList.from_table(table).event_tree
    assert tree is not None
    arranged = arrange(tree)
    data = written(table, tmp_path).rows()
    parents = derived_parents(data["depth"].tolist(), data["lane"].tolist())
    order = np.arange(len(tree)) if arranged.order is None else arranged.order
    position = np.append(np.empty(len(tree), np.int64), -1)
    position[order] = np.arange(len(tree))
    assert parents == position[tree.parent[order]].tolist()
    assert data["start"].tolist() == (tree.column("start_ns")[order] - T0).tolist()


def test_async_and_device_rows_have_lanes_of_their_own(tmp_path: Path) -> None:
    table = made(
        [(0, 100, 0, 0), (10, 60, 1, 0), (20, 90, 1, 0), (30, 40, 2, 0), (35, 80, 3, 1)],
        columns={
            "kind": [0, 1, 1, 0, 0],
            "device_type": [0, 0, 0, 0, 1],
            "device_index": [0, 0, 0, 0, 2],
            "device_resource_id": [0, 0, 0, 0, 9],
        },
    )
    data = written(table, tmp_path)
    lanes = [(lane["kind"], lane["count"], lane["device"]) for lane in data.head["lanes"]]
    assert lanes[:3] == [("thread", 2, ""), ("async", 2, ""), ("device", 1, "cuda:2")]
    assert [lane["stream"] for lane in data.head["lanes"][:3]] == [0, 0, 9]
    assert data.names() == ["a", "c", "b", "b", "d"]
    assert data.rows()["depth"].tolist() == [0, 1, 0, 0, 0]


def test_a_profile_without_events(tmp_path: Path) -> None:
    with fastprof.profile() as prof:
        pass
    prof.export_html(tmp_path / "empty.html")
    data = read_report(tmp_path / "empty.html")
    assert data.head["rows"] == 0 and len(data.rows()["start"]) == 0
    assert (tmp_path / "empty.html").stat().st_size < 300_000


def test_counters_memory_and_flows(tmp_path: Path) -> None:
    with fastprof.profile(profile_memory=True) as prof:
        with record_function("allocating"):
            fastprof.report_memory_usage(10, 640)
            fastprof.report_memory_usage(11, 64)
            fastprof.report_memory_usage(10, -640)
        for value in (1.5, -2.25, 3):
            fastprof.counter("loss", value)
        fastprof.flow_begin(5, "to")
        fastprof.flow_end(5, "to")
    data = written(prof.events(), tmp_path)
    (counter,) = data.head["counters"]
    assert data.head["strings"][counter["name"]] == "loss"
    assert data.block("counter 0")["value"].tolist() == [1.5, -2.25, 3.0]
    assert len(data.head["memory"]) == 1
    memory = data.block("memory 0")
    assert memory["bytes"].tolist() == [640, 64, -640]
    names = data.names()
    assert [names[row - 1] for row in memory["row"].tolist()] == ["allocating"] * 3
    assert memory["pointer"][0] == memory["pointer"][2] != memory["pointer"][1]
    assert data.head["flows"] == 1
    flows = data.block("flows")
    assert flows["from_time"][0] < flows["to_time"][0]
    usage = data.block("numbers")["cpu_memory_usage"]
    assert usage[names.index("allocating")] == 64


def test_what_is_left_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastprof.report.details.MAX_DECODED", 5)
    monkeypatch.setattr("fastprof.report.sources.MAX_FILE_BYTES", 10)
    with fastprof.profile(with_stack=True) as prof:
        for i in range(20):
            with record_function("x", number=i):
                pass
    data = written(prof.events(), tmp_path)
    codes = data.block("values")["kwinputs"]
    assert int((codes > 0).sum()) == 5
    notes = "\n".join(data.head["notes"])
    assert "arguments of 15 rows are not in this report" in notes
    assert re.search(
        r"source text of \d+ files? left out because of (its|their) size: \w+\.py", notes
    )


def test_only_program_text_is_embedded(tmp_path: Path) -> None:
    """A trace of somebody else may name any file of the reader's."""
    secret, program = tmp_path / "secret.txt", tmp_path / "program.py"
    for file in (secret, program):
        file.write_text("text of the file\n")
    stacks = [[f"{secret}(1): f", f"{program}(1): f", f"{tmp_path}(1): folder", "bad\0.py(1): f"]]
    table = made([(0, 10, 0, 0)]).with_columns(coded={"stack": CodedColumn.encode(stacks)})
    assert written(table, tmp_path).text("sources") == {str(program): "text of the file\n"}


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "a\0b\x1b[31m",
    "\u202egnp.exe\u2066",
    "lone \ud800 and \udfff surrogates",
    "<!-- -->",
    "]]>&amp;'\"`${1}",
    "long " * 2_000_000,
]


def test_hostile_names_stay_inside_the_data(tmp_path: Path) -> None:
    with fastprof.profile() as prof:
        for name in HOSTILE[:-1]:
            with record_function(name.encode("utf-8", "replace").decode(), text=name[:50]):
                pass
    export_html(prof.events(), tmp_path / "real.html", title=HOSTILE[0])
    sites = [fastprof.Site(name, file=name, function=name) for name in HOSTILE]
    table = EventTable(
        {
            "start_ns": T0 + np.arange(len(HOSTILE)),
            "end_ns": T0 + 5 + np.arange(len(HOSTILE)),
            "site": np.arange(len(HOSTILE)),
        },
        sites=sites,
        process_name=HOSTILE[0],
        t0_ns=T0,
    )
    plain = made([(0, 10, 0, 0)])
    data = written(table, tmp_path, facts={HOSTILE[0]: HOSTILE[1]}, missing={HOSTILE[1]: "x"})
    export_html(plain, tmp_path / "plain.html")
    names = data.names()
    assert set(names[:-1]) | {names[-1]} >= set(HOSTILE[:-1])
    cut = next(name for name in names if name.startswith("long"))
    assert len(cut) < MAX_TEXT + 50 and cut.endswith("more characters)")
    marker = re.compile(rb'data-block="[^"]*">[^<]*<')
    pages = [(tmp_path / f"{name}.html").read_bytes() for name in ("real", "r", "plain")]
    # Without their data, all reports are one page: no text of a profile is part of it.
    skeletons = {
        b"".join(
            line for line in marker.sub(b"<", page).splitlines() if b"octet-stream" not in line
        )
        for page in pages
    }
    assert len(skeletons) == 1


def test_the_page_allows_its_own_script_only(tmp_path: Path) -> None:
    export_html(made([(0, 10, 0, 0)]), tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1] and "http" not in policy[1]
    code = page[page.rindex("<script>") + 8 : page.rindex("</script>")]
    assert "</script" not in code.lower() and "<!--" not in code
    assert "innerHTML" not in code and "eval(" not in code and "insertAdjacent" not in code
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style and "@import" not in style
    assert len(code) + len(style) <= 1 << 20


def test_two_profiles_in_one_page(tmp_path: Path) -> None:
    before, after = made([(0, 10, 0, 0)]), made([(0, 30, 0, 0), (5, 10, 1, 0)])
    export_comparison(before, after, tmp_path / "d.html", titles=("old", "new"))
    a, b = read_report(tmp_path / "d.html", "a"), read_report(tmp_path / "d.html", "b")
    assert (a.head["title"], b.head["title"]) == ("new", "old")
    assert a.names() == ["a", "b"] and b.names() == ["a"]


def test_errors_and_repetition(tmp_path: Path) -> None:
    table = made([(0, 10, 0, 0)])
    for path in ("r.json", "r", "html"):
        with pytest.raises(errors.ValueError, match="Use a path that ends in"):
            export_html(table, tmp_path / path)
    with pytest.raises(errors.IoError, match="absent"):
        export_html(table, tmp_path / "absent" / "r.html")
    export_html(table, tmp_path / "r.html")
    first = (tmp_path / "r.html").read_bytes()
    export_html(table, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_bytes() == first
    export_html(table, tmp_path / "r.html.gz")
    assert (tmp_path / "r.html.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_a_running_profile_has_no_report(tmp_path: Path) -> None:
    prof = fastprof.profile()
    with pytest.raises(errors.StateError, match="start it"):
        prof.export_html(tmp_path / "r.html")
    with prof, pytest.raises(errors.StateError, match="didn't finish running"):
        prof.export_html(tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []
    prof.export_html(tmp_path / "r.html")
    prof.export_html(tmp_path / "r.html")
    data = read_report(tmp_path / "r.html")
    assert data.head["facts"]["fastprof"] == fastprof.__version__
