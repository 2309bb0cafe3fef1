# SPDX-License-Identifier: Apache-2.0
"""feasible_lines: the lines between lower and upper bounds, as the corners of the convex set that they form.

A line y = value + slope * x that stays above all lower points and below all upper ones has its (value, slope) in a
convex polygon. At any x, the least and greatest such y are attained at its corners, which are lines through two
points, or through one point with the steepest slope allowed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["feasible_lines", "range_at"]

Array: TypeAlias = NDArray[Any]
_TOLERANCE = 1.0  # ns: times are rounded to integers


def feasible_lines(
    low_x: Array, low_y: Array, high_x: Array, high_y: Array, steepest: float
) -> Array:
    """Return the corners as rows (value at x = 0, slope), float64; no rows if no line fits.

    low_x, low_y: points that a line must not go below. high_x, high_y: points that it must not exceed. steepest: bound
    of the slope. Any thread.
    """
    low, high = _hull(low_x, -low_y) * (1, -1), _hull(high_x, high_y)
    points = np.concatenate([low, high])
    if not len(low) or not len(high):
        return np.zeros((0, 2))
    first, second = np.triu_indices(len(points), 1)
    dx = points[second, 0] - points[first, 0]
    apart = dx != 0
    first, second, dx = first[apart], second[apart], dx[apart]
    slope = (points[second, 1] - points[first, 1]) / dx
    kept = np.abs(slope) <= steepest
    slopes = np.concatenate([slope[kept], np.full(len(points), steepest), np.full(len(points), -steepest)])  # fmt: skip
    through = np.concatenate([points[first[kept]], points, points])
    values = through[:, 1] - slopes * through[:, 0]
    above = values[:, None] + slopes[:, None] * low[:, 0] >= low[:, 1] - _TOLERANCE
    below = values[:, None] + slopes[:, None] * high[:, 0] <= high[:, 1] + _TOLERANCE
    chosen = above.all(axis=1) & below.all(axis=1)
    return np.stack([values[chosen], slopes[chosen]], axis=1)


def range_at(lines: Array, x: Array) -> tuple[Array, Array]:
    """Return the least and greatest value of the lines at each x, float64."""
    values = lines[:, :1] + lines[:, 1:] * x
    return values.min(axis=0), values.max(axis=0)


def _hull(x: Array, y: Array) -> Array:
    """Return the lower convex hull of points, by x, as rows (x, y), float64."""
    order = np.lexsort((y, x))
    hull: list[tuple[float, float]] = []
    for px, py in zip(x[order].tolist(), y[order].tolist(), strict=True):
        if hull and hull[-1][0] == px:
            continue
        while len(hull) >= 2:
            (ax, ay), (bx, by) = hull[-2], hull[-1]
            if (bx - ax) * (py - ay) - (by - ay) * (px - ax) > 0:
                break
            hull.pop()
        hull.append((px, py))
    return np.array(hull, np.float64).reshape(-1, 2)
