# SPDX-License-Identifier: Apache-2.0
"""EventTree: nesting, self times and deduplication, compared with sequential implementations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprof.model.grouping import group_times
from fastprof.model.table import EventKind, EventTable, KernelTable, Site
from fastprof.model.tree import EventTree, nest_intervals, sum_by


def stack_rule(start: list[int], end: list[int], group: list[int]) -> list[int]:
    """The rule of nest_intervals, applied to one interval at a time."""
    parent = [-1] * len(start)
    for g in set(group):
        rows = [i for i in range(len(start)) if group[i] == g]
        rows.sort(key=lambda i: (start[i], -end[i]))
        stack: list[int] = []
        for i in rows:
            while stack and (start[i] >= end[stack[-1]] or end[i] > end[stack[-1]]):
                stack.pop()
            if stack:
                parent[i] = stack[-1]
            stack.append(i)
    return parent


intervals = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 8), st.integers(0, 2)), max_size=40
).map(lambda rows: [(s, s + d, g) for s, d, g in rows])


@given(intervals)
def test_nesting_equals_the_sequential_rule(rows: list[tuple[int, int, int]]) -> None:
    start, end, group = ([r[i] for r in rows] for i in range(3))
    expected = stack_rule(start, end, group)
    arrays = [np.array(a, np.int64) for a in (start, end, group)]
    assert nest_intervals(*arrays).tolist() == expected
    ordered = sorted(rows, key=lambda r: (r[2], r[0], -r[1]))  # needs no sorting
    columns = [[r[i] for r in ordered] for i in range(3)]
    assert nest_intervals(*(np.array(c, np.int64) for c in columns)).tolist() == stack_rule(
        *columns
    )
    as_float = nest_intervals(arrays[0] * 0.125, arrays[1] * 0.125, arrays[2])
    assert as_float.tolist() == expected


@pytest.mark.parametrize(
    ("spans", "parents"),
    [
        (
            [(0, 10), (5, 15), (6, 8), (9, 10)],
            [-1, -1, 1, 1],
        ),  # a partial overlap removes the range from the stack
        ([(0, 10), (0, 10), (0, 10)], [-1, 0, 1]),  # equal times: the first one is the parent
        ([(0, 10), (10, 10)], [-1, -1]),  # zero-length at the end: outside
        ([(0, 10), (5, 5), (5, 5)], [-1, 0, 0]),  # two zero-length at one instant: siblings
        ([(0, 10), (1, 3), (3, 4)], [-1, 0, 0]),
    ],
)
def test_nesting_by_hand(spans: list[tuple[int, int]], parents: list[int]) -> None:
    start, end = (np.array([s[i] for s in spans], np.int64) for i in range(2))
    assert nest_intervals(start, end).tolist() == parents


def table_of(rows: list[tuple[int, int, int]], names: list[int], **columns: Any) -> EventTable:
    start, end, track = (np.array([r[i] for r in rows], np.int64) for i in range(3))
    return EventTable(
        {"start_ns": start, "end_ns": end, "track": track, "site": np.array(names, np.int64), **columns},
        sites=[Site(n, scope=7 * (n == "d")) for n in "abcd"],
    )  # fmt: skip


@given(intervals)
def test_self_times_sum_to_the_roots(rows: list[tuple[int, int, int]]) -> None:
    tree = EventTree.of(table_of(rows, [0] * len(rows)))
    roots = tree.parent < 0
    assert int(tree.self_ns.sum()) == int(tree.total_ns[roots].sum())
    for i in range(len(tree)):
        kids = np.flatnonzero(tree.parent == i)
        assert sorted(tree.children(i).tolist()) == kids.tolist()
        assert tree.self_ns[i] == tree.total_ns[i] - tree.total_ns[kids].sum()
    ones = np.ones(len(tree), np.int64)
    subtree = tree.sum_subtree(ones)
    for i in range(len(tree)):
        assert subtree[i] == 1 + subtree[tree.parent == i].sum()


USER_NAME = 3  # of a user's range: all others are ops


def dedupe_in_passes(
    parent: list[int], names: list[int]
) -> tuple[list[int], dict[int, int], dict[int, int]]:
    """PyTorch's removal of duplicates in passes. Return kept rows, their parents, and whose kernels they carry."""
    children = {i: [j for j in range(len(parent)) if parent[j] == i] for i in range(len(parent))}
    up = dict(enumerate(parent))
    kernels = {i: i for i in up}
    alive = list(up)
    while True:
        gone = set()
        for i in alive:
            p = up[i]
            if p >= 0 and names[p] == names[i] != USER_NAME and len(children[p]) == 1:
                children[p] = children[i]
                kernels[p] = kernels[i]
                for c in children[i]:
                    up[c] = p
                gone.add(i)
        if not gone:
            break
        alive = [i for i in alive if i not in gone]
    return alive, {i: up[i] for i in alive}, {i: kernels[i] for i in alive}


