# SPDX-License-Identifier: Apache-2.0
"""host_timeline: what the host of a rank did at each time of a step, as one chain of pieces.

At each time it is the innermost op or runtime call of the main thread, else of another thread (the autograd engine's),
else the innermost range of the main thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["HostPiece", "host_timeline"]

Array: TypeAlias = NDArray[Any]


class HostPiece(NamedTuple):
    """start, end: ns. row: the innermost event, -1: none. busy: whether it is an op or a call, and no wait."""

    start: int
    end: int
    row: int
    busy: bool


def host_timeline(
    start: Array, end: Array, thread: Array, busy: Array, main: int, low: int, high: int
) -> list[HostPiece]:
    """Return pieces that fill [low, high).

    start, end, thread: of the host's events, by row. busy: which are ops or runtime calls. main: the main thread.
    """
    inside = (start < high) & (end > low) & (end > start)
    start, end = start.clip(low, high), end.clip(low, high)
    ops: list[HostPiece] = []
    others: list[HostPiece] = []
    for each in np.unique(thread[inside & busy]).tolist():
        rows = np.flatnonzero(inside & busy & (thread == each))
        (ops if each == main else others).extend(_innermost(rows, start, end, True))
    ranges = _innermost(np.flatnonzero(inside & ~busy & (thread == main)), start, end, False)
    found = _filled(_filled(ops, sorted(others)), ranges)
    return _filled(found, [HostPiece(low, high, -1, False)])


def _innermost(rows: Array, start: Array, end: Array, busy: bool) -> list[HostPiece]:
    """Return the innermost of the rows of one thread at each time."""
    order = rows[np.lexsort((rows, -end[rows], start[rows]))].tolist()
    found: list[HostPiece] = []
    stack: list[tuple[int, int]] = []  # end, row
    now = 0

    def until(when: int) -> None:
        nonlocal now
        if stack and when > now:
            found.append(HostPiece(now, when, stack[-1][1], busy))
        now = max(now, when)

    for row in order:
        begin = int(start[row])
        while stack and stack[-1][0] <= begin:
            until(stack[-1][0])
            stack.pop()
        until(begin)
        stack.append((int(end[row]), row))
    while stack:
        until(stack[-1][0])
        stack.pop()
    return found


def _filled(pieces: Sequence[HostPiece], more: Sequence[HostPiece]) -> list[HostPiece]:
    """Return pieces, which do not overlap, and what of `more` lies between them; both by begin."""
    found: list[HostPiece] = []
    at, now = 0, -1
    for each in more:
        begin = max(each.start, now)
        while begin < each.end:
            while at < len(pieces) and pieces[at].end <= begin:
                found.append(pieces[at])
                at += 1
            stop = min(each.end, pieces[at].start if at < len(pieces) else each.end)
            if stop > begin:
                found.append(each._replace(start=begin, end=stop))
            begin = stop if at == len(pieces) or stop < pieces[at].start else pieces[at].end
        now = max(now, begin)
    return [*found, *pieces[at:]]
