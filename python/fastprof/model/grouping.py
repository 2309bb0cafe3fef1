# SPDX-License-Identifier: Apache-2.0
"""Sums by group over a tree's rows, for averages: total and self, without intermediate columns.

Each function has a NumPy form; if the tree has native kernels (nesting.TableKernels), it calls those,
and NumPy is their test oracle. codes: the group of each tree row, in [0, groups). Any thread.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.model.nesting import BLOCK_ROWS, sum_by
from fastprof.model.tree import EventTree

__all__ = ["group_firsts", "group_floats", "group_times", "group_usage"]

Array: TypeAlias = NDArray[Any]
_NO_ROWS = np.zeros(0, np.int64)


def group_times(tree: EventTree, codes: Array, groups: int) -> tuple[Array, Array, Array]:
    """Return CPU times by group: (total ns, self ns, count), int64 each, of length `groups`.

    Equal to the sums of tree.total_ns and tree.self_ns by group, but computed in blocks of rows that
    stay in the cache: the cost per row is independent of their number, and no temporary array has
    the length of the table.
    """
    start, end = tree.table.start_ns, tree.table.end_ns
    if tree.away_ns is not None:
        counts = np.bincount(codes, minlength=groups)
        return sum_by(codes, tree.total_ns, groups), sum_by(codes, tree.self_ns, groups), counts
    if tree.table_kernels is not None:
        where = _grouped(tree, codes, groups)
        return tree.table_kernels.group_times(**where, start=start, end=end)
    total, own, count = (np.zeros(groups, np.int64) for _ in range(3))
    step = max(BLOCK_ROWS, 4 * groups)
    for low in range(0, len(tree), step):
        block = slice(low, low + step)
        rows = block if tree.rows is None else tree.rows[block]
        duration = end[rows] - start[rows]
        if tree.on_cpu is not None:
            duration = np.where(tree.on_cpu[block], duration, 0)
        code = codes[block]
        count += np.bincount(code, minlength=groups)
        sums = sum_by(code, duration, groups)
        total += sums
        if tree.is_async is not None:
            sums = sum_by(code, np.where(tree.is_async[block], 0, duration), groups)
        own += sums
        parent = tree.parent[block]
        nested = np.flatnonzero(parent >= 0)
        own -= sum_by(codes[parent[nested]], duration[nested], groups)
    return total, own, count


def group_usage(tree: EventTree, column: str, codes: Array, groups: int) -> tuple[Array, Array]:
    """Return the sums by group of a column that includes children, and of its self values, int64.

    The self values are those of EventTree.self_of. Only non-zero rows are visited, because most
    ranges use no memory of their own.
    """
    if tree.table_kernels is not None:
        values = tree.table.column(column)
        if values.strides == (0,):
            values = values[:1].repeat(len(values)) if values[:1].any() else values[:0]
        if not len(values):
            return np.zeros(groups, np.int64), np.zeros(groups, np.int64)
        where = _grouped(tree, codes, groups)
        return tree.table_kernels.group_usage(**where, values=values)[:2]
    values = tree.column(column)
    rows = np.flatnonzero(values) if values.strides != (0,) or values[:1].any() else _NO_ROWS
    values = values[rows]
    total = sum_by(codes[rows], values, groups)
    parent = tree.parent[rows]
    counts = np.ones(len(rows), np.bool_)
    nested = parent >= 0
    for mask in (None if tree.is_async is None else ~tree.is_async, tree.on_cpu):
        if mask is not None:
            counts &= mask[rows]
            nested &= mask[parent]  # parent -1 reads the last row; nested is already false there
    own = sum_by(codes[rows[counts]], values[counts], groups)
    return total, own - sum_by(codes[parent[nested]], values[nested], groups)


def group_firsts(tree: EventTree, codes: Array, groups: int, order: Array | None) -> Array:
    """Return the first row of each group in list order (order=None: as stored); -1 for empty groups."""
    if tree.table_kernels is not None:
        return tree.table_kernels.group_firsts(
            codes=codes, groups=groups, parent=tree.parent, order=order
        )
    first = np.full(groups, -1, np.int64)
    # In blocks, so that no temporary array has the length of the list; in most lists the first block
    # contains every group.
    for low in range(0, len(tree), BLOCK_ROWS):
        high = min(low + BLOCK_ROWS, len(tree))
        rows = np.arange(low, high) if order is None else order[low:high]
        rows = rows[first[codes[rows]] < 0][::-1]
        first[codes[rows]] = rows  # rows are reversed: the last write, the first row, wins
        if bool((first >= 0).all()):
            break
    return first


def group_floats(
    tree: EventTree, column: str, codes: Array, groups: int, order: Array | None
) -> Array:
    """Return the sums by group of a float column, added in list order (None: as stored); NaN is 0."""
    if tree.table_kernels is not None and tree.table.has(column):
        where = _grouped(tree, codes, groups)
        values = tree.table.column(column)
        return tree.table_kernels.group_floats(**where, order=order, values=values)
    values = np.nan_to_num(tree.column(column))
    if order is not None:
        codes, values = codes[order], values[order]
    return sum_by(codes, values, groups)


def _grouped(tree: EventTree, codes: Array, groups: int) -> dict[str, Any]:
    """Return the arguments that all grouping kernels share."""
    where = {"codes": codes, "groups": groups, "parent": tree.parent, "rows": tree.rows}
    return {**where, "on_cpu": tree.on_cpu, "is_async": tree.is_async}
