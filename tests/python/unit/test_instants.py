# SPDX-License-Identifier: Apache-2.0
"""Marks, counters, flows and memory reports as events, and exact integers among arguments."""

from __future__ import annotations

from pathlib import Path

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
