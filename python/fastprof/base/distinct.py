# SPDX-License-Identifier: Apache-2.0
"""Distinct values of arrays, without what makes NumPy abort a process that ends meanwhile."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["distinct"]

Array: TypeAlias = NDArray[Any]


def distinct(values: Any) -> Array:
    """Return the distinct values of an array in ascending order, as np.unique(values) does, by a sort.

    NumPy 2.3 and later use a hash table for np.unique() without indices, in C++ that takes the GIL in a destructor.
    On a daemon thread at the end of the interpreter (CPython before 3.14), that is std::terminate().
    """
    ordered = np.sort(np.asarray(values), axis=None)
    if not len(ordered):
        return ordered
    first = np.empty(len(ordered), np.bool_)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
