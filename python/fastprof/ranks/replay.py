# SPDX-License-Identifier: Apache-2.0
"""own_segments: what each rank did between the collectives of all ranks, for replaying steps with other durations.

A step is its segments, one after the other; each lasts as long as its slowest rank, because all wait for it in the
collective at its end. Each time is a difference of two readings of one rank's clock.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.ranks.matching import Matched
from fastprof.ranks.rank_summary import RankSummary

__all__ = ["own_segments"]

Array: TypeAlias = NDArray[Any]


def own_segments(
    matched: Matched, summaries: list[tuple[int, RankSummary]], steps: Array
) -> Array | None:
    """Return the ns that each rank took itself by (rank, segment), over all steps; None if there are none.

    summaries: one of each rank, by rank. steps: numbers of the steps that all ranks have. Segments end with the
    collectives of a step that all ranks took part in, the last of a step with the step. Collectives beside a
    segment (issued early, waited for later) make it shorter, at least 0.
    """
    size = len(summaries)
    if matched.paired.all() or not len(steps) or len({rank for rank, _ in summaries}) != size:
        return None
    whole = np.flatnonzero(np.bincount(matched.call[~matched.paired], minlength=1) == size)
    rows = np.flatnonzero(np.isin(matched.call, whole)).reshape(-1, size)  # by call, rank
    enter, leave = matched.start[rows].T, matched.end[rows].T
    order = np.argsort(enter[0], kind="stable")
    enter, leave = enter[:, order], leave[:, order]
    begins, ends, step_of = [], [], []
    for at, (_, each) in enumerate(summaries):
        chosen = np.searchsorted(each.step, steps)
        begins.append(each.start[chosen])
        ends.append(each.end[chosen])
        step = np.searchsorted(begins[-1], enter[at], side="right") - 1
        step_of.append(np.where(enter[at] < ends[-1][step.clip(min=0)], step, -1))
    step = step_of[0]
    kept = np.flatnonzero((np.stack(step_of) == step).all(axis=0) & (step >= 0))
    enter, leave, step = enter[:, kept], leave[:, kept], step[kept]
    begin, end = np.stack(begins), np.stack(ends)
    # All boundaries in order: of each step its begin, the calls, its end.
    place = (
        np.arange(len(step)) + step + 1
    )  # of each call's segment: one more segment for each step before
    last = np.searchsorted(step, np.arange(len(steps)), side="right") + np.arange(len(steps))
    stop = np.empty((size, len(step) + len(steps)), np.int64)
    start = np.empty_like(stop)
    stop[:, place - 1], stop[:, last] = enter, end
    start[:, place] = leave
    start[:, np.append(0, last[:-1] + 1)] = begin
    found: Array = np.maximum(stop - start, 0)
    return found
