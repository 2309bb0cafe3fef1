# SPDX-License-Identifier: Apache-2.0
"""Averages of lists: which events form a group, which fields are summed, which are left blank, and the order."""

from __future__ import annotations

import pytest
from made_events import average_of, both_forms, event

from fastprof.base.device_type import DeviceType
from fastprof.model.table import EventTable, Site, Track
from fastprof.views import EventList, EventViewError, FunctionEventAvg


def test_key_averages_builds_the_tree_on_a_copy() -> None:
    events = EventList([event("a", 0, 10), event("a", 1, 9), event("b", 2, 3)])
    averages = events.key_averages(group_by_input_shape=True)
    assert {a.key: (a.count, a.self_cpu_time_total) for a in averages} == {"a": (1, 9), "b": (1, 1)}
    assert len(events) == 3
    assert all(e.cpu_parent is None and e.cpu_children == [] for e in events)


def test_groups_by_what_the_key_holds() -> None:
    rows = [
        event("a", 0, 1, node_id=0),
        event("a", 2, 3, node_id=1),
        event("a", 4, 5, node_id=0, is_user_annotation=True),
        event("a", 6, 7, node_id=0, is_legacy=True),
        event("a", 8, 9, node_id=0, device_type=DeviceType.XPU),
        event("a", 10, 11, node_id=0),
    ]
    for events in both_forms(*rows):
        assert [a.count for a in events.key_averages()] == [2, 1, 1, 1, 1]


def test_groups_by_shapes_stack_and_overload_and_blanks_the_rest() -> None:
    rows = [
        event("a", 0, 1, input_shapes=[[1]], stack=["f", "g"], overload_name="x"),
        event("a", 2, 3, input_shapes=[[2]], stack=["f", "h"], overload_name="x"),
        event("a", 4, 5, input_shapes=[[1]], stack=["f", "g"], overload_name="y"),
        event("a", 6, 7),
    ]
    for events in both_forms(*rows):
        assert [a.count for a in events.key_averages()] == [4]
        plain = events.key_averages()[0]
        assert (plain.input_shapes, plain.overload_name, plain.stack) == ("", "", [])
        assert [a.count for a in events.key_averages(group_by_input_shapes=True)] == [2, 1, 1]
        assert [a.count for a in events.key_averages(group_by_stack_n=1)] == [3, 1]
        assert [a.count for a in events.key_averages(group_by_stack_n=2)] == [2, 1, 1]
        assert [a.stack for a in events.key_averages(group_by_stack_n=1)] == [["f"], []]
        assert [a.count for a in events.key_averages(group_by_overload_name=True)] == [2, 1, 1]


def test_add_wants_the_same_key_and_skips_unknown_flops() -> None:
    average = FunctionEventAvg()
    assert (average.cpu_time, average.device_time) == (0.0, 0.0)
    average += event("a", 0, 2, flops=None)
    average.add(event("a", 0, 4, flops=10))
    average += average_of(event("a", 0, 6, flops=5))
    assert (average.count, average.cpu_time_total, average.cpu_time, average.flops) == (
        3,
        12,
        4,
        15,
    )
    assert average.flops_per_s == pytest.approx(15 / 12e-6)
    with pytest.raises(EventViewError, match="cannot add 'b'"):
        average.add(event("b", 0, 1))
    with pytest.raises(EventViewError, match="cannot add a int"):
        average.add(3)


def test_averages_come_in_the_order_of_their_first_event_over_all_threads() -> None:
    table = EventTable(
        {"start_ns": [0, 500, 100, 600], "end_ns": [10, 510, 110, 610], "site": [1, 0, 2, 0],
         "track": [0, 0, 1, 1], "parent": [-1] * 4},
        sites=[Site("late"), Site("first"), Site("second")], tracks=[Track(1), Track(2)],
        begin_ordered=True,
    )  # fmt: skip
    events = EventList.from_table(table)
    assert [e.name for e in events] == ["first", "second", "late", "late"]
    assert [a.key for a in events.key_averages()] == ["first", "second", "late"]
