# SPDX-License-Identifier: Apache-2.0
"""Exports of lists and tables: files are complete or absent, JSON is strict, each format's rules hold."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_events import event
from strict_json import strict

import fastprof
from fastprof import errors
from fastprof.base.atomic_file import atomic_text
from fastprof.exporters.speedscope import speedscope_profile
from fastprof.exporters.stacks import STACK_METRICS, collapsed_stacks
from fastprof.model.table import EventTable, Site, Track
from fastprof.views import EventList

# ---- atomic_file -------------------------------------------------------------------------------


def test_nothing_appears_before_the_end_and_nothing_stays_after_an_exception(
    tmp_path: Path,
) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")

    def fail_halfway() -> None:
        with atomic_text(path) as file:
            file.write("half")
            file.flush()
            assert path.read_text() == "old"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]
    os.chmod(path, 0o640)
    with atomic_text(path) as file:
        file.write("new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out.txt"]


def test_the_mode_of_a_replaced_file_holds_from_the_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    before = os.umask(0o022)
    try:
        for mode in (0o600, 0o400, 0o666):
            path.unlink(missing_ok=True)
            path.write_text("old")
            path.chmod(mode)
            with atomic_text(path) as file:
                (temporary,) = (p for p in tmp_path.iterdir() if p != path)
                assert temporary.stat().st_mode & 0o777 & ~mode == 0
                file.write("new")
            assert path.stat().st_mode & 0o777 == mode
        path.unlink()
        with atomic_text(path) as file:
            file.write("new")
        assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_gzip_by_suffix_gives_equal_files_for_equal_data(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with atomic_text(tmp_path / name) as file:
            file.write("text é \udc80")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).decode() == "text é \\udc80"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_an_io_error_that_names_the_path() -> None:
    with pytest.raises(errors.IoError, match=r"/dev/full.*still in memory"):
        with atomic_text("/dev/full") as file:
            file.write("x" * 100_000)


def test_paths_may_be_bytes(tmp_path: Path) -> None:
    with fastprof.profile(with_stack=True) as profiler, fastprof.record_function("r"):
        pass
    for name in ("a.json", "b.json.gz", "c.pftrace", "d.html", "e.fastprof", "f.folded"):
        profiler.export(os.fsencode(tmp_path / name))
    profiler.export_chrome_trace(os.fsencode(tmp_path / "g.json"))
    profiler.export_stacks(os.fsencode(tmp_path / "h.txt"))
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == list("abcdefgh")
    assert "r" in [e.name for e in fastprof.load(os.fsencode(tmp_path / "b.json.gz")).events()]


def test_a_missing_folder_is_an_io_error(tmp_path: Path) -> None:
    with pytest.raises(errors.IoError, match="nowhere"):
        EventList([event("a", 0, 1)]).export_chrome_trace(tmp_path / "nowhere" / "t.json")
    assert os.listdir(tmp_path) == []


# ---- stacks ------------------------------------------------------------------------------------


def test_collapsed_stacks(tmp_path: Path) -> None:
    events = EventList(
        [
            event("a", 0, 10.9, stack=["in ner;x\ty\nz", "outer"]),
            event("b", 20, 20.5, stack=["f"]),
            event("c", 30, 40),
            event("d", 50, 60, stack=[]),
        ]
    )
    path = tmp_path / "stacks.txt"
    for form in (events, EventList.from_table(events.to_table())):
        form.export_stacks(path)
        assert path.read_text() == "outer;in_ner_x_y_z 10\n"
    assert list(collapsed_stacks(iter(events))) == ["outer;in_ner_x_y_z 10"]
    assert events.supported_export_stacks_metrics() == list(STACK_METRICS)
    with pytest.raises(errors.ValueError, match="self_cuda_time_total"):
        events.export_stacks(path, "cpu_time")
    assert path.read_text() == "outer;in_ner_x_y_z 10\n"


# ---- chrome ------------------------------------------------------------------------------------


def chrome_events(events: list[Any]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.json")
        EventList(events).export_chrome_trace(path)
        found: list[dict[str, Any]] = strict(path.read_text(encoding="utf-8"))["traceEvents"]
    return found


# Not st.text(), which leaves out lone surrogates.
nasty_text = st.lists(
    st.characters() | st.sampled_from('"\\\n\r\t\0\u2028\udc80\ud83d😀'), max_size=20
).map("".join) | st.just("n" * 100_000)
nasty_number = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e300])


@settings(max_examples=150, deadline=None)
@given(nasty_text, nasty_number, nasty_number, st.lists(nasty_text, max_size=3), nasty_number)
def test_every_json_parses_strictly(
    name: str, start: float, end: float, stack: list[str], shape: float
) -> None:
    op = event(name, start, end, stack=stack, input_shapes=[[shape], {name: shape}])
    op.append_kernel(name, 0, 1.0)
    assert len([e for e in chrome_events([op]) if e["ph"] == "X"]) == 2
    table = EventTable({"start_ns": [0], "end_ns": [5], "site": [0]}, sites=[Site(name)])
    strict(json.dumps(speedscope_profile(table), allow_nan=False).encode().decode())


# ---- columns -----------------------------------------------------------------------------------


def sample() -> EventList:
    events = EventList(
        [
            event("a", 0, 10, id=1, cpu_memory_usage=4, input_shapes=[[2, 3]], stack=["f"]),
            event('b,"c"\n', 2, 5, id=2, flops=7),
        ]
    )
    events._build_tree()
    return events


def test_csv_and_json(tmp_path: Path) -> None:
    sample().export_csv(tmp_path / "t.csv")
    with open(tmp_path / "t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["a", 'b,"c"\n']
    assert rows[0]["input_shapes"] == "[[2, 3]]"
    sample().key_averages().export_json(tmp_path / "t.json")
    records = strict((tmp_path / "t.json").read_text())
    assert [(r["name"], r["count"], r["cpu_time_total_us"]) for r in records] == [
        ("a", 1, 10.0), ('b,"c"\n', 1, 3.0),
    ]  # fmt: skip
    EventList().export_json(tmp_path / "none.json")
    assert strict((tmp_path / "none.json").read_text()) == []


@pytest.mark.integrations
def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = sample().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["cpu_time_total_us"].tolist() == [10.0, 3.0]
    assert frame["input_shapes"][0] == [[2, 3]]
    averages = sample().key_averages().to_pandas()
    assert averages["name"].tolist() == ["a", 'b,"c"\n']
    assert "start_us" not in averages


@pytest.mark.parametrize(
    ("package", "method"),
    [("pandas", "to_pandas"), ("polars", "to_polars"), ("pyarrow", "to_arrow")],
)
def test_a_missing_package_says_what_to_install(
    package: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.UnavailableError, match=rf"{package}.*pip install 'fastprof\["):
        getattr(sample(), method)()


def test_a_whole_speedscope_document() -> None:
    table = EventTable(
        {"start_ns": [1000, 1010, 1030, 1005], "end_ns": [1100, 1040, 1120, 1050], "site": [0, 1, 2, 0],
         "track": [0, 0, 0, 1]},
        sites=[Site("outer"), Site("in\ud800ner"), Site("late")], tracks=[Track(7, 1, 7, "main"), Track(9)],
    )  # fmt: skip

    def events(*brackets: tuple[str, int, int]) -> list[dict[str, object]]:
        return [{"type": kind, "frame": frame, "at": at} for kind, frame, at in brackets]

    assert speedscope_profile(table, "mine") == {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": "mine",
        "exporter": "fastprof",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": "outer"}, {"name": "in?ner"}, {"name": "late"}]},
        "profiles": [
            {
                "type": "evented", "name": "main", "unit": "nanoseconds", "startValue": 0, "endValue": 120,
                "events": events(("O", 0, 0), ("O", 1, 10), ("O", 2, 30), ("C", 2, 40), ("C", 1, 40),
                                 ("O", 2, 40), ("C", 2, 100), ("C", 0, 100), ("O", 2, 100), ("C", 2, 120)),
            },
            {
                "type": "evented", "name": "thread 9", "unit": "nanoseconds", "startValue": 0, "endValue": 120,
                "events": events(("O", 0, 5), ("C", 0, 50)),
            },
        ],
    }  # fmt: skip


def test_chrome_trace_of_a_hand_made_list(tmp_path: Path) -> None:
    op = event("op", 10, 20, use_device="cuda")
    op.append_kernel("first", 2, 3.0)
    op.append_kernel("second", 2, 4.0)
    remote = event("far", 0, 5, thread=7, is_remote=True, node_id=3)
    silent = event("[memory]", 0, 0, trace_name=None)
    path = tmp_path / "trace.json.gz"
    EventList([op, remote, silent]).export_chrome_trace(path)
    written = strict(gzip.decompress(path.read_bytes()).decode())["traceEvents"]
    slices = {e["name"]: e for e in written if e["ph"] == "X"}
    assert set(slices) == {"op", "first", "second", "far"}
    assert (slices["op"]["ts"], slices["op"]["dur"], slices["op"]["tid"]) == (10, 10, 1)
    assert slices["second"]["ts"] == slices["first"]["ts"] + 3.0  # one after the other
    assert slices["first"]["pid"] != slices["op"]["pid"]
    names = {e["pid"]: e["args"]["name"] for e in written if e["name"] == "process_name"}
    assert names[slices["far"]["pid"]] == "node 3"
    assert names[slices["first"]["pid"]] == "cuda 2"
    starts = [e for e in written if e["ph"] == "s"]
    ends = {e["id"]: e for e in written if e["ph"] == "f"}
    assert [s["id"] for s in starts] == [0, 1]
    assert all(ends[s["id"]]["pid"] == slices["first"]["pid"] for s in starts)
    assert all(type(e["pid"]) is int and type(e["tid"]) is int for e in written)
