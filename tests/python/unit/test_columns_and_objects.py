# SPDX-License-Identifier: Apache-2.0
"""Whatever a list shows is the same whether its events are columns in ns or objects in us that a user made."""

from __future__ import annotations

import random
from typing import Any

import pytest
from made_events import both_forms, event

from fastprof.base.device_type import DeviceType
from fastprof.model.table import EventTable, Site
from fastprof.views import EventList, FunctionEvent

TIMES = ["cpu_time_total", "self_cpu_time_total", "cpu_time"]
MEMORY = ["cpu_memory_usage", "self_cpu_memory_usage"]


def nested(seed: int) -> list[FunctionEvent]:
    """Events that nest on two threads, with what columns of the table need; times are whole us."""
    rng = random.Random(seed)
    made: list[FunctionEvent] = []

    def add(begin: int, end: int, thread: int, depth: int) -> None:
        shapes = rng.choice([[[2, 3]], [[4]], []])
        more: dict[str, Any] = {
            "input_shapes": shapes,
            "overload_name": rng.choice(["", "out"]),
            "stack": rng.choice([["a.py(1): f", "b.py(2): g"], ["a.py(1): f"], []]),
            "cpu_memory_usage": rng.choice([0, 0, 4096, -512]),
            "flops": rng.choice([None, 1000, 2_000_000]),
            "is_async": depth == 3 and rng.random() < 0.1,
            "node_id": rng.choice([-1, 0]),
        }
        made.append(event(rng.choice("abcde"), begin, end, thread, id=len(made), **more))
        at = begin + 1
        while depth < 4 and end - at > 3 and rng.random() < 0.8:
            stop = rng.randrange(at + 1, end)
            add(at, stop, thread, depth + 1)
            at = stop + 1

    for thread in (1, 2):
        for k in range(6):
            begin = 10_000 * (k + 6 * thread)  # no two threads begin something at one time
            add(begin, begin + rng.randrange(2000, 9000), thread, 0)
    return sorted(made, key=lambda e: e.time_range.start)


@pytest.mark.parametrize("seed", range(4))
def test_tables_are_the_same(seed: int) -> None:
    objects, columns = both_forms(*nested(seed))
    assert objects.table(row_limit=20) == columns.table(row_limit=20)
    for by in [
        {},
        {"group_by_input_shapes": True},
        {"group_by_stack_n": 1},
        {"group_by_overload_name": True},
    ]:
        first, second = objects.key_averages(**by), columns.key_averages(**by)
        for key in [None, *TIMES, *MEMORY, "count"]:
            assert first.table(sort_by=key) == second.table(sort_by=key)
        assert first.table(top_level_events_only=True) == second.table(top_level_events_only=True)
        for one, other in zip(first, second, strict=True):
            for field in ["key", "count", "flops", "input_shapes", "stack", *TIMES, *MEMORY]:
                assert getattr(one, field) == getattr(other, field), field
    assert objects.total_average().cpu_time_total == columns.total_average().cpu_time_total
    assert objects.self_cpu_time_total == columns.self_cpu_time_total


def test_device_times_are_the_same() -> None:
    rows = [
        event("launch", 0, 100, use_device="cuda"),
        event("mm", 10, 50, use_device="cuda"),
        event("gemm", 20, 44, 7, device_type=DeviceType.CUDA, device_index=0, use_device="cuda"),
    ]
    rows[1].append_kernel("gemm", 0, 24)
    objects, columns = both_forms(*rows, use_device="cuda")
    text = objects.key_averages().table(sort_by="device_time_total")
    assert text == columns.key_averages().table(sort_by="device_time_total")
    assert "24.000us" in text and "Self CUDA time total: 24.000us" in text


def test_an_annotation_is_no_op_of_the_same_name() -> None:
    """Which of the two a row is, is a property of its site."""
    table = EventTable(
        {"start_ns": [0, 10_000, 20_000], "end_ns": [5000, 12_000, 23_000], "site": [0, 1, 0]},
        sites=[Site("a", category="cpu_op"), Site("a", category="user_annotation"), Site("b")],
    )
    averages = EventList.from_table(table).key_averages()
    assert [(a.key, a.count, a.cpu_time_total, a.is_user_annotation) for a in averages] == [
        ("a", 2, 8.0, False), ("a", 1, 2.0, True),
    ]  # fmt: skip
