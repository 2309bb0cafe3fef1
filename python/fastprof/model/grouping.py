# SPDX-License-Identifier: Apache-2.0
"""Sums by group over a tree's rows, for averages: total and self, without intermediate columns.

codes: the group of each tree row, in [0, groups). csrc/include/fastprof/capture/group_sums.hpp. Any thread.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.model.nesting import sum_by
from fastprof.model.tree import EventTree

__all__ = ["group_firsts", "group_floats", "group_times", "group_usage"]

Array: TypeAlias = NDArray[Any]


def group_times(tree: EventTree, codes: Array, groups: int) -> tuple[Array, Array, Array]:
    """Return CPU times by group: (total ns, self ns, count), int64 each, of length `groups`.

    Equal to the sums of tree.total_ns and tree.self_cpu_ns by group.
    """
    if tree.away_ns is not None or tree.suspended is not None:
        counts = np.bincount(codes, minlength=groups)
        own = sum_by(codes, tree.self_cpu_ns, groups)
        return sum_by(codes, tree.total_ns, groups), own, counts
    where = _grouped(tree, codes, groups)
    return _core.group_times(**where, start=tree.table.start_ns, end=tree.table.end_ns)


def group_usage(tree: EventTree, column: str, codes: Array, groups: int) -> tuple[Array, Array]:
    """Return the sums by group of a column that includes children, and of its self values, int64.

    The self values are those of EventTree.self_of. Only non-zero rows are visited, because most
    ranges use no memory of their own.
    """
    values = tree.table.column(column)
    if values.strides == (0,):
        values = values[:1].repeat(len(values)) if values[:1].any() else values[:0]
    if not len(values):
        return np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    return _core.group_usage(**_grouped(tree, codes, groups), values=values)[:2]


def group_firsts(tree: EventTree, codes: Array, groups: int, order: Array | None) -> Array:
    """Return the first row of each group in list order (order=None: as stored); -1 for empty groups."""
    return _core.group_firsts(codes=codes, groups=groups, parent=tree.parent, order=order)


def group_floats(
    tree: EventTree, column: str, codes: Array, groups: int, order: Array | None
) -> Array:
    """Return the sums by group of a float column, added in list order (None: as stored); NaN is 0."""
    if not tree.table.has(column):
        return np.zeros(groups)
    values = tree.table.column(column)
    return _core.group_floats(**_grouped(tree, codes, groups), order=order, values=values)


def _grouped(tree: EventTree, codes: Array, groups: int) -> dict[str, Any]:
    """Return the arguments that these functions share."""
    where = {"codes": codes, "groups": groups, "parent": tree.parent, "rows": tree.rows}
    return {**where, "on_cpu": tree.on_cpu, "is_async": tree.is_async}
