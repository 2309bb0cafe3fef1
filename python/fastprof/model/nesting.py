# SPDX-License-Identifier: Apache-2.0
"""Algorithms of EventTree on plain arrays: nesting of intervals and exact sums by code."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_ROWS", "nest_intervals", "sum_by"]

Array: TypeAlias = NDArray[Any]

BLOCK_ROWS = 1 << 15  # rows per block: a few int64 columns of a block fit into a core's cache
_EXACT_FLOAT = 1 << 53  # integers below this are exact in float64


def sum_by(codes: Array, values: Array, size: int) -> Array:
    """Return the sum of `values` per code, added in row order; shape (size,).

    Integer values give exact int64 sums, float values float64. Codes must lie in [0, size).
    """
    if len(values) and values.strides == (0,) and not values[0]:  # broadcast zero: nothing to sum
        return np.zeros(size, np.float64 if values.dtype.kind == "f" else np.int64)
    if values.dtype.kind == "f":
        return np.bincount(codes, weights=values, minlength=size)
    bound = max(abs(int(values.max())), abs(int(values.min()))) * len(values) if len(values) else 0
    if bound < _EXACT_FLOAT:  # every partial sum is exact in float64
        return np.bincount(codes, weights=values, minlength=size).astype(np.int64)
    sums = np.zeros(size, np.int64)
    np.add.at(sums, codes, values.astype(np.int64))
    return sums


def nest_intervals(start: Array, end: Array, group: Array | None = None) -> Array:
    """Return the parent of each interval by PyTorch's rule for EventList, int32, -1 for none.

    Within a group (thread and node), intervals are pushed onto a stack in the order (start, -end,
    input order); each first pops every top with `start >= top.end or end > top.end`. Thus identical
    intervals nest, the first outermost; a zero-length interval at the end of another is outside it;
    after a partial overlap the earlier interval gets no more children.

    start, end: equal shape (n,), integers or floats, any unit. Cost: O(n log n).
    """
    size = len(start)
    parent = np.full(size, -1, np.int32)
    if size == 0:
        return parent
    order = _nesting_order(start, end, group)
    if order is not None:
        start, end = start[order], end[order]
        group = None if group is None else group[order]
    # Ends on the stack do not increase, so the parent is the nearest earlier interval that passes
    # both tests. A candidate that fails is replaced by its own candidate: pointer jumping.
    candidate = np.arange(-1, size - 1, dtype=np.int64)
    if group is not None:
        candidate[1:][group[1:] != group[:-1]] = -1
    active = np.flatnonzero(candidate >= 0)
    while len(active):
        top = candidate[active]
        popped = (end[top] <= start[active]) | (end[top] < end[active])
        active, top = active[popped], top[popped]
        candidate[active] = candidate[top]
        active = active[candidate[active] >= 0]
    if order is None:
        return candidate.astype(np.int32)
    found = candidate >= 0
    parent[order[found]] = order[candidate[found]]
    return parent


def _nesting_order(start: Array, end: Array, group: Array | None) -> Array | None:
    """Return the order by (group, start, -end), stable; None if the input is in that order."""
    first, second = start[:-1], start[1:]
    ordered = (first < second) | ((first == second) & (end[:-1] >= end[1:]))
    if group is not None:
        ordered = (group[:-1] < group[1:]) | ((group[:-1] == group[1:]) & ordered)
    if bool(ordered.all()):
        return None
    order: Array = np.lexsort((-end, start) if group is None else (-end, start, group))
    return order
