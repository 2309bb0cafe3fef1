# SPDX-License-Identifier: Apache-2.0
"""Unions of time intervals, and the overlap of intervals with a union, on columns of int64 ns.

Pure functions: any thread; arguments are never modified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.distinct import distinct

__all__ = ["Interval", "covered_ns", "union_of", "without_union"]

Array: TypeAlias = NDArray[Any]


@dataclass
class Interval:
    """A time from `start` to `end` in ns, with the depth of the device queue at its start."""

    start: int
    end: int
    queue_depth: int = 0


def union_of(start: Array, end: Array) -> tuple[Array, Array]:
    """Return the union of intervals as (starts, ends), disjoint and sorted, int64; empty ones vanish."""
    kept = end > start
    if not kept.all():
        start, end = start[kept], end[kept]
    if not len(start):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.append(True, start[1:] > reach[:-1])
    return start[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)]


def covered_ns(start: Array, end: Array, union: tuple[Array, Array]) -> Array:
    """Return how many ns of each [start, end) lie in the union, int64. union: a result of union_of().

    Cost: O((n + m) log m) for n intervals and a union of m.
    """
    if not len(union[0]):
        return np.zeros(len(start), np.int64)
    end = np.maximum(start, end)
    return _covered_before(end, union) - _covered_before(start, union)


def without_union(union: tuple[Array, Array], taken: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the part of a union that another one does not cover, as a union."""
    if not len(union[0]) or not len(taken[0]):
        return union
    points = distinct(np.concatenate([*union, *taken]))
    left, right = points[:-1], points[1:]
    kept = (covered_ns(left, right, union) > 0) & (covered_ns(left, right, taken) == 0)
    return union_of(left[kept], right[kept])


def _covered_before(time: Array, union: tuple[Array, Array]) -> Array:
    starts, ends = union
    sums = np.append(0, np.cumsum(ends - starts))
    index = np.searchsorted(starts, time, side="right")
    last = np.maximum(index - 1, 0)
    beyond = np.where(index > 0, np.maximum(ends[last] - time, 0), 0)
    covered: Array = sums[index] - beyond
    return covered
