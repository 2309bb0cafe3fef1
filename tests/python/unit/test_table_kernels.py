# SPDX-License-Identifier: Apache-2.0
"""Native passes over tables, trees and averages: as NumPy and plain loops have them; invalid indices are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastprof.analysis.memory_attribution import attribute_memory
from fastprof.model.grouping import group_firsts, group_floats, group_times, group_usage
from fastprof.model.sites import Site
from fastprof.model.table import EventFlag, EventKind, EventTable
from fastprof.model.tree import EventTree, sum_by
from fastprof.views import EventList
from fastprof.views.frame import display_codes, display_codes_by_site, machinery_rows

SITES = [
    Site("aten::a", category="cpu_op", scope=0),
    Site("aten::b", category="cpu_op", scope=0),
    Site("aten::a", category="user_annotation"),
    Site("Iteration: 1"),
    Site("profiler::_record_function_enter"),
    Site("[memory]", device_type=0),
    Site("[memory]", device_type=1, device_index=0),
]
MEMORY_SITES = (5, 6)
RANGE, ASYNC = int(EventKind.RANGE), int(EventKind.ASYNC_RANGE)
MEMORY, FAILED = int(EventKind.MEMORY), int(EventKind.OUT_OF_MEMORY)


def random_table(seed: int, **changes: Any) -> EventTable:
    """Return rows of all kinds in the order of their begins, each after its parent, on one or two devices."""
    drawn = np.random.default_rng(seed)
    size = int(drawn.choice([0, 1, 5, 60, 400]))
    odds = [[1.0, 0, 0, 0, 0], [0.6, 0.1, 0.2, 0.05, 0.05], [0.7, 0, 0.3, 0, 0]][seed % 3]
    kind = drawn.choice([RANGE, ASYNC, MEMORY, FAILED, int(EventKind.MARK)], size, p=odds)
    site = drawn.integers(0, 5 if seed % 2 else 4, size)
    site = np.where(kind == MEMORY, drawn.choice(MEMORY_SITES, size), site)
    rows = np.arange(size)
    parent = rows - drawn.integers(1, 4, size)
    parent = np.where((parent < 0) | (drawn.random(size) < 0.1), -1, parent)
    start = np.cumsum(drawn.integers(1, 9, size))
    words = drawn.integers(-(2**40), 2**40, 4 * size).astype(np.int64).view(np.uint64)
    words[drawn.random(4 * size) < 0.2] = 0
    columns = {
        "start_ns": start,
        "end_ns": start + drawn.integers(0, 50, size),
        "site": site,
        "parent": parent,
        "payload": rows * 4,
        "kind": kind,
        "flags": np.where(drawn.random(size) < (seed % 4 == 1) / 8, EventFlag.CROSS_THREAD_END, 0)
        | 1,
        "flops": drawn.choice(
            [np.nan, 0.0, 0.5, 1e17, np.inf], size, p=[0.3, 0.3, 0.3, 0.09, 0.01]
        ),
        **({"device_type": drawn.choice([0, 1], size)} if seed % 5 == 0 else {}),
        **changes,
    }
    return EventTable(columns, sites=SITES, payload_words=words, begin_ordered=True)


def same(first: Any, second: Any) -> bool:
    if isinstance(first, (tuple, list)):
        return all(same(a, b) for a, b in zip(first, second, strict=True))
    return first is second or bool(np.array_equal(first, second))


@pytest.mark.parametrize("seed", range(60))
def test_memory_is_told_as_numpy_tells_it(seed: int) -> None:
    table = random_table(seed)
    plain, quick = attribute_memory(of_a_file(table)), attribute_memory(table)
    assert plain.column_names == quick.column_names
    assert list(plain.sites) == list(quick.sites)
    for name in plain.column_names:
        assert same(plain.column(name), quick.column(name)), name


@pytest.mark.parametrize("seed", range(60))
def test_trees_are_those_of_numpy_and_sums_those_of_loops(seed: int) -> None:
    table = attribute_memory(random_table(seed))
    hidden = machinery_rows(table)
    plain = EventTree.of(table, hidden=hidden)
    plain = plain.dedupe(display_codes(plain)[0])
    tree = EventTree.of_capture(table, hidden, display_codes_by_site(table.sites))
    assert tree is not None
    assert same(plain.rows, tree.rows) and same(plain.parent, tree.parent)
    assert plain.parent.dtype == tree.parent.dtype
    groups = max(len(SITES) + 3, 7)
    for codes in (display_codes(tree)[0], np.arange(len(tree)) % 7):
        total, own, count = group_times(tree, codes, groups)
        assert count.tolist() == np.bincount(codes, minlength=groups).tolist()
        assert same(total, sum_by(codes, tree.total_ns, groups))
        assert same(own, sum_by(codes, tree.self_ns, groups))
        for name in ("cpu_memory_usage", "device_memory_usage", "id"):
            expected = (
                sum_by(codes, each, groups) for each in (tree.column(name), tree.self_of(name))
            )
            assert same(group_usage(tree, name, codes, groups), tuple(expected))
        for order in (None, np.arange(len(tree))[::-1].copy()):
            places = range(len(tree)) if order is None else order.tolist()
            floats, firsts = [0.0] * groups, [-1] * groups
            for at in places:
                floats[codes[at]] += float(np.nan_to_num(tree.column("flops")[at]))
                firsts[codes[at]] = at if firsts[codes[at]] < 0 else firsts[codes[at]]
            assert group_floats(tree, "flops", codes, groups, order).tolist() == floats
            assert group_firsts(tree, codes, groups, order).tolist() == firsts


def of_a_file(table: EventTable) -> EventTable:
    """Return the table without the promise that parents precede their children."""
    return EventTable(table.to_dict(), sites=SITES, payload_words=table.payload_words)


@pytest.mark.parametrize("seed", range(12))
def test_lists_print_the_same(seed: int) -> None:
    table = attribute_memory(random_table(seed))
    options = {"profile_memory": True, "with_flops": True}
    unordered = EventTable(
        table.to_dict(), sites=list(table.sites), payload_words=table.payload_words
    )
    assert EventTree.of_capture(unordered, None, display_codes_by_site(table.sites)) is None
    plain = EventList.from_table(unordered, **options)
    quick = EventList.from_table(table, **options)
    assert plain.key_averages().table() == quick.key_averages().table()
    assert plain.table() == quick.table()
