# SPDX-License-Identifier: Apache-2.0
"""StepTimes: the steps of a recording, and the self time of each name in each step. On columns. Any thread."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.named_rows import NamedRows
from fastprof.analysis.wait_kinds import kinds_of_rows
from fastprof.base.cached_property import cached_property
from fastprof.base.event_names import OPTIMIZER_STEP
from fastprof.model.thread_time import task_tracks

__all__ = ["StepTimes"]

Array: TypeAlias = NDArray[Any]
_STEP = re.compile(r"^ProfilerStep#\d+$")
_LEAST_BY_OPTIMIZER = 3
_MOST_OUTSIDE = 0.5  # of the recording, where the optimizer makes the steps
_MAX_CELLS = (
    20_000_000  # bounds the matrix StepTimes.self_ns: names with the least self time are left out
)


class StepTimes:
    """Steps are rows named "ProfilerStep#N", or `step` if given; without any, they are from one end of a step of
    torch's optimizer to the next, if these are most of the recording; else the whole recording is one step.

    marks: a row for each step, by start: the step's own, or the optimizer's that ends it; empty if there are none.
    rows: the steps' own rows, empty without. start, end: their times, int64 ns. thread: of the steps; without steps,
    the thread with the longest outermost ranges. Without steps, imports do not count.
    """

    def __init__(self, events: NamedRows, step: str | None = None) -> None:
        self.events = events
        wanted = _STEP.search if step is None else lambda name: name == step
        self.rows = self.marks = self._of_one_thread(events.outermost(events.where(wanted)))
        self.start, self.end = events.start[self.rows], events.end[self.rows]
        if len(self.rows):
            self.thread = int(events.thread[self.rows[0]])
            return
        roots = np.flatnonzero(events.parent < 0)
        threads, code = np.unique(events.thread[roots], return_inverse=True)
        spent = np.bincount(code.reshape(-1), events.end[roots] - events.start[roots])
        self.thread = int(threads[np.argmax(spent)]) if len(threads) else 0
        mine = events.thread == self.thread
        self.start = events.start[mine].min(keepdims=True) if mine.any() else np.zeros(1, np.int64)
        self.end = events.end[mine].max(keepdims=True) if mine.any() else np.zeros(1, np.int64)
        if step is None:
            self._step_by_optimizer()

    def _of_one_thread(self, rows: Array) -> Array:
        """Return those of `rows` on the thread that has most of them, by start."""
        if len(rows):
            threads, counts = np.unique(self.events.thread[rows], return_counts=True)
            rows = rows[self.events.thread[rows] == threads[np.argmax(counts)]]
        order: Array = np.argsort(self.events.start[rows], kind="stable")
        return rows[order]

    def _step_by_optimizer(self) -> None:
        """Take as steps what lies between the ends of steps of the kind of optimizer that ends one first."""
        events = self.events
        rows = events.outermost(events.where(lambda name: name.startswith(OPTIMIZER_STEP)))
        rows = self._of_one_thread(rows)
        if len(rows) <= _LEAST_BY_OPTIMIZER or events.thread[rows[0]] != self.thread:
            return
        rows = rows[events.name_id[rows] == events.name_id[rows[0]]]
        inside = events.end[rows[-1]] - events.end[rows[0]]
        if len(rows) > _LEAST_BY_OPTIMIZER and inside >= _MOST_OUTSIDE * self.duration[0]:
            self.marks = rows[1:]
            self.start, self.end = events.end[rows[:-1]], events.end[rows[1:]]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def count(self) -> int:
        """Number of steps; 0 if the whole recording is taken as one."""
        return len(self.marks)

    @property
    def by_optimizer(self) -> str:
        """Name of the optimizer's range whose ends part the steps; "" if the steps have rows of their own."""
        return self.events.name(int(self.marks[0])) if self.count and not len(self.rows) else ""

    def name(self, step: int) -> str:
        """Return the name of a step, by index."""
        return f"step {step}" if self.by_optimizer else self.events.name(int(self.marks[step]))

    @property
    def inside_task(self) -> bool:
        """Whether the steps are ranges of a task, so that only that task's events lie inside of them."""
        if not len(self.rows):
            return False
        of_tasks = task_tracks(self.events.table)
        row = self.events.tree.table_row(int(self.rows[0]))
        return of_tasks is not None and bool(of_tasks[self.events.table.column("track")[row]])

    @property
    def duration(self) -> Array:
        """Duration of each step, int64 ns."""
        length: Array = self.end - self.start
        if not self.count:
            length = length - self.imports_ns
        return length

    @cached_property
    def imports_ns(self) -> int:
        """Time of imports on the steps' thread."""
        chosen = self.events.is_import & (self.events.thread == self.thread)
        return int((self.events.end - self.events.start)[chosen].sum())

    @cached_property
    def step_of(self) -> Array:
        """Index of the step in which each row of the steps' thread begins; -1 outside and on other threads."""
        number = np.searchsorted(self.start, self.events.start, side="right") - 1
        inside = (number >= 0) & (self.events.thread == self.thread)
        inside &= self.events.start < self.end[np.maximum(number, 0)]
        if not self.count:
            inside &= ~self.events.is_import
        return np.where(inside, number, -1)

    @cached_property
    def wait_kind(self) -> Array:
        """Index of each row's kind of wait in wait_kinds.KINDS, -1 for no wait."""
        return kinds_of_rows(self.events)

    @cached_property
    def names(self) -> Array:
        """Name codes that occur inside of steps, in order of their self time, most first."""
        inside = self.step_of >= 0
        inside[self.rows] = False
        total = np.bincount(
            self.events.name_id[inside], self.events.self_ns[inside], len(self.events.names)
        )
        order = np.argsort(-total, kind="stable")
        kept: Array = order[total[order] > 0]
        return kept[: max(_MAX_CELLS // max(len(self), 1), 1)]

    @cached_property
    def self_ns(self) -> Array:
        """Self time by (step, name), float64 ns; columns as `names`."""
        column = np.full(len(self.events.names), -1, np.int64)
        column[self.names] = np.arange(len(self.names))
        at = column[self.events.name_id]
        chosen = (self.step_of >= 0) & (at >= 0)
        chosen[self.rows] = False
        cell = self.step_of[chosen] * len(self.names) + at[chosen]
        sums = np.bincount(cell, self.events.self_ns[chosen], len(self) * len(self.names))
        return sums.reshape(len(self), len(self.names))

    @cached_property
    def unmeasured_ns(self) -> Array:
        """Time of each step that no event inside of it covers, float64 ns."""
        rest: Array = self.duration - self.self_ns.sum(axis=1)
        return rest

    def gaps_of(self, step: int) -> tuple[Array, Array]:
        """Return begin and end of the times of a step that no event inside of it covers, longest first."""
        inside = self.step_of == step
        inside[self.rows] = False
        rows = np.flatnonzero(inside)
        rows = rows[np.argsort(self.events.start[rows], kind="stable")]
        ends = np.maximum.accumulate(np.append(self.start[step], self.events.end[rows]))
        begins = np.append(self.events.start[rows], self.end[step])
        kept = np.flatnonzero(begins > ends)
        kept = kept[np.argsort(-(begins - ends)[kept], kind="stable")]
        return ends[kept], begins[kept]

    def events_of(self, code: int, step: int | None = None) -> Array:
        """Return the rows of a name inside of steps, longest self time first."""
        of_step = self.step_of >= 0 if step is None else self.step_of == step
        found = np.flatnonzero(of_step & (self.events.name_id == code))
        return found[np.argsort(-self.events.self_ns[found], kind="stable")]
