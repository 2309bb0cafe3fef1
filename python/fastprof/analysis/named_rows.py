# SPDX-License-Identifier: Apache-2.0
"""NamedRows: a tree's rows by name, category and place among their siblings, on columns. Any thread."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.traversal import NO_LOCATION
from fastprof.base.cached_property import cached_property
from fastprof.model.imports import Imports
from fastprof.model.table import EventTable
from fastprof.model.thread_time import task_rows, task_tracks
from fastprof.model.tree import EventTree

__all__ = ["NamedRows"]

Array: TypeAlias = NDArray[Any]
_LOCATION = re.compile(r"\.py\(\d+\)")
_LIBRARY = re.compile(r"(^|[/\\])torch[/\\]|(^|[/\\])fastprof[/\\]|^<frozen ")


class NamedRows:
    """The host events of a table, numbered by their place in `tree`.

    Columns, one element per event: start, end, self_ns: begin, end and self time, int64 ns; name_id: index into
    `names`; thread: id of the thread's track; parent: number of the enclosing event, -1 for none.

    imports: those of the table. What ran inside of an import is left out, so that the import has its time;
    is_import: mask of the imports that remain.
    by_task: events nest within their task, `thread` is the id of the task's track, and the rows of tasks and their
    suspensions are events. Otherwise the work of tasks is their thread's (EventTree.by_thread).
    """

    def __init__(
        self, table: EventTable, left_out: Array | None = None, by_task: bool = False
    ) -> None:
        by_task = by_task or task_tracks(table) is None
        views = None if by_task else task_rows(table)
        full = EventTree.of(table) if by_task else EventTree.by_thread(table, hidden=views)
        self.by_task = by_task
        self.table = table
        self.imports = Imports(table)
        hidden = None if full.on_cpu is None else ~full.on_cpu
        inside = self.imports.inside if left_out is None else self.imports.inside | left_out
        if self.imports or left_out is not None:
            inside = full.take(inside)
            hidden = inside if hidden is None else hidden | inside
        self.tree = full if hidden is None else full.without(hidden)
        self.is_import: Array = self.tree.take(self.imports.rows)
        self.start: Array = self.tree.take(table.start_ns)
        self.end: Array = self.tree.take(table.end_ns)
        self.name_id: Array = self.tree.take(table.name_id)
        self.thread: Array = self.tree.take(table.thread if by_task else table.recording_thread)
        self.names = table.names
        self.parent = self.tree.parent

    def __len__(self) -> int:
        return len(self.tree)

    def without(self, left_out: Array) -> NamedRows:
        """Return the rows without some, by table row; their time is that of what encloses them."""
        return NamedRows(self.table, left_out, self.by_task)

    @cached_property
    def self_ns(self) -> Array:
        """Self time, int64 ns."""
        return self.tree.self_ns

    @cached_property
    def is_op(self) -> Array:
        """Mask of the ops of a framework (category cpu_op)."""
        by_site = np.array([c == "cpu_op" for c in self.table.sites.field("category")], np.bool_)
        return self.tree.take(by_site[self.table.column("site")])

    @cached_property
    def top_ops(self) -> Array:
        """Ops that no op encloses directly, by thread and start."""
        parent_is_op = self.is_op[self.parent] & (self.parent >= 0)
        found = np.flatnonzero(self.is_op & ~parent_is_op)
        order: Array = np.lexsort((self.start[found], self.thread[found]))
        return found[order]

    def where(self, predicate: Callable[[str], Any]) -> Array:
        """Return the rows whose name satisfies a predicate, which is called once per name."""
        codes = np.array([bool(predicate(name)) for name in self.names], np.bool_)
        return np.flatnonzero(codes[self.name_id]) if codes.any() else np.zeros(0, np.int64)

    def named(self, *names: str) -> Array:
        """Return the rows of these names."""
        wanted = frozenset(names)
        return self.where(lambda name: name in wanted)

    def name(self, row: int) -> str:
        """Return the name of a row."""
        return self.names[int(self.name_id[row])]

    def total_ns(self, rows: Array) -> float:
        """Return the sum of the durations of `rows`, in ns; nested rows count several times."""
        return float((self.end[rows] - self.start[rows]).sum())

    def inside(self, rows: Array, outer: Array) -> Array:
        """Return those of `rows` that have one of `outer` as an ancestor."""
        return rows[self.nearest(rows, outer) >= 0]

    def nearest(self, rows: Array, outer: Array) -> Array:
        """Return for each of `rows` the nearest of its ancestors among `outer`, -1 for none."""
        is_outer = np.zeros(len(self) + 1, np.bool_)
        is_outer[outer] = True
        at = self.parent[rows].astype(np.int64)
        while bool((moving := (at >= 0) & ~is_outer[at]).any()):
            at[moving] = self.parent[at[moving]]
        return at

    def outermost(self, rows: Array) -> Array:
        """Return those of `rows` that no other of them encloses, so that their times can be added."""
        return rows[self.nearest(rows, rows) < 0]

    @cached_property
    def _siblings(self) -> tuple[Array, Array]:
        """Rows by (thread, parent, start), and the place of each row in that order."""
        order = np.lexsort((self.start, self.parent, self.thread))
        place = np.empty(len(self), np.int64)
        place[order] = np.arange(len(self))
        return order, place

    def sibling(self, row: int, step: int) -> int:
        """Return the sibling `step` places after (or before) a row, -1 for none."""
        order, place = self._siblings
        at = int(place[row]) + step
        if not 0 <= at < len(order):
            return -1
        other = int(order[at])
        same = self.parent[other] == self.parent[row] and self.thread[other] == self.thread[row]
        return other if same else -1

    def last_child(self, row: int) -> int:
        """Return the child of a row that begins last, -1 for none."""
        order, _ = self._siblings
        thread, parent = self.thread[row], row
        low, high = np.searchsorted(self.thread[order], [thread, thread + 1])
        part = order[low:high]
        at = int(np.searchsorted(self.parent[part], parent, side="right")) - 1
        return int(part[at]) if at >= 0 and self.parent[part[at]] == row else -1

    def detail(self, row: int, column: str) -> Any:
        """Return the value of a coded column, None without one."""
        coded = self.table.coded.get(column)
        return None if coded is None else coded[self.tree.table_row(row)]

    def stack(self, row: int) -> list[str]:
        """Return the Python stack, innermost first: as recorded, else the enclosing Python calls."""
        recorded = self.detail(row, "stack")
        if recorded:
            return list(recorded)
        found = []
        at = row
        while at >= 0:
            if _LOCATION.search(self.name(at)):
                found.append(self.name(at))
            at = int(self.parent[at])
        return found

    def location(self, row: int) -> str:
        """Return the innermost frame outside of torch's and the profiler's own code."""
        return next((f for f in self.stack(row) if not _LIBRARY.search(f)), NO_LOCATION)
