# SPDX-License-Identifier: Apache-2.0
"""Renumber parents for rows that are selected or reordered."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["new_numbers", "skip_rows"]

Array: TypeAlias = NDArray[Any]


def new_numbers(rows: Array, size: int, dtype: Any = np.int64) -> Array:
    """Return, by old row number, the position in `rows`; -1 for rows that are not selected.

    size: number of rows of the table. The result has one more entry, -1, so that
    new_numbers(rows, size)[parent[rows]] are the parents in the new numbering: -1 stays -1.
    """
    position = np.full(size + 1, -1, dtype)
    position[rows] = np.arange(len(rows), dtype=dtype)
    return position


def skip_rows(parent: Array, kept: Array) -> Array:
    """Return each row's nearest ancestor for which `kept` is true, -1 for none.

    By pointer doubling: one step per level would be quadratic in deep trees.
    """
    has_child = np.zeros(len(parent) + 1, np.bool_)
    has_child[parent] = True
    if not bool((has_child[:-1] & ~kept).any()):  # e.g. memory rows, which never have children
        return parent.astype(np.int32, copy=False)
    parent = parent.astype(np.int32)  # a copy
    pending = np.flatnonzero(parent >= 0)
    pending = pending[~kept[parent[pending]]]
    while len(pending):
        parent[pending] = parent[parent[pending]]
        pending = pending[parent[pending] >= 0]
        pending = pending[~kept[parent[pending]]]
    return parent
