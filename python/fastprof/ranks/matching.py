# SPDX-License-Identifier: Apache-2.0
"""match_collectives: the collectives of all ranks by (group, sequence), never by name or order over streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.distinct import distinct
from fastprof.base.formatting import counted
from fastprof.base.number_list import number_list
from fastprof.ranks.event_names import UNMATCHED, sequence_text
from fastprof.ranks.peer_calls import PAIRED, pair_of
from fastprof.ranks.rank_events import Collectives

__all__ = ["Matched", "match_collectives"]

Array: TypeAlias = NDArray[Any]


@dataclass
class Matched:
    """Calls of collectives, one row per rank and call, sorted by call; int64.

    call: number of the collective, from 0, equal on all ranks that took part. rank, start, end (ns of the rank's own
    clock), size_bytes: of the row. kind, group: codes into kinds and groups. sequence: number in the group. wait_ns:
    duration minus the least over the ranks of the call: the time for which a rank waited for the last to come,
    without any clock in common; 0 for calls with one row. step: index of the step that it began in, -1: none.
    unmatched: number of collectives without group or sequence. unpaired: number of sends and receives that without()
    has taken out. peerless: rank and kind of the sends and receives whose pair is unknown. groupless: ranks with other
    collectives whose group is unknown.
    """

    call: Array
    rank: Array
    start: Array
    end: Array
    kind: Array
    group: Array
    sequence: Array
    size_bytes: Array
    wait_ns: Array
    kinds: list[str]
    groups: list[str]
    unmatched: int
    unpaired: int = 0
    peerless: set[tuple[int, str]] = field(default_factory=set)
    groupless: set[int] = field(default_factory=set)

    @property
    def paired(self) -> Array:
        """Mask of the rows that are sends or receives, whose group names the pair of ranks."""
        found: Array = np.array([*(kind in PAIRED for kind in self.kinds), False], np.bool_)
        return found[self.kind]

    def __len__(self) -> int:
        return len(self.call)

    @property
    def first(self) -> Array:
        """Index of the first row of each call."""
        return np.flatnonzero(np.diff(self.call, prepend=-1))

    def without(self, calls: Array) -> Matched:
        """Return the others than some calls of sends and receives."""
        if not len(calls):
            return self
        kept = ~np.isin(self.call, calls)
        rows: dict[str, Any] = {
            name: value[kept] for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        rows["call"] = np.cumsum(np.diff(rows["call"], prepend=-1) != 0) - 1
        return replace(self, **rows, unpaired=self.unpaired + int((~kept).sum()))

    def problems(self, ranks: list[int], members: Mapping[str, list[int]]) -> list[str]:
        """Return sentences on calls that not all ranks of the group took part in, or not with the same collective.

        ranks: those that were read. members: ranks of a group by its name, as manifests have them; a group that is
        not in there consists of all ranks that called it. Calls before the first or after the last that a rank of
        the group has are cut by the recording, and are not compared.
        """
        found = []
        for code, name in enumerate(self.groups):
            rows = np.flatnonzero(self.group == code)
            if not len(rows):
                continue
            present = distinct(self.rank[rows])
            pair = pair_of(name)
            if pair is None:
                group = members.get(name.split(" ")[0], [])
                group = [rank for rank in group if rank not in self.groupless]
            else:  # what a rank left out may be the other half
                both = zip(pair[1:], PAIRED, strict=True)
                group = [rank for rank, kind in both if (rank, kind) not in self.peerless]
            expected = np.array(sorted(set(group) & set(ranks)), np.int64)
            found += self._of_group(rows, present, expected, name)
        return found

    def _of_group(self, rows: Array, present: Array, expected: Array, name: str) -> list[str]:
        title = f"group {name}" if name else "the group"
        found = []
        absent = np.setdiff1d(expected, present)
        if len(absent):
            who = "rank {} has" if len(absent) == 1 else "ranks {} have"
            found.append(f"{who.format(number_list(absent.tolist()))} no collective of {title}")
        place = np.searchsorted(present, self.rank[rows])
        low = np.full(len(present), np.iinfo(np.int64).max)
        high = np.full(len(present), -1)
        np.minimum.at(low, place, self.sequence[rows])
        np.maximum.at(high, place, self.sequence[rows])
        last = present[high < high.max()]
        calls, at = np.unique(self.call[rows], return_inverse=True)
        first = np.full(len(calls), len(rows))
        np.minimum.at(first, at.reshape(-1), np.arange(len(rows)))
        count = np.bincount(at.reshape(-1))
        sequence = self.sequence[rows][first]
        common = (sequence >= low.max()) & (sequence <= high.min())
        short = np.flatnonzero(common & (count < len(present)))
        for which in short[:5].tolist():
            took = self.rank[rows[at.reshape(-1) == which]]
            gone = np.setdiff1d(present, took).tolist()
            found.append(
                f"{self.kinds[int(self.kind[rows[first[which]]])]} {sequence_text(int(sequence[which]))} of {title}: "
                f"without rank {number_list(gone)}"
            )
        if len(short) > 5:
            found.append(f"{title}: {counted(len(short) - 5, 'more collective')} without all ranks")
        kind = self.kind[rows]
        mixed = distinct(calls[at.reshape(-1)[kind != kind[first][at.reshape(-1)]]])
        if pair_of(name) is not None:
            mixed = mixed[:0]
        if len(mixed):
            row = rows[first[np.searchsorted(calls, mixed[0])]]
            found.append(
                f"{counted(len(mixed), 'collective')} of {title} differ between ranks, the first is number "
                f"{sequence_text(int(self.sequence[row]))} "
                f"({self.kinds[int(self.kind[row])]} on rank {int(self.rank[row])})"
            )
        if 0 < len(last) <= len(present) // 2:
            least = int(high.min())
            found.append(
                f"rank {number_list(last.tolist())} ended earlier than the rest of {title}, "
                f"the first after collective {sequence_text(least)}"
            )
        return found


def match_collectives(of_rank: list[tuple[int, Collectives]]) -> Matched:
    """Return the collectives of all ranks, matched. of_rank: rank and collectives of each shard. Any thread."""
    kinds: dict[str, int] = {}
    groups: dict[str, int] = {}
    parts: list[list[Array]] = []
    unmatched = 0
    peerless: set[tuple[int, str]] = set()
    groupless: set[int] = set()
    for rank, calls in of_rank:
        chosen = calls.sequence != UNMATCHED
        paired = np.array([*(kind in PAIRED for kind in calls.kinds), False], np.bool_)
        if count := int((~chosen & ~paired[calls.kind]).sum()):
            unmatched += count
            groupless.add(rank)
        left = distinct(calls.kind[~chosen & paired[calls.kind]])
        peerless |= {(rank, calls.kinds[code]) for code in left.tolist()}
        kind = np.array([kinds.setdefault(k, len(kinds)) for k in calls.kinds], np.int64)
        group = np.array([groups.setdefault(g, len(groups)) for g in calls.groups], np.int64)
        parts.append(
            [
                np.full(int(chosen.sum()), rank, np.int64),
                *(each[chosen] for each in (calls.start, calls.end)),
                kind[calls.kind[chosen]] if len(kind) else np.zeros(0, np.int64),
                group[calls.group[chosen]] if len(group) else np.zeros(0, np.int64),
                *(each[chosen] for each in (calls.sequence, calls.size_bytes)),
            ]
        )
    empty = np.zeros(0, np.int64)
    rank_, start, end, kind_, group_, sequence, size = (
        np.concatenate([empty, *(part[i] for part in parts)]) for i in range(7)
    )
    order = np.lexsort((rank_, sequence, group_))
    rank_, start, end, kind_, group_, sequence, size = (
        each[order] for each in (rank_, start, end, kind_, group_, sequence, size)
    )
    new = (np.diff(group_, prepend=-1) != 0) | (np.diff(sequence, prepend=-1) != 0)
    call = np.cumsum(new) - 1
    duration = end - start
    least = np.full(int(call[-1]) + 1 if len(call) else 0, np.iinfo(np.int64).max)
    np.minimum.at(least, call, duration)
    return Matched(
        call, rank_, start, end, kind_, group_, sequence, size, duration - least[call],
        list(kinds), list(groups), unmatched, peerless=peerless,
        groupless=groupless,
    )  # fmt: skip
