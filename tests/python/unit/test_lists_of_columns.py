# SPDX-License-Identifier: Apache-2.0
"""Lists over columns: event objects are made on access, reading changes nothing, assigned fields are used."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
from made_events import built, event

from fastprof.base.device_type import DeviceType
from fastprof.model.table import CodedColumn, EventFlag, EventTable, KernelTable, Site, Track
from fastprof.views import (
    EventList,
    Interval,
    Kernel,
)


def large_table(size: int = 1000) -> EventTable:
    start = np.arange(size, dtype=np.int64) * 10
    return EventTable(
        {"start_ns": start + 5_000, "end_ns": start + 5_007, "site": np.arange(size) % 7,
         "parent": np.full(size, -1, np.int32)},
        sites=[Site(f"n{i}") for i in range(7)], t0_ns=5_000, begin_ordered=True,
    )  # fmt: skip


def test_events_are_identical_while_held_and_free_afterwards() -> None:
    events = EventList.from_table(large_table())
    first = events[0]
    assert events[0] is first
    assert next(iter(events)) is first
    assert first.time_range == Interval(0.0, 0.007)
    gone = weakref.ref(events[1])
    assert gone() is None  # no reference cycle: freed without the garbage collector
    del first, events
    assert gc.collect() >= 0


def test_looking_changes_nothing() -> None:
    table = large_table()
    events = EventList.from_table(table)
    text = events.key_averages().table()
    for e in events[:50]:
        repr(e)
        e.input_shapes, e.stack, e.kernels  # noqa: B018
    list(events.key_averages())
    assert events.key_averages().table() == text
    assert events.event_table is table


def test_assigning_to_an_event_counts_from_then_on() -> None:
    events = EventList.from_table(large_table())
    events[0].name = "mine"
    assert "mine" in [a.key for a in events.key_averages()]
    averages = EventList.from_table(large_table()).key_averages()
    for average in averages:
        average.key = "renamed " + average.key
    assert "renamed n3" in averages.table()


def test_copies_and_pickles() -> None:
    events = EventList.from_table(large_table(10), use_device="cuda")
    for copied in (copy.copy(events), pickle.loads(pickle.dumps(events))):
        assert copied.table() == events.table()
        assert [e.name for e in copied] == [e.name for e in events]
    averages = pickle.loads(pickle.dumps(events.key_averages()))
    assert averages.table() == events.key_averages().table()
    nested = built(event("a", 0, 10), event("b", 1, 2))
    again = pickle.loads(pickle.dumps(nested))
    assert again[1].cpu_parent is again[0]


def test_row_fields() -> None:
    table = EventTable(
        {"start_ns": [1_000, 2_000], "end_ns": [9_000, 3_500], "site": [0, 1], "track": [0, 0],
         "parent": [-1, 0], "flags": [0, int(EventFlag.FINISHED)], "flops": [np.nan, 6.0],
         "fwd_thread": [-1, 3], "id": [70, 71]},
        sites=[Site("ProfilerStep#4"), Site("aten::mm", category="cpu_op", scope=0)],
        tracks=[Track(5)],
        coded={"input_shapes": CodedColumn.encode([None, [[2, 3]]])},
        kernels=KernelTable(np.array([1]), np.array([0]), np.array([2]), np.array([500]), ["k"]),
        t0_ns=1_000, begin_ordered=True,
    )  # fmt: skip
    step, mm = EventList.from_table(table, use_device="cuda")
    assert (step.name, step.trace_name, step.key) == (
        "ProfilerStep*",
        "ProfilerStep#4",
        "ProfilerStep*",
    )
    assert (step.id, step.thread, step.device_resource_id, step.finished) == (70, 5, 5, False)
    assert (step.flops, step.fwd_thread, step.input_shapes) == (None, None, [])
    assert (step.scope, step.is_user_annotation) == (7, True)
    assert (mm.flops, mm.fwd_thread, mm.input_shapes) == (6.0, 3, [[2, 3]])
    assert (mm.scope, mm.activity_type, mm.device_type) == (0, "cpu_op", DeviceType.CPU)
    assert mm.kernels == [Kernel("k", 2, 0.5)]
    assert mm.cpu_parent is step
    assert step.cpu_children == [mm]
    assert (step.device_time_total, step.cuda_time) == (0.5, 0.5)
    assert step.cpu_time_str == "8.000us"
    mm.input_shapes.append("mine")
    fresh = EventList.from_table(table)[1]
    assert fresh.input_shapes == [[2, 3]]
    with pytest.raises(AttributeError, match="no_such"):
        mm.no_such  # noqa: B018


def test_arrows_of_a_table_are_its_own() -> None:
    columns: dict[str, Any] = dict(large_table(3).to_dict())
    columns |= {"flow_id": [4, 4, 0], "flow_type": [1, 1, 0], "flow_start": [True, False, False]}
    events = EventList.from_table(EventTable(columns, sites=[Site(f"n{i}") for i in range(7)]))
    assert [(e.flow_id, e.flow_type, e.flow_start) for e in events] == [
        (4, 1, True), (4, 1, False), (0, 0, False),
    ]  # fmt: skip
    without = EventList.from_table(large_table(3))
    assert [(e.flow_id, e.flow_type, e.flow_start) for e in without] == [(0, 0, False)] * 3


def test_thread_0_is_a_forward_thread() -> None:
    columns: dict[str, Any] = {**large_table(3).to_dict(), "fwd_thread": [0, -1, 1]}
    table = EventTable(columns, sites=[Site(f"n{i}") for i in range(7)])
    assert [e.fwd_thread for e in EventList.from_table(table)] == [0, None, 1]


def test_events_that_begin_together_stay_in_their_order() -> None:
    """Events of one begin and end keep the order of their rows, among any number of others."""
    starts = [(7 * i) % 5 for i in range(200)]
    table = EventTable(
        {"start_ns": starts, "end_ns": [9] * 200, "site": range(200), "track": [i % 3 for i in range(200)]},
        sites=[Site(f"n{i}") for i in range(200)], tracks=[Track(i) for i in range(3)],
    )  # fmt: skip
    names = [e.name for e in EventList.from_table(table, dedupe=False)]
    assert names == [f"n{i}" for i in sorted(range(200), key=lambda i: starts[i])]


def test_what_was_not_recorded_is_empty_as_in_pytorch() -> None:
    """Scripts take the length of these, or look into them."""
    table = EventTable({"start_ns": [0], "end_ns": [1], "site": [0]}, sites=[Site("a")])
    (event,) = EventList.from_table(table)
    for name in (
        "input_shapes",
        "concrete_inputs",
        "structured_input_shapes",
        "structured_input_strides",
    ):
        assert getattr(event, name) == [], name
    assert (event.input_dtypes, event.kwinputs) == ([], {})
    assert (event.sequence_nr, event.node_id, event.fwd_thread) == (-1, -1, None)
    assert (event.flops, event.device_index) == (None, 0)
    assert not event.is_remote and not event.is_async


def test_a_list_that_was_changed_keeps_its_events_and_how_they_nest() -> None:
    events = EventList.from_table(
        EventList([event("a", 0, 10), event("b", 1, 5), event("c", 2, 3)]).to_table()
    )
    held = events[2]
    events.append(event("more", 20, 21))
    assert events[2] is held
    assert [e.name for e in events] == ["a", "b", "c", "more"]
    assert events[2].cpu_parent is events[1] and events[1].cpu_parent is events[0]
    assert events[0].cpu_children == [events[1]] and events[0].cpu_children[0] is events[1]
