# SPDX-License-Identifier: Apache-2.0
"""Stragglers: the ranks that others wait for, what each costs in a step, and what it does more than the others.

Up to COUNTED ranks, a rank is slow if it was last unusually often; beyond, if the median of its own time is an outlier
by the median absolute deviation (MAD). A count collapses at many ranks, where noise makes some other rank last; a MAD
of few ranks raises false alarms.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["COUNTED", "Straggler", "find_stragglers"]

Array: TypeAlias = NDArray[Any]
COUNTED = 16  # ranks up to which the count of "last" decides
_Z = 5.0
_MAD_TO_SIGMA = 1.4826
_CHANCE = 5e-3  # of a false alarm, over all ranks of a job
_LEAST_SHARE = 0.005  # of the median: a smaller difference costs nothing that matters


class Straggler(NamedTuple):
    """A slow rank. own_ns: median of the time that it spent itself in a step, without waiting for others.

    median_ns: the same over all ranks. score: z by MAD, or the share of steps in which it was last. by: "count" or
    "MAD". cost_ns: mean by which steps would be shorter if this rank took the median.
    """

    rank: int
    own_ns: int
    median_ns: int
    score: float
    by: str
    cost_ns: int


def find_stragglers(
    ranks: Array, own_ns: Array, segments_ns: Array | None = None
) -> list[Straggler]:
    """Return the slow ranks, the most costly first.

    ranks: numbers. own_ns: time by (rank, step), negative where a rank lacks the step; such steps are left out.
    segments_ns: the same time cut into segments, (rank, segment) over all steps, for the cost: a segment lasts as long
    as its slowest rank; default: a step is one segment. Any thread.
    """
    own = own_ns[:, (own_ns >= 0).all(axis=0)].astype(np.float64)
    size, steps = own.shape
    if size < 2 or not steps:
        return []
    median_of_rank = np.median(own, axis=1)
    middle = float(np.median(median_of_rank))
    if size <= COUNTED:
        slow, score = _by_count(own, middle, median_of_rank)
        by = "count"
    else:
        spread = float(np.median(np.abs(median_of_rank - middle))) * _MAD_TO_SIGMA
        score = (median_of_rank - middle) / max(spread, 1e-9, 1e-6 * middle)
        slow, by = score > _Z, "MAD"
    slow &= median_of_rank - middle > _LEAST_SHARE * middle
    found = []
    for at in np.flatnonzero(slow).tolist():
        cost = _cost(own if segments_ns is None else segments_ns, at) / steps
        found.append(
            Straggler(
                int(ranks[at]),
                int(median_of_rank[at]),
                int(middle),
                float(score[at]),
                by,
                int(cost),
            )
        )
    return sorted(found, key=lambda each: (-each.cost_ns, each.rank))


def _cost(segments: Array, at: int) -> float:
    """Return the ns by which all segments together would be shorter if rank `at` took the median of the others."""
    others = np.delete(segments, at, axis=0)
    replayed = np.maximum(others.max(axis=0), np.median(others, axis=0))
    return float(np.maximum(segments.max(axis=0) - replayed, 0).sum())


def _by_count(own: Array, middle: float, median_of_rank: Array) -> tuple[Array, Array]:
    """Return which ranks were last more often than chance explains, and in which share of the steps.

    By chance, a rank is last in 1/n of the steps; a binomial tail below _CHANCE / n is no chance.
    """
    size, steps = own.shape
    last = np.bincount(np.argmax(own, axis=0), minlength=size)
    needed = next(
        (k for k in range(steps + 1) if _tail(k, steps, 1 / size) < _CHANCE / size), steps + 1
    )
    slow: Array = (last >= needed) & (median_of_rank > middle)
    return slow, last / steps


def _tail(least: int, trials: int, chance: float) -> float:
    """Return the chance of at least `least` successes in `trials`."""
    logs = (math.log(chance), math.log1p(-chance))
    total = math.lgamma(trials + 1)
    return sum(
        math.exp(
            total - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * logs[0] + (trials - k) * logs[1]
        )
        for k in range(least, trials + 1)
    )  # fmt: skip
