# SPDX-License-Identifier: Apache-2.0
"""Choose the points of a long curve that a plot needs: the highest of each pixel."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["highest_points"]

Array: TypeAlias = NDArray[Any]


def highest_points(position: Array, values: Array, most: int) -> Array:
    """Return the indices to draw, ascending: of each of `most` equal parts of the axis the highest.

    position: 0 to 1, along the axis. The first and the last point are always among them. At most
    `most` points are all returned.
    """
    if len(values) <= most:
        return np.arange(len(values))
    pixel = (position * most).astype(np.int64)
    order: Array = np.lexsort((values, pixel))
    last = np.flatnonzero(np.append(pixel[order][1:] != pixel[order][:-1], True))
    chosen: Array = np.unique(np.concatenate([[0], order[last], [len(values) - 1]]))
    return chosen
