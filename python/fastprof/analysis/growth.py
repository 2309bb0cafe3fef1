# SPDX-License-Identifier: Apache-2.0
"""growth_of: whether a repeated measurement takes longer than in earlier runs, by a two-level bootstrap.

Rounds of one run share what differs between runs (memory layout, clock rate, neighbours), so that they say nothing
about it. Each draw therefore picks an earlier run, then rounds within it; the new rounds are drawn, too, and scaled by
the ratio of two earlier runs that are picked, as if they were of yet another run. The growth is the ratio of the
medians. With one earlier run the difference between runs is unknown: only the bound that the caller allows covers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST_ROUNDS", "Growth", "growth_of"]

Array: TypeAlias = NDArray[Any]
LEAST_ROUNDS = 5
_DRAWS = 4000
_TAIL = 1e-3  # of growths below `low`: a suite compares many tests


class Growth(NamedTuple):
    """ratio: of the medians, after / before. low: the growth is at least this, with a confidence of 99.9 %."""

    before_ns: int
    after_ns: int
    ratio: float
    low: float


def growth_of(earlier_ns: Sequence[Sequence[int]], rounds_ns: Sequence[int]) -> Growth:
    """Return how rounds compare with those of earlier runs, at least one; the same for equal inputs. Any thread."""
    draw = np.random.default_rng(0)
    runs = [np.asarray(run, np.float64) for run in earlier_ns]
    after = np.asarray(rounds_ns, np.float64)
    medians = np.array([np.median(run) for run in runs])
    drawn = np.stack([_medians(run, draw) for run in runs])
    picked, one, other = draw.integers(0, len(runs), (3, _DRAWS))
    between = medians[one] / np.maximum(medians[other], 1.0)
    ratios = _medians(after, draw) * between / np.maximum(drawn[picked, np.arange(_DRAWS)], 1.0)
    before_ns, after_ns = float(np.median(medians)), float(np.median(after))
    low = float(np.quantile(ratios, _TAIL))
    return Growth(int(before_ns), int(after_ns), after_ns / max(before_ns, 1.0), low)


def _medians(values: Array, draw: np.random.Generator) -> Array:
    chosen = values[draw.integers(0, len(values), (_DRAWS, len(values)))]
    found: Array = np.median(chosen, axis=1)
    return found
