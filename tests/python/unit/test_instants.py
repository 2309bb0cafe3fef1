# SPDX-License-Identifier: Apache-2.0
"""Marks, counters, flows and memory reports as events, and exact integers among arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fastprof
from fastprof.model.instants import InstantEvent
from fastprof.model.table import EventKind

_BIG = (1 << 53) + 1


def recorded() -> fastprof.profile:
    with fastprof.profile(profile_memory=True) as prof, fastprof.record_function("range"):
        fastprof.mark("here")
        fastprof.counter("loss", 2.5)
        fastprof.counter("seen", _BIG)
        fastprof.counter("seen", -_BIG)
        fastprof.flow_begin(77, "arrow")
        fastprof.flow_end(77, "arrow")
        fastprof.report_memory_usage(0x1000, 64)
        fastprof.report_memory_usage(0x1000, -64)
    return prof


def test_instants_are_events() -> None:
    prof = recorded()
    found = prof.events().instants()
    assert [(e.kind, e.name, e.value) for e in found if e.kind < EventKind.MEMORY] == [
        (EventKind.MARK, "here", None),
        (EventKind.COUNTER, "loss", 2.5),
        (EventKind.COUNTER, "seen", _BIG),
        (EventKind.COUNTER, "seen", -_BIG),
        (EventKind.FLOW_BEGIN, "arrow", 77),
        (EventKind.FLOW_END, "arrow", 77),
    ]
    around = prof.events()[0]
    for event in found:
        assert isinstance(event, InstantEvent)
        assert event.thread == around.thread
        assert around.time_range.start <= event.time_us <= around.time_range.end
        assert prof.events().event_table.name(event.parent) == "range"  # type: ignore[union-attr]


def test_memory_reports_are_events_of_their_size() -> None:
    found = recorded().events().instants([EventKind.MEMORY])
    assert [event.value for event in found] == [64, -64]


def test_they_are_in_lists_and_averages_only_when_asked_for() -> None:
    prof = recorded()
    assert [e.name for e in prof.events()] == ["range"]
    assert [a.key for a in prof.key_averages()] == ["range"]
    assert len(prof.events().instants([EventKind.MARK])) == 1
    assert prof.key_averages().instants() == []
    assert fastprof.EventList([]).instants() == []


def test_they_survive_a_file(tmp_path: Path) -> None:
    prof = recorded()
    fastprof.save(prof, tmp_path / "run.fastprof")
    again = fastprof.EventList.from_table(fastprof.load(tmp_path / "run.fastprof"))
    assert again.instants() == prof.events().instants()


def test_integers_are_exact_everywhere(tmp_path: Path) -> None:
    numbers = {"big": _BIG, "low": -(1 << 63), "high": (1 << 63) - 1}
    with fastprof.profile() as prof, fastprof.record_function("range", **numbers):
        pass
    assert prof.events()[0].kwinputs == numbers
    for name, write in (
        ("t.json", prof.export_chrome_trace),
        ("t.pftrace", prof.export_perfetto_trace),
    ):
        write(tmp_path / name)
        events = fastprof.EventList.from_table(fastprof.load(tmp_path / name))
        text = events[0].metadata_json
        for key, number in numbers.items():
            assert f'"{key}": {number}' in text


def test_typed_values_of_instants_in_a_table() -> None:
    """Arguments of marks, values of counters, ids of flows and sizes of memory, from the words of a payload."""
    from fastprof.base.native_numbers import ArgType
    from fastprof.model.instants import instants as instants_of
    from fastprof.model.table import NO_PAYLOAD, EventKind, EventTable, Site

    types = (
        ArgType.INT64,
        ArgType.UINT64,
        ArgType.FLOAT64,
        ArgType.BOOLEAN,
        ArgType.STRING,
        ArgType.POINTER,
    )
    names = ("int", "uint", "float", "bool", "text", "pointer")
    half, minus = int(np.float64(0.5).view(np.uint64)), 2**64 - 1
    words = [minus, minus, half, 1, 1, 255, half, 7, 8, 9, minus, 1, 2, 64]
    kinds = [EventKind.MARK, EventKind.COUNTER, EventKind.FLOW_BEGIN, EventKind.FLOW_END, EventKind.MEMORY,
             EventKind.OUT_OF_MEMORY, EventKind.MARK, EventKind.COUNTER, EventKind.RANGE]  # fmt: skip
    table = EventTable(
        {
            "start_ns": [5000 + 10 * i for i in range(9)], "end_ns": [5000 + 10 * i for i in range(9)],
            "site": [0, 1, 2, 2, 2, 2, 0, 2, 2], "kind": kinds,
            "payload": [0, 6, 7, 8, 9, 13, NO_PAYLOAD, 10, 0],
        },
        sites=[
            Site("mark", arg_names=names, arg_types=types),
            Site("half", arg_names=("value",), arg_types=(ArgType.FLOAT64,)),
            Site("plain"),
        ],
        payload_words=np.array(words, np.uint64), strings=("zero", "one"), t0_ns=4000,
    )  # fmt: skip
    found = instants_of(table)
    assert [one.kind for one in found] == kinds[:-1]
    assert found[0].args == {
        "int": -1, "uint": minus, "float": 0.5, "bool": True, "text": "one", "pointer": 255,
    }  # fmt: skip
    assert [one.value for one in found] == [None, 0.5, 7, 8, -1, 64, None, -1]
    assert [one.args for one in found[1:]] == [{}] * 7
    assert (found[1].time_ns, found[1].time_us, found[1].parent, found[1].row) == (
        5010,
        1.01,
        -1,
        1,
    )
    assert [one.name for one in instants_of(table, {EventKind.COUNTER})] == ["half", "plain"]
    ranges = EventTable({"start_ns": [0], "end_ns": [1], "site": [0]}, sites=[Site("a")])
    assert instants_of(ranges) == []
