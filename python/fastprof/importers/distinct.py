# SPDX-License-Identifier: Apache-2.0
"""Distinct values of integer columns: by a table of flags if their range is small, else by a sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["distinct_rows", "distinct_values"]

Array: TypeAlias = NDArray[Any]


def distinct_values(values: Array) -> tuple[Array, Array]:
    """Return the distinct values of an int64 array in ascending order, and the index of each value among them."""
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    least, most = int(values.min()), int(values.max())
    if most - least > 2 * len(values) + 1024:
        distinct, codes = np.unique(values, return_inverse=True)
        return distinct, codes.reshape(-1)
    shifted = values - least
    present = np.zeros(most - least + 1, np.bool_)
    present[shifted] = True
    code_of = np.cumsum(present) - 1
    return np.flatnonzero(present) + least, code_of[shifted]


def distinct_rows(columns: Sequence[Array]) -> tuple[Array, Array]:
    """Return the distinct rows of int64 columns as shape (rows, columns), ascending, and the index of each row."""
    codes: Array = np.zeros(len(columns[0]), np.int64)
    found: Array = np.zeros((1 if len(codes) else 0, 0), np.int64)
    for column in columns:
        distinct, own = distinct_values(column)
        joint, codes = distinct_values(codes * max(len(distinct), 1) + own)
        before, last = np.divmod(joint, max(len(distinct), 1))
        found = np.column_stack([found[before], distinct[last]])
    return found, codes
