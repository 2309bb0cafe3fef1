# SPDX-License-Identifier: Apache-2.0
"""StepGraph: what a step of all ranks waited for, as a graph of work that can be replayed with other durations.

A node is a piece of work: of a host's thread, of a device's stream, or of a collective. It begins when the last of the
nodes before it has ended, and a delay later (the latency of a launch, say). Replayed with the recorded durations, each
node begins when it did, so that the longest path is the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors

__all__ = ["GraphPiece", "RankRows", "StepGraph", "StepNode"]

Array: TypeAlias = NDArray[Any]


class GraphPiece(NamedTuple):
    """A piece of a critical path, Unix ns of the first rank's clock.

    what: "host", "device", "collective", or "delay": the time from the end of what a device's work waited for to its
    begin; "before": the rank's step began later than the first rank's. name: of the innermost event; of a collective,
    kind and group; "" for the host outside of all events.
    """

    rank: int
    what: str
    name: str
    start_ns: int
    end_ns: int


class RankRows(NamedTuple):
    """The events of a rank: code of the name and row of the enclosing event (-1: none) by row; texts of the names."""

    name: Array
    parent: Array
    names: list[str]


@dataclass
class StepNode:
    """A piece of work. what, name: of GraphPiece. row: the host's event that it is in or that launched it; -1: none."""

    rank: int
    what: str
    name: str
    start_ns: int
    end_ns: int
    row: int = -1
    before: list[int] = field(default_factory=list)


class StepGraph:
    """The graph of a step. nodes: in any order. begins, ends: of each rank's step; last: its last node. rows: by rank.

    inferred: ranks whose waits between streams were not recorded: they are inferred from times.
    Raises nothing; edges from a node that ended after the other began, which clocks that differ make, do not count.
    """

    def __init__(
        self,
        nodes: Sequence[StepNode],
        begins: Mapping[int, int],
        last: Mapping[int, int],
        rows: Mapping[int, RankRows],
        inferred: Sequence[int] = (),
    ) -> None:
        self.nodes, self.inferred = nodes, list(inferred)
        self._begins, self._last, self._rows = begins, last, rows
        for each in nodes:
            each.before = [n for n in each.before if nodes[n].end_ns <= each.start_ns]
        self._order = self._sorted()
        self._delay = [
            each.start_ns - max((nodes[n].end_ns for n in each.before), default=each.start_ns)
            for each in nodes
        ]

    def _sorted(self) -> list[int]:
        """Return the nodes, each after those before it. Drops edges of cycles, made by nodes without duration."""
        following: list[list[int]] = [[] for _ in self.nodes]
        waits_for = [len(each.before) for each in self.nodes]
        for at, each in enumerate(self.nodes):
            for n in each.before:
                following[n].append(at)
        ready = [at for at, count in enumerate(waits_for) if not count]
        order: list[int] = []
        while len(order) < len(self.nodes):
            if not ready:
                at = next(n for n, count in enumerate(waits_for) if count > 0)
                done = set(order)
                self.nodes[at].before = [n for n in self.nodes[at].before if n in done]
                waits_for[at] = 0
                ready.append(at)
            at = ready.pop()
            order.append(at)
            for n in following[at]:
                waits_for[n] -= 1
                if waits_for[n] == 0:
                    ready.append(n)
        return order

    @property
    def length_ns(self) -> int:
        """Time from the begin of the first rank's step to the end of the last one's."""
        return max(self.nodes[n].end_ns for n in self._last.values()) - min(self._begins.values())

    def path(self) -> list[GraphPiece]:
        """Return the critical path: pieces in order of time, each of which begins where the one before ends.

        From the begin of the first rank's step to the end of the last one's: they add up to length_ns exactly.
        """
        at = max(self._last.values(), key=lambda n: self.nodes[n].end_ns)
        pieces: list[GraphPiece] = []
        while True:
            node = self.nodes[at]
            pieces.append(GraphPiece(node.rank, node.what, node.name, node.start_ns, node.end_ns))
            if not node.before:
                break
            at = max(node.before, key=lambda n: self.nodes[n].end_ns)
            end = self.nodes[at].end_ns
            pieces.append(GraphPiece(node.rank, "delay", node.name, end, node.start_ns))
        begin, first = self._begins[node.rank], min(self._begins.values())
        pieces.append(GraphPiece(node.rank, "delay", node.name, begin, max(node.start_ns, begin)))
        pieces.append(GraphPiece(node.rank, "before", "", first, begin))
        return [each for each in reversed(pieces) if each.end_ns > each.start_ns]

    def length_if_ns(self, faster: Mapping[str, float]) -> int:
        """Return length_ns if events were faster. faster: name or pattern, such as "aten::mm*" -> factor, above 0.

        An event takes what it calls and launches along. A collective's name is its kind and group ("all_reduce 0") or
        its kind; its time is that after the last rank has come. Raises errors.ValueError for a name that no event has.
        """
        factor = self._factors(faster)
        ended = [0] * len(self.nodes)
        for at in self._order:
            node = self.nodes[at]
            start = node.start_ns
            if node.before:
                start = max(ended[n] for n in node.before) + self._delay[at]
            ended[at] = start + round((node.end_ns - node.start_ns) / factor[at])
        return max(ended[n] for n in self._last.values()) - min(self._begins.values())

    def _factors(self, faster: Mapping[str, float]) -> list[float]:
        found = [1.0] * len(self.nodes)
        for wanted, value in faster.items():
            if not value > 0:
                raise errors.ValueError(
                    f"{wanted!r} {value} times faster: use a factor above 0, such as 2."
                )
            inside = {rank: _inside(rows, wanted) for rank, rows in self._rows.items()}
            used = False
            for at, node in enumerate(self.nodes):
                own = _is(node.name, wanted)
                own = own or (node.what == "collective" and node.name.split(" ")[0] == wanted)
                if own or (
                    node.what != "collective" and node.row >= 0 and inside[node.rank][node.row]
                ):
                    found[at] *= value
                    used = True
            if not used:
                known = sorted({node.name for node in self.nodes if node.name})
                remedy = f"Use a name or a pattern of these: {', '.join(known[:20])}."
                if not known:
                    remedy = "It has no op, kernel or collective: there is nothing to make faster."
                raise errors.ValueError(f"no event of the step is named {wanted!r}. {remedy}")
        return found


def _is(name: str, wanted: str) -> bool:
    return name == wanted or fnmatchcase(name, wanted)


def _inside(rows: RankRows, wanted: str) -> Array:
    """Return which rows have a name or are in an event that has it."""
    found = np.array([*(_is(each, wanted) for each in rows.names), False], np.bool_)[rows.name]
    at = rows.parent.copy()
    while (at >= 0).any():
        found |= (at >= 0) & found[at.clip(min=0)]
        at = np.where(at >= 0, rows.parent[at.clip(min=0)], -1)
    return found
