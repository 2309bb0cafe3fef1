# SPDX-License-Identifier: Apache-2.0
"""EventList, FunctionEvent and FunctionEventAvg: each rule by hand, on objects and on columns."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import weakref
from typing import Any

import numpy as np
import pytest

from fastprof import errors
from fastprof.base.device_type import DeviceType
from fastprof.model.event_metadata import parse_metadata
from fastprof.model.table import CodedColumn, EventFlag, EventTable, KernelTable, Site, Track
from fastprof.views import (
    EventList,
    EventViewError,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
)


def event(name: str, start: float, end: float, thread: int = 1, **more: Any) -> FunctionEvent:
    return FunctionEvent(more.pop("id", 0), name, thread, start, end, **more)


def built(*events: FunctionEvent, **options: Any) -> EventList:
    listed = EventList(events, **options)
    listed._build_tree()
    return listed


def both_forms(*events: FunctionEvent, **options: Any) -> list[EventList]:
    """The events as a list of objects, and as columns."""
    columnar = EventList.from_table(EventList(events).to_table(), **options)
    return [built(*map(copy.copy, events), **options), columnar]


def parents(events: EventList) -> dict[str, str | None]:
    return {e.name: None if e.cpu_parent is None else e.cpu_parent.name for e in events}


# ---- the tree ----------------------------------------------------------------------------------


def test_a_partial_overlap_ends_the_earlier_parent() -> None:
    for events in both_forms(
        event("a", 0, 10), event("b", 5, 15), event("c", 6, 8), event("d", 9, 10)
    ):
        assert parents(events) == {"a": None, "b": None, "c": "b", "d": "b"}


def test_identical_intervals_nest_and_zero_length_at_the_end_does_not() -> None:
    for events in both_forms(event("a", 0, 10), event("b", 0, 10), event("c", 10, 10)):
        assert parents(events) == {"a": None, "b": "a", "c": None}


def test_nodes_that_interleave_on_a_thread_keep_their_children() -> None:
    for events in both_forms(
        event("a", 0, 10, node_id=0),
        event("x", 1, 9, node_id=1),
        event("c", 2, 3, node_id=0),
    ):
        assert parents(events) == {"a": None, "x": None, "c": "a"}


def test_repeats_are_removed_down_to_the_last_and_kernels_replaced() -> None:
    def make() -> list[FunctionEvent]:
        chain = [event("op", i, 20 - i, id=i, use_device="cuda") for i in range(3)]
        leaf = event("leaf", 5, 6, id=9, use_device="cuda")
        chain[0].append_kernel("outer", 0, 1.0)
        chain[2].append_kernel("inner", 0, 2.0)
        return [*chain, leaf]

    for events in both_forms(*make(), use_device="cuda"):
        assert [e.id for e in events] == [0, 9]
        assert events[0].kernels == [Kernel("inner", 0, 2.0)]
        assert [c.id for c in events[0].cpu_children] == [9]
        assert events[1].cpu_parent is events[0]
        assert events[0].self_cpu_time_total == 19
    untouched = built(event("op", 0, 10), event("op", 1, 2), event("op", 3, 4))
    assert len(untouched) == 3


def test_async_events_have_totals_only() -> None:
    for events in both_forms(
        event("a", 0, 10, is_async=True, use_device="cuda"),
        event("b", 1, 3, use_device="cuda"),
        use_device="cuda",
    ):
        first = events[0]
        assert (first.cpu_time_total, first.self_cpu_time_total, first.device_time_total) == (
            10,
            0,
            0,
        )
        assert parents(events) == {"a": None, "b": None}
        cells = events.key_averages().table().splitlines()[3].split()
        assert cells[3] == "0"  # CPU total %


def test_self_time_is_never_clamped() -> None:
    parent, child = event("p", 0, 10), event("c", 0, 30)
    parent.append_cpu_child(child)
    assert parent.self_cpu_time_total == -20


def test_device_events_have_no_cpu_time() -> None:
    for events in both_forms(
        event("k", 0, 7, device_type=DeviceType.CUDA, use_device="cuda"), use_device="cuda"
    ):
        k = events[0]
        assert (k.cpu_time_total, k.self_cpu_time_total) == (0, 0)
        assert (k.device_time_total, k.self_device_time_total) == (7, 7)


def test_device_time_of_children_counts_unless_legacy() -> None:
    def make(legacy: bool) -> list[FunctionEvent]:
        outer = event("outer", 0, 10, is_legacy=legacy, use_device="cuda")
        inner = event("inner", 1, 5, is_legacy=legacy, use_device="cuda")
        outer.append_kernel("k", 0, 2)
        inner.append_kernel("k", 0, 3)
        return [outer, inner]

    for legacy, total, own in ((False, 5, 2), (True, 2, -1)):
        for events in both_forms(*make(legacy), use_device="cuda"):
            assert events[0].device_time_total == total
            assert events[0].self_device_time_total == own


def test_no_device_time_without_a_device() -> None:
    e = event("a", 0, 1)
    e.append_kernel("k", 0, 5.0)
    assert e.device_time_total == 0
    older = event("a", 0, 1)
    older.append_kernel("k", 0, 3.0, 8.0)
    assert older.use_device == "cuda"
    assert (older.device_time_total, older.cuda_time_total) == (5.0, 5.0)
    assert older.kernels[0].start_us == 3.0
    assert event("a", 0, 1, use_cuda=True, cuda_memory_usage=4).cuda_memory_usage == 4


def test_memory_self_is_less_the_children() -> None:
    for events in both_forms(
        event("a", 0, 10, cpu_memory_usage=100, device_memory_usage=7),
        event("b", 1, 3, cpu_memory_usage=-30, device_memory_usage=7),
    ):
        assert events[0].self_cpu_memory_usage == 130
        assert events[0].self_device_memory_usage == 0


def test_backward_ops_show_the_forward_stack() -> None:
    for events in both_forms(
        event("fwd", 0, 5, sequence_nr=4, stack=["model.py"]),
        event("later", 6, 7, sequence_nr=4, stack=["other.py"]),
        event("bwd", 10, 20, thread=2, scope=1, sequence_nr=4, fwd_thread=1, stack=["engine"]),
        event("mm", 11, 12, thread=2, stack=["engine"]),
        event("lost", 30, 31, thread=2, scope=1, sequence_nr=9, fwd_thread=1, stack=["engine"]),
        event("wrapper", 40, 41, thread=2, stack=["engine"]),
    ):
        stacks = {e.name: e.stack for e in events}
        assert stacks == {
            "fwd": ["model.py"], "later": ["other.py"], "bwd": ["model.py"], "mm": ["model.py"],
            "lost": [], "wrapper": ["engine"],
        }  # fmt: skip


@pytest.mark.parametrize("apart", [1, 1 << 40], ids=["close", "far apart"])
def test_forward_stacks_are_those_of_the_first_op(apart: int) -> None:
    drawn = random.Random(7)
    rows = []
    for i in range(400):
        forward = drawn.random() < 0.6
        rows.append(
            event(
                f"op{i}", 10 * i, 10 * i + drawn.choice([5, 25]), thread=drawn.randrange(1, 4),
                scope=0 if forward else 1, sequence_nr=drawn.randrange(-1, 40) * apart,
                fwd_thread=-1 if forward else drawn.randrange(1, 5),
                stack=[f"line {i}"] if drawn.random() < 0.9 else None,
            )
        )  # fmt: skip
    objects, columns = ({e.name: e.stack for e in events} for events in both_forms(*rows))
    assert objects == columns
    assert sum(stack == [] for stack in columns.values()) > 10
    repeated = [stack[0] for name, stack in columns.items() if stack and stack[0][5:] != name[2:]]
    assert len(repeated) > len(set(repeated)) > 10


def test_links_need_cpu_events() -> None:
    cpu, device = event("a", 0, 1), event("k", 0, 1, device_type="CUDA")
    with pytest.raises(EventViewError, match="parent"):
        cpu.set_cpu_parent(device)
    with pytest.raises(EventViewError, match="child"):
        cpu.append_cpu_child(device)
    with pytest.raises(EventViewError, match="CPU"):
        device.append_kernel("k", 0, 1)
    with pytest.raises(EventViewError, match="FunctionEvent, not str"):
        cpu.set_cpu_parent("x")  # type: ignore[arg-type]
    with pytest.raises(AssertionError):  # what PyTorch raises
        device.set_cpu_parent(cpu)


# ---- averages ----------------------------------------------------------------------------------


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
    with pytest.raises(EventViewError, match="cannot take 'b'"):
        average.add(event("b", 0, 1))
    with pytest.raises(EventViewError, match="not int"):
        average.add(3)


def average_of(*events: FunctionEvent) -> FunctionEventAvg:
    average = FunctionEventAvg()
    for e in events:
        average += e
    return average


def test_total_average_ignores_keys() -> None:
    for events in both_forms(event("a", 0, 10), event("b", 2, 5, flops=4)):
        total = events.total_average()
        assert (total.key, total.count, total.cpu_time_total) == ("Total", 2, 13)
        assert total.self_cpu_time_total == events.self_cpu_time_total == 10
        assert total.flops == 4


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


# ---- lists over columns ------------------------------------------------------------------------


def large_table(size: int = 1000) -> EventTable:
    start = np.arange(size, dtype=np.int64) * 10
    return EventTable(
        {"start_ns": start + 5_000, "end_ns": start + 5_007, "site": np.arange(size) % 7,
         "parent": np.full(size, -1, np.int32)},
        sites=[Site(f"n{i}") for i in range(7)], t0_ns=5_000, begin_ordered=True,
    )  # fmt: skip


def test_no_event_object_is_made_for_averages_tables_and_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    monkeypatch.setattr(
        FunctionEvent, "_of_row", classmethod(lambda cls, rows, index: made.append(index))
    )
    events = EventList.from_table(large_table())
    assert "n3" in events.key_averages().table(sort_by="cpu_time")
    assert "n3" in events.table(row_limit=5)
    assert len(events.to_columns()["start_us"]) == len(events) == 1000
    assert events.self_cpu_time_total == pytest.approx(7.0)
    assert "<table>" in events._repr_html_()
    assert made == []


def test_events_are_identical_while_held_and_free_afterwards() -> None:
    events = EventList.from_table(large_table())
    first = events[0]
    assert events[0] is first
    assert next(iter(events)) is first
    assert first.time_range == Interval(0.0, 0.007)
    gone = weakref.ref(events[1])
    assert gone() is None  # no cycle: freed without the collector
    del first, events
    assert gc.collect() >= 0


def test_walking_a_list_keeps_no_events() -> None:
    events = EventList.from_table(large_table(5000))
    held = events[7]
    held.note = "mine"  # type: ignore[attr-defined]
    for e in events:
        assert e.id >= 0
    rows = events._rows
    assert rows is not None
    assert len(rows._alive) <= 2048  # type: ignore[union-attr]
    assert events[7] is held
    assert sum(1 for e in events if e is held) == 1


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


def test_list_operations() -> None:
    events = EventList.from_table(large_table(10))
    assert isinstance(events, list)
    assert (len(events), len(events[2:5]), events[-1].name) == (10, 3, "n2")
    assert [e.id for e in reversed(events)] == list(range(9, -1, -1))
    assert events[3] in events
    assert events.index(events[4]) == 4
    assert sorted(events, key=lambda e: -e.id)[0].id == 9
    assert len(events + events[:1]) == 11
    with pytest.raises(IndexError):
        events[10]
    events.sort(key=lambda e: -e.id)
    assert [e.id for e in events] == list(range(9, -1, -1))
    events.append(event("more", 0, 1))
    assert len(events) == 11
    assert "more" in events.key_averages().table()
    assert not EventList()
    assert str(EventList()) == ""


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


# ---- small parts -------------------------------------------------------------------------------


def test_memory_records_by_interval_include_both_ends() -> None:
    class At:
        def __init__(self, ns: int) -> None:
            self.ns = ns

        def start_ns(self) -> int:
            return self.ns

    records = [(At(30), "c"), (At(10), "a"), (At(20), "b")]
    found = MemRecordsAcc(records)
    assert [r[1] for r in found.in_interval(10, 20)] == ["a", "b"]
    assert [r[1] for r in found.in_interval(21, 29)] == []
    assert list(MemRecordsAcc([]).in_interval(0, 9)) == []


def test_sort_keys_and_time_units_are_checked() -> None:
    events = EventList([event("a", 0, 1)])
    with pytest.raises(errors.ValueError, match="self_cuda_time_total"):
        events.table(sort_by="no_such_key")
    with pytest.raises(errors.ValueError, match="s, ms, us"):
        events.table(time_unit="minutes")


def test_machinery_is_not_listed_and_its_children_move_up() -> None:
    table = EventTable(
        {"start_ns": [0, 1, 2], "end_ns": [9, 8, 3], "site": [0, 1, 2], "parent": [-1, 0, 1]},
        sites=[Site("a"), Site("aten::is_leaf"), Site("b")],
    )
    assert parents(EventList.from_table(table)) == {"a": None, "b": "a"}
    without = EventTable(
        {n: c for n, c in table.to_dict().items() if n != "parent"}, sites=table.sites
    )
    assert parents(EventList.from_table(without)) == {"a": None, "b": "a"}


def test_a_faster_nesting_kernel_can_be_given() -> None:
    table = EventTable(
        {"start_ns": [0, 1], "end_ns": [9, 8], "site": [0, 1]}, sites=[Site("a"), Site("b")]
    )
    calls: list[int] = []

    def kernel(start: Any, end: Any, group: Any) -> Any:
        calls.append(len(start))
        return np.array([-1, 0], np.int64)

    assert parents(EventList.from_table(table, kernel=kernel)) == {"a": None, "b": "a"}
    assert calls == [2]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("_ZN3foo3barEi", "foo::bar(int)"),
        ("_ZSt4cout", "std::cout"),
        ("_Z", "_Z"),
        ("_Znot mangled", "_Znot mangled"),
        ("_Zé", "_Zé"),
        ("_Z\udc80", "_Z\udc80"),
        ("Pi", "Pi"),  # a user's range, not int*
        ("t", "t"),
        ("aten::add", "aten::add"),
        ("", ""),
    ],
)
def test_only_mangled_names_are_demangled(name: str, shown: str) -> None:
    assert StringTable()[name] == shown


def test_calls_of_python_functions_are_averaged_only_when_asked_for() -> None:
    # One name is an op's and a Python function's: these are apart, and the op's self time is without its call.
    sites = [Site("op", category="cpu_op"), Site("op", category="python_function"),
             Site("call", category="python_function")]  # fmt: skip
    columns = {
        "start_ns": [0, 2000, 5000, 20000], "end_ns": [10000, 4000, 9000, 23000],
        "site": [0, 1, 2, 0], "track": [0] * 4,
    }  # fmt: skip
    events = EventList.from_table(EventTable(columns, sites=sites, tracks=[Track(1)]))
    of_objects = EventList(list(events))
    for each in (events, of_objects):
        rows = each.key_averages()
        found = [(row.key, row.count, row.cpu_time_total, row.self_cpu_time_total) for row in rows]
        assert found == [("op", 2, 13, 7)]
        assert len(rows) == 1 and "call" not in rows.table()
    everything = events.key_averages(include_python_functions=True)
    assert [(row.key, row.count) for row in everything] == [("op", 3), ("call", 1)]
    calls = {name: values[1:3] for name, values in columns.items()}
    nothing = EventTable(calls, sites=sites, tracks=[Track(1)])
    assert list(EventList.from_table(nothing).key_averages()) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (True, True),
        (False, False),
        (1, True),
        (0, False),
        ("1", True),
        ("true", True),
        ("0", False),
    ],
)
def test_whether_a_collective_is_asynchronous_is_a_truth_value(given: Any, expected: bool) -> None:
    metadata = parse_metadata({"Is asynchronized op": given})
    assert metadata is not None and metadata.is_async is expected
