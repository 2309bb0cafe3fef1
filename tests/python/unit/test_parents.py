# SPDX-License-Identifier: Apache-2.0
"""Parents of selected and reordered rows, compared with a loop over the rows."""

from __future__ import annotations

import random

import numpy as np

from fastprof.model.parents import new_numbers, skip_rows
from fastprof.model.sites import Site
from fastprof.model.table import EventKind, EventTable
from fastprof.model.tree import EventTree


def nearest(parent: list[int], kept: list[bool], row: int) -> int:
    at = parent[row]
    while at >= 0 and not kept[at]:
        at = parent[at]
    return at


def test_skipped_rows_hand_their_children_up() -> None:
    chance = random.Random(2)
    for _ in range(300):
        size = chance.randrange(60)
        parent = [chance.randrange(-1, row) if row else -1 for row in range(size)]
        if chance.random() < 0.2:  # one chain
            parent = list(range(-1, size - 1))
        order = chance.sample(range(size), size)  # parents need not come first
        moved = new_numbers(np.array(order, np.int64), size)[np.array(parent, np.int64)][order]
        kept = [chance.random() < chance.choice([0.1, 0.5, 1]) for _ in range(size)]
        found = skip_rows(moved.astype(np.int32), np.array(kept, np.bool_))
        assert found.tolist() == [nearest(moved.tolist(), kept, row) for row in range(size)]


def test_new_numbers_follow_the_rows() -> None:
    position = new_numbers(np.array([3, 0, 4]), 6, np.int32)
    assert position.tolist() == [1, -1, -1, 0, 2, -1, -1] and position.dtype == np.int32


def test_parents_of_a_tree_by_row_of_its_table() -> None:
    """Ranges that nest by time, and marks between them, which belong to no tree."""
    columns = {"start_ns": [0, 5, 10, 12, 40], "end_ns": [100, 5, 30, 20, 50]}
    kind = [EventKind.RANGE, EventKind.MARK, *[EventKind.RANGE] * 3]
    for chosen in (kind, [EventKind.RANGE] * 5):
        table = EventTable(
            {**columns, "site": [0] * 5, "kind": [int(k) for k in chosen]}, sites=[Site("a")]
        )
        expected = [-1, -1 if EventKind.MARK in chosen else 0, 0, 2, 0]
        assert EventTree.of(table).parent_rows().tolist() == expected
