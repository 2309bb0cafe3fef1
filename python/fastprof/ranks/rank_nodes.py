# SPDX-License-Identifier: Apache-2.0
"""RankNodes: the rows of one rank that reach into a step, on the first rank's clock, and the nodes made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.ranks.clocks import RankClock
from fastprof.ranks.shard_rows import ShardRows
from fastprof.ranks.step_graph import StepNode

__all__ = ["Calls", "RankNodes"]

Array: TypeAlias = NDArray[Any]
# Collectives of a rank that others took part in: (group, sequence) -> number of the call, its kind and group.
Calls: TypeAlias = Mapping[tuple[str, int], tuple[int, str]]


class RankNodes:
    """Arrays by place; row: of the shard. low, high: begin and end of the step, at which start and end are cut.

    cuts: times at which the host's chain is cut. launched: (node, when the host launched it). waits: (begin, end, node)
    of the host's waits.
    """

    def __init__(
        self, rank: int, rows: ShardRows, calls: Calls, clock: RankClock, bounds: tuple[int, int],
        nodes: list[StepNode], members: dict[int, list[tuple[int, int]]],
    ) -> None:  # fmt: skip
        self.rank, self.rows, self.calls, self.clock = rank, rows, calls, clock
        self.nodes, self.members = nodes, members
        column = rows.columns
        chosen = self.row = rows.between(*bounds)
        self.low, self.high = clock.to_reference(list(bounds)).tolist()
        self.start, self.end = (
            self.times(each[chosen]) for each in (column["start_ns"], rows.end_ns)
        )
        self.thread, self.correlation = column["thread"][chosen], column["correlation"][chosen]
        self.name, self.names = column["name"][chosen], rows.texts["name"]
        self.group, self.groups = column["group"][chosen], rows.texts["group"]
        self.sequence = column["sequence"][chosen]
        self.device, self.gloo = rows.device[chosen], rows.gloo[chosen]
        self.host, self.busy = rows.host[chosen], rows.busy[chosen]
        ops, step = self.thread[self.busy], rows.step[chosen]
        self.main = int(np.bincount(ops).argmax()) if len(ops) else 0
        if step.any():
            self.main = int(self.thread[step][0])
        work = rows.gloo_work[chosen] & (self.thread != self.main)
        works = np.isin(self.thread, self.thread[work])
        self.host &= ~works  # what gloo's threads do is in its collectives
        self.busy &= ~works
        self.cuts: set[int] = set()
        self.waits: list[tuple[int, int, int]] = []
        self.launched: list[tuple[int, int]] = []

    def times(self, ns: Array) -> Array:
        """Return times of the rank's clock on the first rank's, cut at the step."""
        found: Array = self.clock.to_reference(ns).clip(self.low, self.high)
        return found

    def add(self, what: str, name: str, start: int, end: int, row: int = -1) -> int:
        """Add a node; return its number."""
        self.nodes.append(StepNode(self.rank, what, name, start, end, row))
        return len(self.nodes) - 1

    def call_of(self, at: int) -> tuple[int, str] | None:
        """Return number and name of the collective at a place; None if no other rank took part."""
        code = int(self.group[at])
        return None if code < 0 else self.calls.get((self.groups[code], int(self.sequence[at])))

    def add_collective(self, call: tuple[int, str], enter: int, leave: int, row: int) -> int:
        """Add a node for the enter and one for the collective; return the former. The latter is the next one."""
        entered = self.add("device", call[1], enter, enter, row)
        self.add("collective", call[1], leave, leave, row)
        self.members.setdefault(call[0], []).append((entered, entered + 1))
        return entered
