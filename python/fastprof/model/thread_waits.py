# SPDX-License-Identifier: Apache-2.0
"""Waits of threads for other threads and for events: which rows, for what, and which are those of idle workers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.formatting import format_time
from fastprof.model.blocking_calls import awaited, is_worker_loop
from fastprof.model.parents import skip_rows
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["ThreadWaits"]

Array: TypeAlias = NDArray[Any]
_SHOWN = 4


class ThreadWaits:
    """The outermost calls of a table that wait (model/blocking_calls.py). Any thread.

    outer: mask of them, by table row. idle: mask of those that worker loops made while they had no work, such as that
    of a thread pool.
    """

    def __init__(self, table: EventTable) -> None:
        self.table = table
        calls = table.sites.column("is_python_function").tolist()
        names = table.sites.names
        self._things = [awaited(n) if call else "" for n, call in zip(names, calls, strict=True)]
        self.outer: Array = np.zeros(len(table), np.bool_)
        self.idle: Array = np.zeros(len(table), np.bool_)
        if not any(self._things):
            return
        site = table.column("site")
        waits = np.array([bool(thing) for thing in self._things], np.bool_)[site]
        parent = np.asarray(EventTree.of(table).parent_rows(), np.int64)
        self.outer = waits & (np.asarray(skip_rows(parent, waits), np.int64) < 0)
        loops = np.array([is_worker_loop(name) for name in names], np.bool_)[site]
        self.idle = self.outer & (parent >= 0) & loops[parent]

    def text(self) -> str:
        """Return what was waited for, longest first: "the end of a thread 1.2s, a lock 30ms"; "" for no waits."""
        return ", ".join(f"{what} {format_time(ns / 1000)}" for what, ns in self._sums()[:_SHOWN])

    @property
    def idle_ns(self) -> int:
        """Time in which workers were idle."""
        return int(self.table.duration_ns[self.idle].sum())

    def without_idle(self, tree: EventTree) -> EventTree:
        """Return a tree of the table in which idle workers run nothing while they wait: no time is counted there."""
        if not self.idle.any():
            return tree
        idle, total = tree.take(self.idle), tree.total_ns
        none = np.zeros(len(tree), np.int64)
        suspended, given = tree.away_ns or (none, none)
        inside = np.asarray(skip_rows(tree.parent, idle)) >= 0
        # What a row waits is also suspended of all rows around it.
        waited = tree.sum_subtree(np.where(idle, total - suspended, 0))
        suspended = np.where(inside, total, suspended + waited)
        return EventTree(tree.table, tree.rows, tree.parent, tree.kernel_rows, (suspended, given))

    def _sums(self) -> list[tuple[str, int]]:
        rows = self.outer & ~self.idle
        by_site = np.bincount(
            self.table.column("site")[rows], self.table.duration_ns[rows], len(self._things)
        )
        found: dict[str, int] = {}
        for what, ns in zip(self._things, by_site.tolist(), strict=True):
            if what and ns:
                found[what] = found.get(what, 0) + int(ns)
        return sorted(found.items(), key=lambda item: -item[1])
