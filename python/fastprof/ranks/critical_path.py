# SPDX-License-Identifier: Apache-2.0
"""critical_path: the chain of work over ranks that a step could not be shorter than, by walking back from its end.

From the rank that ends the step last, back in its time to the last collective in which it took part; from there on
with the rank that came last to it, at its enter; and so on to the begin of the step (Scalasca's backward replay).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.ranks.clocks import RankClock
from fastprof.ranks.matching import Matched
from fastprof.ranks.rank_summary import RankSummary

__all__ = ["PathPiece", "critical_path"]

Array: TypeAlias = NDArray[Any]


class PathPiece(NamedTuple):
    """A piece of the path: from start_ns to end_ns, Unix ns of the first rank's clock.

    rank: whose own work it is; for a collective, the rank that came last. collective: its kind and group, "" for work.
    """

    rank: int
    start_ns: int
    end_ns: int
    collective: str


def critical_path(
    matched: Matched,
    rows_of: Mapping[int, Array],
    clocks: Mapping[int, RankClock],
    summaries: list[tuple[int, RankSummary]],
    step: int,
) -> list[PathPiece]:
    """Return the pieces of a step's path, in order of time; each begins where the one before ends.

    rows_of: rows of matched by rank. summaries: of each rank. step: number of a step that all of them have. Ranks
    without a clock are left out. Any thread.
    """
    bounds: dict[int, tuple[int, int]] = {}
    calls: dict[int, tuple[Array, Array]] = {}
    enters: dict[int, int] = {}  # by row
    for rank, each in summaries:
        if rank not in clocks or step not in each.step:
            continue
        at = int(np.searchsorted(each.step, step))
        start, end = int(each.start[at]), int(each.end[at])
        rows = rows_of[rank]
        rows = rows[(matched.start[rows] >= start) & (matched.start[rows] < end)]
        rows = rows[np.argsort(matched.end[rows], kind="stable")]
        to_reference = clocks[rank].to_reference
        low, high = to_reference([start, end]).tolist()
        bounds[rank] = low, high
        calls[rank] = (rows, to_reference(matched.end[rows]))
        entered = to_reference(matched.start[rows]).tolist()
        enters.update(zip(rows.tolist(), entered, strict=True))
    if not bounds:
        return []
    rank = max(bounds, key=lambda each: bounds[each][1])
    now = bounds[rank][1]
    pieces: list[PathPiece] = []
    paired = matched.paired
    passed: set[int] = set()  # calls, so that the walk ends even if times are equal
    while True:
        rows, leaves = calls[rank]
        at = int(np.searchsorted(leaves, now, side="right")) - 1
        last = None
        while at >= 0 and last is None:
            row = int(rows[at])
            if int(matched.call[row]) not in passed:
                last = _last_to_come(matched, row, enters)
                if last is not None and paired[row] and last[1] > int(leaves[at]):
                    last = None  # a send that did not wait for its receiver
            at -= 1
        if last is None:
            break
        passed.add(int(matched.call[row]))
        leave = int(leaves[at + 1])
        came, enter = last[0], min(last[1], leave)
        kind, group = matched.kinds[int(matched.kind[row])], matched.groups[int(matched.group[row])]
        pieces.append(PathPiece(rank, leave, now, ""))
        pieces.append(PathPiece(came, enter, leave, f"{kind} {group}".strip()))
        rank, now = came, enter
    pieces.append(PathPiece(rank, min(bounds[rank][0], now), now, ""))
    return [each for each in reversed(pieces) if each.end_ns > each.start_ns]


def _last_to_come(matched: Matched, row: int, enters: Mapping[int, int]) -> tuple[int, int] | None:
    """Return the rank that entered a row's call last, and when; None if no other rank's enter is known."""
    low, high = np.searchsorted(matched.call, [matched.call[row], matched.call[row] + 1])
    known = [other for other in range(int(low), int(high)) if other in enters]
    if len(known) < 2:
        return None
    last = max(known, key=lambda other: enters[other])
    return int(matched.rank[last]), enters[last]
