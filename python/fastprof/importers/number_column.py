# SPDX-License-Identifier: Apache-2.0
"""NumberColumn: an optional column of numbers while a trace is read; rows without a number take no memory."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from fastprof.model.columns import SparseValues

__all__ = ["NumberColumn", "extend_array", "whole_array"]

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_PIECE_ROWS = 1 << 16
_SPARSE_BYTES, _DENSE_BYTES = 12, 8  # a value


class NumberColumn:
    """A sparse column (pairs of row and number) while rows are put in order, then an array with a number per row.

    default: the value of rows without a number.
    """

    def __init__(self, default: int) -> None:
        self.default = default
        self._rows: array[int] | None = array("I")  # None: dense
        self._values = array("q")

    @property
    def nbytes(self) -> int:
        """Upper bound of the size in bytes."""
        return _SPARSE_BYTES * len(self._values)

    def put(self, row: int, value: int) -> None:
        """Set a row's number, limited to 64 bits."""
        number = min(max(value, _INT64_MIN), _INT64_MAX)
        rows = self._rows
        if rows is not None and (not rows or row > rows[-1]):
            rows.append(row)
            self._values.append(number)
            return
        self._make_dense()
        extend_array(self._values, row + 1, self.default)
        self._values[row] = number

    def put_rows(self, rows: Any, values: Any) -> None:
        """Set the numbers of many rows: arrays of equal length, not empty, rows ascending."""
        known = self._rows
        if known is not None and (not known or rows[0] > known[-1]):
            known.frombytes(rows.astype(np.uint32).tobytes())
            self._values.frombytes(values.astype(np.int64).tobytes())
            return
        self._make_dense()
        extend_array(self._values, int(rows[-1]) + 1, self.default)
        np.frombuffer(self._values, np.int64)[rows] = values

    def _make_dense(self) -> None:
        if self._rows is None:
            return
        rows, values = np.frombuffer(self._rows, np.uint32), self._values
        self._rows, self._values = None, array("q")
        if len(rows):
            extend_array(self._values, int(rows[-1]) + 1, self.default)
            np.frombuffer(self._values, np.int64)[rows] = np.frombuffer(values, np.int64)

    def column(self, size: int) -> Any:
        """Return the column for `size` rows. Call last: numbers cannot be put afterwards."""
        if self._rows is not None and len(self._rows) * _SPARSE_BYTES < size * _DENSE_BYTES:
            rows, values = (
                np.frombuffer(self._rows, np.uint32),
                np.frombuffer(self._values, np.int64),
            )
            return SparseValues(rows, values, size, self.default)
        self._make_dense()
        return whole_array(self._values, size, self.default)


def extend_array(values: array[int], size: int, default: int) -> None:
    """Extend an array to at least `size` values, in pieces, so that temporary memory stays small."""
    while len(values) < size:
        missing = min(size - len(values), _PIECE_ROWS)
        values.frombytes(np.full(missing, default, values.typecode).tobytes())


def whole_array(values: array[int], size: int, default: int) -> Any:
    """Return the array's memory as a NumPy array of `size` values; the array cannot grow any more."""
    extend_array(values, size, default)
    return np.frombuffer(values, values.typecode)