@given(intervals, st.randoms(use_true_random=False))
def test_dedupe_equals_the_pass_by_pass_rule(rows: list[tuple[int, int, int]], random: Any) -> None:
    names = [random.choice([0, 0, 1, USER_NAME]) for _ in rows]
    kernels = KernelTable(
        np.arange(len(rows)),
        np.zeros(len(rows), np.int32),
        np.zeros(len(rows), np.int32),
        np.array([random.randint(1, 9) for _ in rows], np.int64),
        ["k"],
    )
    table = table_of(rows, names).with_columns(kernels=kernels)
    tree = EventTree.of(table)
    before = tree.parent.copy()
    kept, parents, carried = dedupe_in_passes(tree.parent.tolist(), names)
    reduced = tree.dedupe()
    got = list(range(len(rows))) if reduced.rows is None else reduced.rows.tolist()
    assert got == kept
    assert [got[p] if p >= 0 else -1 for p in reduced.parent.tolist()] == [parents[i] for i in kept]
    if reduced.kernel_rows is not None:
        assert reduced.kernel_rows.tolist() == [carried[i] for i in kept]
    assert (tree.parent == before).all()
    assert len(tree) == len(rows)
    again = reduced.dedupe()
    assert len(again) == len(reduced)


def test_marks_counters_and_memory_rows_are_no_events() -> None:
    kinds = [EventKind.RANGE, EventKind.MARK, EventKind.RANGE, EventKind.MEMORY]
    for parent in (np.array([-1, 0, 0, 2], np.int32), None):
        columns: dict[str, Any] = {"kind": np.array(kinds, np.uint8)}
        if parent is not None:
            columns["parent"] = parent
        tree = EventTree.of(
            table_of([(0, 9, 0), (1, 1, 0), (2, 4, 0), (3, 3, 0)], [0, 1, 2, 3], **columns)
        )
        assert tree.rows is not None
        assert tree.rows.tolist() == [0, 2]
        assert tree.parent.tolist() == [-1, 0]
        assert tree.table_row(1) == 2


def test_given_parents_win_over_times() -> None:
    # A zero-length range at its parent's end keeps the parent that the recorder saw.
    table = table_of([(0, 10, 0), (10, 10, 0)], [0, 1], parent=np.array([-1, 0], np.int32))
    assert EventTree.of(table).parent.tolist() == [-1, 0]


def test_device_time_goes_up_the_tree() -> None:
    kernels = KernelTable(
        np.array([1, 2, 2]),
        np.zeros(3, np.int32),
        np.zeros(3, np.int32),
        np.array([5, 6, 7]),
        ["k"],
    )
    table = table_of(
        [(0, 9, 0), (1, 8, 0), (2, 3, 0), (100, 120, 0)], [0, 1, 2, 3], device_type=[0, 0, 0, 1]
    )
    tree = EventTree.of(table.with_columns(kernels=kernels))
    own, total = tree.device_self_and_total_ns
    assert total.tolist() == [18, 18, 13, 20]
    assert own.tolist() == [0, 5, 13, 20]
    assert tree.total_ns.tolist() == [9, 7, 1, 0]
    assert tree.self_ns.tolist() == [2, 6, 1, 0]


@given(intervals, st.randoms(use_true_random=False))
def test_grouped_times_are_the_sums_of_the_columns(
    rows: list[tuple[int, int, int]], random: Any
) -> None:
    columns = {
        "is_async": np.array([random.random() < 0.2 for _ in rows], np.bool_),
        "device_type": np.array([random.choice([0, 0, 1]) for _ in rows], np.int16),
        "kind": np.array([random.choice([0, 0, 0, 2]) for _ in rows], np.uint8),
    }
    tree = EventTree.of(table_of(rows, [0] * len(rows), **columns))
    codes = np.array([random.randint(0, 2) for _ in range(len(tree))], np.int64)
    total, own, count = group_times(tree, codes, 3)
    assert total.tolist() == sum_by(codes, tree.total_ns, 3).tolist()
    assert own.tolist() == sum_by(codes, tree.self_ns, 3).tolist()
    assert count.tolist() == np.bincount(codes, minlength=3).tolist()
