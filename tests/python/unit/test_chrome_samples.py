# SPDX-License-Identifier: Apache-2.0
"""Sampled stacks inside of a Chrome trace: DevTools' profiles, and the samples of the Trace Event Format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastprof

NODES = [
    {"id": 1, "callFrame": {"functionName": "(root)"}},
    {"id": 2, "parent": 1, "callFrame": {"functionName": "main", "url": "file:///a.js", "lineNumber": 0}},
    {"id": 3, "parent": 2, "callFrame": {"functionName": "inner", "url": "file:///a.js", "lineNumber": 9}},
]  # fmt: skip


def written(folder: Path, events: list[Any], **more: Any) -> fastprof.EventTable:
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, **more}))
    return fastprof.load(path)


def rows(table: fastprof.EventTable) -> list[tuple[str, str, int, int]]:
    """Return (thread, name, begin in us, duration in us) of each row."""
    return [
        (table.tracks[int(table.column("track")[i])].name, table.name(i),
         int(table.start_ns[i]) // 1000, int(table.end_ns[i] - table.start_ns[i]) // 1000)
        for i in range(len(table))
    ]  # fmt: skip


def test_profiles_of_devtools_are_those_of_a_cpuprofile(tmp_path: Path) -> None:
    place = {
        "pid": 4,
        "tid": 7,
        "cat": "disabled-by-default-v8.cpu_profiler",
        "ph": "P",
        "id": "0x1",
    }
    first = {"cpuProfile": {"nodes": NODES[:2], "samples": [1, 2]}, "timeDeltas": [100, 100]}
    second = {"cpuProfile": {"nodes": NODES[2:], "samples": [3, 3, 1]}, "timeDeltas": [50, 50, 50]}
    table = written(tmp_path, [
        {"ph": "M", "name": "thread_name", "pid": 4, "tid": 7, "args": {"name": "CrRendererMain"}},
        {"ph": "X", "name": "RunTask", "cat": "toplevel", "pid": 4, "tid": 7, "ts": 1000, "dur": 400},
        {**place, "name": "Profile", "ts": 1000, "args": {"data": {"startTime": 1000}}},
        {**place, "name": "ProfileChunk", "tid": 9, "ts": 1300, "args": {"data": first}},
        {**place, "name": "ProfileChunk", "tid": 9, "ts": 1400, "args": {"data": second}},
        {**place, "name": "ProfileChunk", "ts": 1500, "id": "0x2", "args": {"data": {"cpuProfile": {"nodes": [{}]}}}},
    ])  # fmt: skip
    thread = "CrRendererMain (samples)"
    assert rows(table) == [
        ("CrRendererMain", "RunTask", 1000, 400),
        (thread, "main (a.js:1)", 1200, 150),
        (thread, "inner (a.js:10)", 1250, 100),
    ]
    assert table.metadata["stack_samples"] == 5
    assert table.metadata["skipped_events"] == {"profile of V8 with values that cannot be read": 1}
    plain = tmp_path / "same.cpuprofile"
    whole = {"nodes": NODES, "startTime": 1000, "endTime": 1350, "samples": [1, 2, 3, 3, 1]}
    plain.write_text(json.dumps({**whole, "timeDeltas": [100, 100, 50, 50, 50]}))
    alone = [row[1:] for row in rows(fastprof.load(plain))]
    assert alone == [row[1:] for row in rows(table)[1:]]
    table.export(str(tmp_path / "again.json"))
    assert rows(fastprof.load(tmp_path / "again.json")) == rows(table)


def test_samples_of_the_trace_event_format(tmp_path: Path) -> None:
    frames = {"1": {"name": "main"}, "2": {"name": "read", "parent": "1"}}
    samples = [
        {"cpu": 0, "tid": 7, "ts": 10 * i, "name": "cycles", "sf": 1 + i % 2, "weight": 1}
        for i in range(4)
    ]
    table = written(
        tmp_path,
        [
            {"ph": "X", "name": "range", "pid": 4, "tid": 7, "ts": 0, "dur": 50},
            {"ph": "P", "name": "tick", "pid": 4, "tid": 8, "ts": 5, "sf": 2},
        ],
        stackFrames=frames,
        samples=[
            *samples,
            {"tid": 7, "ts": "x", "sf": 1},
            {"tid": 7, "ts": 1, "sf": 9},
            {"ts": 1e300, "sf": 1},
        ],
    )
    cycles = "thread 7 (samples: cycles)"
    assert rows(table) == [
        ("", "range", 0, 50),
        ("thread 8 (samples: tick)", "main", 5, 0),
        ("thread 8 (samples: tick)", "read", 5, 0),
        (cycles, "main", 0, 40),
        (cycles, "read", 10, 10),
        (cycles, "read", 30, 10),
    ]
    assert {track.pid for track in table.tracks} == {4}
    assert table.metadata["skipped_events"] == {"sample without a time or a stack": 3}
