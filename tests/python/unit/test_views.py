# SPDX-License-Identifier: Apache-2.0
"""EventList, FunctionEvent and FunctionEventAvg: each rule on hand-written events, as objects and as columns."""

from __future__ import annotations

from typing import Any

import pytest
from made_events import both_forms, built, event, parents

from fastprof import errors
from fastprof.base.device_type import DeviceType
from fastprof.model.event_metadata import parse_metadata
from fastprof.model.table import EventTable, Site, Track
from fastprof.views import EventList, EventViewError, FunctionEvent, Interval, Kernel, MemRecordsAcc

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
        event("a", 0, 10, node_id=0), event("x", 1, 9, node_id=1), event("c", 2, 3, node_id=0)
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


def test_calls_of_python_functions_are_averaged_only_when_asked_for() -> None:
    # An op and a Python function have the same name: only the op counts, and the self time belongs to its call.
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
        assert found == [("op", 2, 13, 13)]
        assert len(rows) == 1 and "call" not in rows.table()
    everything = events.key_averages(include_python_functions=True)
    assert [(row.key, row.count, row.self_cpu_time_total) for row in everything] == [
        ("op", 3, 9),
        ("call", 1, 4),
    ]
    calls = {name: values[1:3] for name, values in columns.items()}
    nothing = EventTable(calls, sites=sites, tracks=[Track(1)])
    assert list(EventList.from_table(nothing).key_averages()) == []


def test_every_argument_of_an_event_is_its_attribute() -> None:
    given: dict[str, Any] = {
        "id": 3, "name": "op", "thread": 4, "overload_name": "out", "fwd_thread": 5, "input_shapes": [[1]],
        "stack": ["f"], "scope": 2, "use_device": "cuda", "cpu_memory_usage": 6, "device_memory_usage": 7,
        "is_async": True, "is_remote": True, "sequence_nr": 8, "node_id": 9, "device_type": DeviceType.CUDA,
        "device_index": 10, "device_resource_id": 11, "is_legacy": True, "flops": 12.0, "trace_name": "traced",
        "concrete_inputs": [13], "kwinputs": {"k": 14}, "is_user_annotation": True, "is_python_function": True,
        "activity_type": "kernel", "metadata_json": "{}", "flow_id": 15, "flow_type": 16, "flow_start": True,
        "external_id": 17, "linked_correlation_id": 18, "structured_input_shapes": [[19]],
        "structured_input_strides": [[20]],
        "input_dtypes": ["float"], "python_id": 21, "python_parent_id": 22, "python_module_id": 23,
        "finished": False,
    }  # fmt: skip
    made = FunctionEvent(start_us=1.0, end_us=2.5, extra_meta={"stream": 24}, **given)
    assert {name: getattr(made, name) for name in given} == given
    assert made.time_range == Interval(1.0, 2.5) and made.time_range.elapsed_us() == 1.5
    assert made.event_metadata is not None and made.event_metadata.stream == 24
    plain = FunctionEvent(3, "op", 4, 1.0, 2.5)
    unset = {name: getattr(plain, name) for name in given if name not in ("id", "name", "thread")}
    falsy = {name for name, value in unset.items() if not value}
    assert {name: value for name, value in unset.items() if name not in falsy} == {
        "device_resource_id": 4, "trace_name": "op", "sequence_nr": -1, "node_id": -1, "python_id": -1,
        "python_parent_id": -1, "python_module_id": -1, "finished": True,
    }  # fmt: skip
    older = FunctionEvent(3, "op", 4, 1.0, 2.5, use_cuda=True, cuda_memory_usage=5)
    assert (older.use_device, older.device_memory_usage) == ("cuda", 5)


def test_metadata_of_kinetos_kernels_copies_and_collectives() -> None:
    def read(**args: Any) -> dict[str, Any]:
        metadata = parse_metadata({key.replace("_", " "): value for key, value in args.items()})
        assert metadata is not None
        return {name: value for name, value in metadata._asdict().items() if value is not None}

    assert read(
        **{"registers per thread": 32, "shared memory": 16, "blocks per SM": 1.5},
        **{"warps per SM": 12.0, "est. achieved occupancy %": 75, "graph id": 2},
        **{"graph node id": 3, "memory bandwidth (GB/s)": 1.25, "stream": 7, "bytes": 4096},
        grid=[1, 2, 3], block="[4, 5, 6]", queued=0, priority=1, context=1,
    ) == {
        "registers_per_thread": 32, "shared_memory": 16, "blocks_per_sm": 1.5,
        "warps_per_sm": 12.0, "est_occupancy_pct": 75, "graph_id": 2, "graph_node_id": 3,
        "bandwidth_gb_s": 1.25, "stream": 7, "bytes": 4096, "grid": [1, 2, 3], "block": [4, 5, 6],
        "queued": 0, "priority": 1, "context": 1,
    }  # fmt: skip
    assert read(
        **{"Collective name": "allreduce", "dtype": '"Float"', "In msg nelems": 8},
        **{"Out msg nelems": 9, "In split size": "[1]", "Out split size": '"[2]"'},
        **{"Global rank start": 0, "Global rank stride": 1, "Group size": "2"},
        **{"Process Group Name": "0", "Process Group Description": "default_pg"},
        **{"Process Group Ranks": "[0, 1]", "Rank": 1, "Src Rank": 2, "Dst Rank": 3, "Seq": 4},
    ) == {
        "collective_name": "allreduce", "dtype": "Float", "in_msg_nelems": 8, "out_msg_nelems": 9,
        "in_split_size": "[1]", "out_split_size": "[2]", "global_rank_start": 0,
        "global_rank_stride": 1, "group_size": 2, "process_group_name": "0",
        "process_group_desc": "default_pg", "group_ranks": "[0, 1]", "rank": 1, "src_rank": 2,
        "dst_rank": 3, "seq": 4,
    }  # fmt: skip
    assert parse_metadata({}) is parse_metadata(None) is parse_metadata({"unknown": 1}) is None


def test_events_know_the_arrow_from_forward_to_backward() -> None:
    columns = {
        "start_ns": [0, 10, 20],
        "end_ns": [5, 15, 25],
        "site": [0, 1, 0],
        "track": [0, 1, 0],
    }
    numbers = {"sequence_nr": [3, 3, -1], "fwd_thread": [0, 1, 0]}
    sites = [Site("aten::mm", category="cpu_op", scope=0), Site("MmBackward0", scope=1)]
    table = EventTable(columns | numbers, sites=sites, tracks=[Track(1), Track(2)])
    forward, backward, alone = EventList.from_table(table)
    assert forward.flow_id == backward.flow_id != 0 and alone.flow_id == 0
    assert (forward.flow_start, backward.flow_start) == (True, False)
    given = EventTable(columns | {"flow_id": [7, 8, 0]}, sites=sites, tracks=[Track(1), Track(2)])
    assert [event.flow_id for event in EventList.from_table(given)] == [7, 8, 0]
