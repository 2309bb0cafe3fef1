# SPDX-License-Identifier: Apache-2.0
"""parse_records, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from fastprof.compat.records import LegacyRecord, parse_records
from fastprof.views import EventViewError

START = LegacyRecord("mark", "__start_profile", cpu_ns=1000)


def push(handle: int, name: str, ns: int, **more: Any) -> LegacyRecord:
    return LegacyRecord("push", name, handle=handle, cpu_ns=ns, **more)


def pop(handle: int, ns: int, **more: Any) -> LegacyRecord:
    return LegacyRecord("pop", handle=handle, cpu_ns=ns, **more)


def test_times_are_us_from_the_first_start_mark_of_any_list() -> None:
    events = parse_records([[push(1, "a", 2000), pop(1, 5000)], [START]])
    assert [(e.name, e.time_range.start, e.time_range.end) for e in events] == [("a", 1.0, 4.0)]
    assert events[0].is_legacy


def test_a_start_mark_must_exist_and_be_local() -> None:
    with pytest.raises(EventViewError, match=r"__start_profile.*missing"):
        parse_records([[push(1, "a", 0), pop(1, 1)]])
    with pytest.raises(EventViewError, match="remote"):
        parse_records([[LegacyRecord("mark", "__start_profile", is_remote=True)]])


def test_a_pop_without_push_names_its_key() -> None:
    with pytest.raises(EventViewError, match=r"\(7, 2\)"):
        parse_records([[START, pop(7, 5, node_id=2)]])


def test_filtered_names_and_their_pops_are_dropped() -> None:
    records = [START, push(1, "aten::is_leaf", 2000), push(2, "a", 2500), pop(2, 2600), pop(1, 3000)]  # fmt: skip
    assert [e.name for e in parse_records([records])] == ["a"]


def test_a_repeated_push_is_a_wrapper() -> None:
    records = [START, push(1, "a", 2000), push(2, "a", 2100), pop(2, 2200), pop(1, 3000)]
    assert [e.id for e in parse_records([records])] == [1]
    between = [START, push(1, "a", 2000), LegacyRecord("mark", "m"), push(2, "a", 2100),
               pop(2, 2200), pop(1, 3000)]  # fmt: skip
    assert [e.id for e in parse_records([between])] == [1, 2]


def test_memory_counts_for_every_open_range_or_stands_alone() -> None:
    memory = LegacyRecord("memory_alloc", cpu_memory_usage=8, cuda_memory_usage=2)
    records = [START, memory, push(1, "a", 2000), push(2, "b", 2100), memory, pop(2, 2200), memory,
               pop(1, 3000)]  # fmt: skip
    events = parse_records([records], profile_memory=True)
    usage = {e.name: (e.cpu_memory_usage, e.device_memory_usage) for e in events}
    assert usage == {"[memory]": (8, 2), "a": (16, 4), "b": (8, 2)}
    top = next(e for e in events if e.name == "[memory]")
    assert top.trace_name is None


def test_a_failed_allocation_is_a_row_at_its_time() -> None:
    failed = LegacyRecord(
        "out_of_memory",
        thread_id=5,
        node_id=2,
        cpu_ns=3000,
        cpu_memory_usage=8,
        cuda_memory_usage=9,
    )
    (event,) = parse_records([[START, failed]], profile_memory=True)
    assert (event.name, event.trace_name, event.is_legacy) == ("[OutOfMemory]", None, True)
    assert (event.time_range.start, event.time_range.end, event.thread) == (2.0, 2.0, 5)
    assert (event.cpu_memory_usage, event.device_memory_usage, event.node_id) == (8, 9, 2)
    with pytest.raises(EventViewError, match="unknown record kind 'pusch'"):
        parse_records([[START, LegacyRecord("pusch")]])


def test_of_equal_begins_the_longest_comes_first() -> None:
    short = [push(1, "short", 2000), pop(1, 3000), push(2, "later", 4000), pop(2, 9000)]
    long = [push(1, "long", 2000, thread_id=1), pop(1, 5000, thread_id=1)]
    for lists in ([[START], short, long], [[START], long, short]):
        assert [event.name for event in parse_records(lists)] == ["long", "short", "later"]


def test_async_by_flag_or_by_thread() -> None:
    records = [START, push(1, "a", 2000, is_async=True), pop(1, 2500), push(2, "b", 3000, thread_id=1),
               pop(2, 4000, thread_id=2)]  # fmt: skip
    assert [e.is_async for e in parse_records([records])] == [True, True]


def test_wildcards_and_stack_filter() -> None:
    stack = ("m.py(1): f", "torch/tensor.py(2): backward", "autograd/__init__.py: _make_grads")
    records = [START, push(1, "ProfilerStep#12", 2000, stack=stack), pop(1, 2500)]
    event = parse_records([records])[0]
    assert (event.name, event.trace_name) == ("ProfilerStep*", "ProfilerStep#12")
    assert event.stack == ["m.py(1): f"]


def test_device_time_and_the_begin_of_the_kernel() -> None:
    on = {"device": 0}
    records = [
        START,
        LegacyRecord("mark", "__cuda_start_event", cpu_ns=2000, device_us=50.0, **on),  # type: ignore[arg-type]
        push(1, "a", 3000, device_us=60.0, **on),
        pop(1, 4000, device_us=75.0, **on),
    ]
    events = parse_records([records], use_device="cuda")
    assert events[0].kernels == [("a", 0, 15.0)]
    assert events[0].kernels[0].start_us == 1.0 + 10.0
    assert events[0].device_time_total == 15.0
    assert "CUDA total" in events.table()
    with pytest.raises(EventViewError, match="two devices"):
        parse_records(
            [[START, push(1, "a", 1, device=0, device_us=1.0), pop(1, 2, device=1, device_us=2.0)]]
        )


def test_memory_outside_of_ranges_is_at_the_begin_of_everything() -> None:
    (event,) = parse_records(
        [[START, LegacyRecord("memory_alloc", thread_id=3, cpu_ns=9000, cpu_memory_usage=8)]],
        profile_memory=True,
    )
    assert (event.id, event.thread, event.time_range.start, event.time_range.end) == (0, 0, 0, 0)
    assert (event.name, event.stack, event.is_legacy) == ("[memory]", [], True)
