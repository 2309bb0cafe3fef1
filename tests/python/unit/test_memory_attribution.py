# SPDX-License-Identifier: Apache-2.0
"""Attribution of memory reports to ranges: both rules, and sums that equal the totals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprof import errors
from fastprof.analysis.memory_attribution import attribute_memory
from fastprof.model.table import NO_PAYLOAD, EventKind, EventTable, Site
from fastprof.model.tree import EventTree
from fastprof.views import EventList

SITES = [
    Site("outer"),
    Site("inner"),
    Site("other"),
    Site("cpu", kind=EventKind.MEMORY, device_type=0),
    Site("cuda", kind=EventKind.MEMORY, device_type=1),
    Site("oom", kind=EventKind.OUT_OF_MEMORY, device_type=1),
]


def table_of(rows: list[tuple[int, int, int, int, int]], **columns: Any) -> EventTable:
    """Return a table of rows (start, end, track, site, bytes)."""
    kinds = [SITES[site].kind for _, _, _, site, _ in rows]
    payload = np.where(
        np.array(kinds, np.int64) >= EventKind.MEMORY, np.arange(len(rows)) * 4, NO_PAYLOAD
    )
    words = np.zeros((len(rows), 4), np.int64)
    words[:, 1] = [row[4] for row in rows]
    return EventTable(
        {
            "start_ns": np.array([r[0] for r in rows], np.int64),
            "end_ns": np.array([r[1] for r in rows], np.int64),
            "track": np.array([r[2] for r in rows], np.uint32),
            "site": np.array([r[3] for r in rows], np.uint32),
            "kind": np.array(kinds, np.uint8),
            "payload": payload,
            **columns,
        },
        sites=SITES,
        payload_words=words.reshape(-1).view(np.uint64),
    )


ROWS = [
    (0, 100, 0, 0, 0),  # outer
    (5, 5, 0, 3, 10),  # in outer
    (10, 50, 0, 1, 0),  # inner
    (20, 20, 0, 3, 100),  # in inner
    (30, 30, 0, 4, 7),  # in inner, on a device
    (50, 50, 0, 3, 1),  # at inner's end
    (150, 150, 0, 3, 5),  # outside of all ranges
    (160, 160, 0, 5, 999),  # out of memory
    (0, 40, 1, 2, 0),  # another thread
    (20, 20, 1, 3, -30),  # a free there
]
PARENTS = np.array([-1, 0, 0, 2, 2, 0, -1, -1, -1, 8], np.int32)


def usage(table: EventTable, **options: Any) -> dict[str, tuple[int, int, int]]:
    events = EventList.from_table(table, profile_memory=True, **options)
    return {
        e.name: (e.cpu_memory_usage, e.self_cpu_memory_usage, e.device_memory_usage) for e in events
    }


@pytest.mark.parametrize("columns", [{}, {"parent": PARENTS}])
def test_innermost(columns: dict[str, Any]) -> None:
    table = table_of(ROWS, **columns)
    assert usage(attribute_memory(table)) == {
        "outer": (111, 11, 7),
        "inner": (100, 100, 7),
        "other": (-30, -30, 0),
        "[memory]": (5, 5, 0),
        "[OutOfMemory]": (0, 0, 0),
    }
    assert not table.has("cpu_memory_usage")


def test_interval_is_pytorchs_rule() -> None:
    assert usage(attribute_memory(table_of(ROWS), "interval")) == {
        "outer": (81, 10, 7),
        "inner": (71, 71, 7),  # both ends included, and the other thread's free
        "other": (80, 80, 7),
        "[memory]": (5, 5, 0),
        "[OutOfMemory]": (0, 0, 0),
    }


def test_a_table_without_memory_records_is_returned_and_rules_are_checked() -> None:
    table = table_of(ROWS[:1])
    assert attribute_memory(table) is table
    with pytest.raises(errors.ValueError, match="innermost, interval"):
        attribute_memory(table, "nearest")
    broken = table_of(ROWS).with_columns({"payload": np.full(len(ROWS), NO_PAYLOAD)})
    with pytest.raises(errors.ValueError, match="payload"):
        attribute_memory(broken)


rows_strategy = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 1), st.integers(0, 4), st.integers(-9, 9)),
    max_size=25,
).map(lambda rows: [(s, s + (d if site < 3 else 0), t, site, b) for s, d, t, site, b in rows])  # fmt: skip


@given(rows_strategy)
def test_interval_rule_by_brute_force(rows: list[tuple[int, int, int, int, int]]) -> None:
    table = attribute_memory(table_of(rows), "interval")
    for i, (start, end, _, site, _) in enumerate(rows):
        if site < 3:
            inside = [r[4] for r in rows if r[3] == 3 and start <= r[0] <= end]
            assert table.column("cpu_memory_usage")[i] == sum(inside)


@given(rows_strategy, st.randoms(use_true_random=False), st.booleans())
def test_innermost_rule_by_brute_force(
    rows: list[tuple[int, int, int, int, int]], random: Any, with_parents: bool
) -> None:
    """Compared with a walk up the tree from each report, also with async rows and unusual parents."""
    columns: dict[str, Any] = {
        "is_async": np.array([site < 3 and random.random() < 0.2 for _, _, _, site, _ in rows])
    }
    if with_parents:
        columns["parent"] = np.array(
            [random.randint(-1, i - 1) for i in range(len(rows))], np.int32
        )
    table = table_of(rows, **columns)
    tree = EventTree.of(table)
    listed = list(range(len(rows))) if tree.rows is None else tree.rows.tolist()
    expected = [[0, 0] for _ in rows]
    left_over = []
    for row, (_, _, track, site, size) in enumerate(rows):
        if site < 3:
            continue
        if with_parents:
            at = int(columns["parent"][row])
        else:  # the innermost of the ranges that are open then
            both = [i for i in listed if rows[i][2] == track and not columns["is_async"][i]]
            order = sorted([*both, row], key=lambda i: (rows[i][0], -rows[i][1]))
            stack: list[int] = []
            for i in order[: order.index(row) + 1]:
                begin, end = rows[i][:2]
                while stack and (begin >= rows[stack[-1]][1] or end > rows[stack[-1]][1]):
                    stack.pop()
                stack.append(i)
            at = stack[-2] if len(stack) > 1 else -1
        if at not in listed:
            left_over.append((row, site, size))
            continue
        index = listed.index(at)
        while index >= 0:
            expected[listed[index]][site - 3] += size
            index = int(tree.parent[index])
    for row, site, size in left_over:
        expected[row][site - 3] = size
    found = attribute_memory(table)
    if any(row[3] >= 3 for row in rows):
        assert found.column("cpu_memory_usage").tolist() == [cpu for cpu, _ in expected]
        assert found.column("device_memory_usage").tolist() == [other for _, other in expected]
