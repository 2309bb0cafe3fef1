# SPDX-License-Identifier: Apache-2.0
"""collective_arrows: arrows of a timeline from the rank that came last to a collective to each that waited for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.ranks.clocks import RankClock
from fastprof.ranks.matching import Matched

__all__ = ["ArrowEnds", "collective_arrows"]

Array: TypeAlias = NDArray[np.int64]


class ArrowEnds(NamedTuple):
    """The ends of arrows at one rank. row: of Matched. time_ns: on the first rank's clock. arrow: number, from 1, equal
    at both ends. begins: whether the arrow begins here.
    """

    row: Array
    time_ns: Array
    arrow: Array
    begins: NDArray[np.bool_]

    def chosen(self, which: NDArray[np.bool_]) -> ArrowEnds:
        """Return the ends of a mask."""
        return ArrowEnds(
            self.row[which], self.time_ns[which], self.arrow[which], self.begins[which]
        )


def collective_arrows(
    matched: Matched, clocks: Mapping[int, RankClock], ranks: Sequence[int]
) -> dict[int, ArrowEnds]:
    """Return the ends of arrows by rank, for ranks whose clock is known. Any thread.

    A call has an arrow for each of the ranks but the one with the shortest duration, which came last. It begins with
    that rank's call and ends in the other's, at the same time, or at the end of the call that is nearer to it. That of
    a send goes to its receive.
    """
    rows = np.flatnonzero(np.isin(matched.rank, list(ranks)))
    start, end = matched.start.copy(), matched.end.copy()
    for rank in ranks:
        own = rows[matched.rank[rows] == rank]
        start[own] = clocks[rank].to_reference(matched.start[own])
        end[own] = clocks[rank].to_reference(matched.end[own])
    receives = np.array([*(kind == "recv" for kind in matched.kinds), False], np.bool_)
    after = np.where(matched.paired, receives[matched.kind], matched.wait_ns)
    order = np.lexsort((-start[rows], after[rows], matched.call[rows]))
    rows = rows[order]
    new = np.diff(matched.call[rows], prepend=-1) != 0
    last = rows[np.flatnonzero(new)][np.cumsum(new) - 1] if len(rows) else rows
    last, other = last[~new], rows[~new]
    arrow = np.arange(1, len(other) + 1)
    ends = ArrowEnds(
        np.concatenate([last, other]),
        np.concatenate([start[last], np.clip(start[last], start[other], end[other])]),
        np.concatenate([arrow, arrow]),
        np.arange(2 * len(other)) < len(other),
    )
    at = matched.rank[ends.row]
    return {rank: ends.chosen(at == rank) for rank in ranks}
