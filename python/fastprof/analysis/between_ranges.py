# SPDX-License-Identifier: Apache-2.0
"""What ran in steps outside of every range, by the samples of their thread. Any thread."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.steps import StepTimes
from fastprof.base.formatting import format_time
from fastprof.base.short_paths import is_installed
from fastprof.model.sites import SAMPLE_CATEGORIES

__all__ = ["BetweenRanges", "between_ranges", "is_sampled"]

Array: TypeAlias = NDArray[np.bool_]

_SHARE = 0.1  # of the steps' time, from which the time outside of ranges is claimed
_MOST = 0.5  # of that time, from which a function is named


class BetweenRanges(NamedTuple):
    """Time in steps outside of every range. rows: of the function named, longest first, in NamedRows' numbers."""

    text: str
    ns: int
    rows: NDArray[np.int64]


def is_sampled(times: StepTimes) -> Array:
    """Return the mask of rows that are frames of samples."""
    events = times.events
    categories = events.table.sites.field("category")
    of_site = np.array([c in SAMPLE_CATEGORIES for c in categories], np.bool_)
    return events.tree.take(of_site[events.table.column("site")])


def between_ranges(times: StepTimes) -> BetweenRanges | None:
    """Return what the steps did outside of their ranges; None if that is little, or nothing was sampled.

    The function is the outermost one of a library in the path that most samples share, or else its innermost one.
    """
    events = times.events
    sampled = is_sampled(times)
    if not len(times.rows) or not sampled.any():
        return None
    level = np.flatnonzero(sampled & np.isin(events.parent, times.rows))
    length = events.end - events.start
    outside = int(length[level].sum())
    if outside < _SHARE * max(int(times.duration.sum()), 1):
        return None
    path: list[NDArray[np.int64]] = []
    while len(level):
        sums = np.bincount(events.name_id[level], length[level])
        name = int(np.argmax(sums))
        if sums[name] < _MOST * outside:
            break
        path.append(level[events.name_id[level] == name])
        level = np.flatnonzero(sampled & np.isin(events.parent, path[-1]))
    share = 100 * outside / max(int(times.duration.sum()), 1)
    text = f"{share:.1f} % of the steps ({format_time(outside / 1000)}) lay outside of every range in them"
    if not path:
        return BetweenRanges(text, outside, np.zeros(0, np.int64))
    files, sites = events.table.sites.field("file"), events.tree.column("site")
    installed = [is_installed(files[int(sites[rows[0]])]) for rows in path]
    at = installed.index(True) if True in installed else len(path) - 1
    chosen = path[at][np.argsort(-length[path[at]], kind="stable")]
    ns = int(length[chosen].sum())
    caller = f", called by {events.name(int(path[at - 1][0]))}" if at else ""
    text += f"; {format_time(ns / 1000)} of it in {events.name(int(chosen[0]))}{caller}"
    return BetweenRanges(text, ns, chosen)
