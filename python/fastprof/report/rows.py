# SPDX-License-Identifier: Apache-2.0
"""ReportRows: the rows of the report: events by lane, within a lane by start, with their depth.

A lane is a group of lines in the timeline: the ranges of a thread, its async ranges, or a stream of a device. In a
lane, the parent of a row is the last row before it that is one level up, so depths replace the parent column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.device_type import device_type_name
from fastprof.base.distinct import distinct
from fastprof.model.parents import new_numbers
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["Lane", "ReportRows", "arrange"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Lane:
    """A group of rows. kind: "thread", "async" or "device". track: index into the tracks."""

    kind: str
    track: int
    device: str  # "cuda:0", for kind "device"
    stream: int  # device_resource_id, for kind "device"
    first: int  # row of the report
    count: int


@dataclass(frozen=True)
class ReportRows:
    """The rows in the order of the report; arrays of equal length."""

    tree: EventTree
    order: Array | None  # tree index of each row; None: the same
    lanes: list[Lane]
    start_ns: Array
    end_ns: Array
    depth: Array

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def table(self) -> EventTable:
        """The table whose rows these are."""
        return self.tree.table

    def take(self, by_tree: Array) -> Array:
        """Return an array of the tree's length in the report's order."""
        return by_tree if self.order is None else by_tree[self.order]

    def column(self, name: str) -> Array:
        """Return a column of the table for these rows."""
        return self.take(self.tree.column(name))

    def of_table_rows(self) -> Array:
        """Return the report row of each table row, -1 for none; one more entry at the end is -1."""
        rows = np.arange(len(self.tree)) if self.tree.rows is None else self.tree.rows
        return new_numbers(self.take(rows), len(self.table))


def arrange(tree: EventTree) -> ReportRows:
    """Return the rows of a tree in the report's order. Rows of captures have that order already, without a sort."""
    table = tree.table
    code, kinds = _lane_codes(tree)
    start = tree.column("start_ns")
    depth = _lane_depth(tree)
    changes = np.flatnonzero(code[1:] != code[:-1]) + 1 if len(code) else np.zeros(0, np.int64)
    firsts = np.concatenate([[0], changes]) if len(code) else changes
    order = None
    ordered = len(distinct(code[firsts])) == len(firsts) and table.begin_ordered
    if ordered and len(start):
        backwards = np.flatnonzero(start[1:] < start[:-1]) + 1
        ordered = bool(np.isin(backwards, changes).all())
    if not ordered:
        end = tree.column("end_ns")
        order = np.lexsort((depth, -end, start, code))
        code = code[order]
        changes = np.flatnonzero(code[1:] != code[:-1]) + 1
        firsts = np.concatenate([[0], changes]) if len(code) else changes
        start, depth = start[order], depth[order]
    counts = np.diff(np.append(firsts, len(code)))
    lanes = [
        Lane(*kinds[int(code[first])], int(first), int(count))
        for first, count in zip(firsts, counts, strict=True)
    ]
    end = tree.column("end_ns")
    return ReportRows(tree, order, lanes, start, end if order is None else end[order], depth)


def _lane_depth(tree: EventTree) -> Array:
    """Return the depth of each tree row among the rows of its own track."""
    if tree.away_ns is None:
        return tree.depth
    absent = np.zeros(len(tree.table), np.bool_)
    if tree.rows is not None:
        absent[:] = True
        absent[tree.rows] = False
    return EventTree.of(tree.table, hidden=absent).depth


def _lane_codes(tree: EventTree) -> tuple[Array, dict[int, tuple[str, int, str, int]]]:
    """Return (lane code of each tree row, lane code -> kind, track, device, stream)."""
    table = tree.table
    track = tree.column("track").astype(np.int64)
    code = track * 2
    is_async = tree.is_async
    if is_async is not None:
        code = code + is_async
    kinds: dict[int, tuple[str, int, str, int]] = {}
    if tree.on_cpu is not None:
        on_device = np.flatnonzero(~tree.on_cpu)
        parts = [
            tree.column(name)[on_device].astype(np.int64)
            for name in ("device_type", "device_index", "device_resource_id")
        ]
        pids = np.array([t.pid for t in table.tracks] or [table.pid], np.int64)
        process = pids[np.minimum(track[on_device], len(pids) - 1)]
        keys, inverse, at = _unique_rows([process, *parts])
        base = int(code.max()) + 2
        code = code.copy()
        code[on_device] = base + inverse
        for number, (_, device, index, stream) in enumerate(keys):
            name = f"{device_type_name(device)}:{index}"
            kinds[base + number] = ("device", int(track[on_device[at[number]]]), name, stream)
    for value in distinct(code).tolist():
        if value not in kinds:
            kinds[value] = ("async" if value % 2 else "thread", value // 2, "", 0)
    return code, kinds


def _unique_rows(columns: list[Array]) -> tuple[list[tuple[int, ...]], Array, Array]:
    stacked = np.stack(columns, axis=1)
    keys, first, inverse = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    return [tuple(row) for row in keys.tolist()], inverse.reshape(-1), first
