# SPDX-License-Identifier: Apache-2.0
"""Reduce a long curve to the points that a plot needs: the highest one of each pixel."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.distinct import distinct

__all__ = ["highest_points"]

Array: TypeAlias = NDArray[Any]


def highest_points(position: Array, values: Array, parts: int) -> Array:
    """Return the indices of the points to draw, ascending: the highest one in each part of the axis.

    position: place of each point along the axis, 0 to 1. parts: number of equal parts of the axis. The first and
    last point are always included; up to `parts` points are all returned. Any thread.
    """
    if len(values) <= parts:
        return np.arange(len(values))
    pixel = (position * parts).astype(np.int64)
    order: Array = np.lexsort((values, pixel))
    last = np.flatnonzero(np.append(pixel[order][1:] != pixel[order][:-1], True))
    chosen: Array = distinct(np.concatenate([[0], order[last], [len(values) - 1]]))
    return chosen
