# SPDX-License-Identifier: Apache-2.0
"""Lists over columns: event objects are made on access, reading changes nothing, assigned fields are used."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from fastprof.model.table import EventTable, Site
from fastprof.views import EventList, Interval


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


def test_assigning_to_an_event_counts_from_then_on() -> None:
    events = EventList.from_table(large_table())
    events[0].name = "mine"
    assert "mine" in [a.key for a in events.key_averages()]
    averages = EventList.from_table(large_table()).key_averages()
    for average in averages:
        average.key = "renamed " + average.key
    assert "renamed n3" in averages.table()


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
