# SPDX-License-Identifier: Apache-2.0
"""SuspendedTasks: sample where the suspended tasks of asyncio and trio wait, as chains of coroutines.

Coroutines that do not run belong to no thread's stack, and only the GIL keeps them from running on. So a thread that
takes the GIL reads them, at a lower rate than that of the sampler of threads.
"""

from __future__ import annotations

import _thread
import random
import sys
import time
import weakref
from dataclasses import replace
from typing import Any

import numpy as np

from fastprof import _core
from fastprof.adapters.living_tasks import AsyncioTasks, TrioTasks, awaited_frames
from fastprof.base.visible_text import visible_text
from fastprof.model.sampled_stacks import AWAITS_STATE, SampledStacks

__all__ = ["SuspendedTasks"]

_MAX_HZ = 50.0
_MAX_TASKS = 1000  # at a time
_MAX_SHARE = 0.02  # of the time in which the GIL is held
_MAX_RUNS = 1 << 20
_MAX_FRAMES = 256
_READY = ("(ready: waits for the event loop)", "", 0)
_Code = tuple[str, str, int]
_Path = tuple[tuple[_Code, int], ...]  # functions and lines, outermost first


class SuspendedTasks:
    """Samples of tasks from start() to finish(), which one thread calls."""

    def __init__(self, hz: float) -> None:
        self.hz = min(hz, _MAX_HZ)
        self._libraries = (AsyncioTasks(), TrioTasks())
        self._random = random.Random()  # the program's own numbers stay as they are
        self._pause = _thread.allocate_lock()
        self._ended = False
        self._names: list[str] = []  # of rows: each has one task at a time
        self._runs: list[list[Any]] = []  # first, last, task, path, count
        self._newest: dict[int, list[Any]] = {}  # by row
        self._row_of: dict[int, tuple[weakref.ref[Any], int]] = {}  # by id of the task
        self._free: dict[str, list[int]] = {}  # rows of tasks that have ended, by name
        names = ("task_ticks", "torn_tasks", "task_samples_left_out", "task_sampler_cpu_ns")
        self._counts = dict.fromkeys(names, 0)

    def start(self) -> list[str]:
        """Begin; return what is not sampled."""
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            return ["suspended tasks are not sampled: use a CPython with a GIL"]
        self._pause.acquire()
        _thread.start_new_thread(self._run, ())
        return []

    def _run(self) -> None:
        _core.name_this_thread("fastprof-tasks")
        cost_s = 0.0
        while True:
            wait_s = max(self._random.uniform(0.5, 1.5) / self.hz, cost_s / _MAX_SHARE)
            self._pause.acquire(timeout=min(wait_s, 60.0))
            if self._ended:
                return
            begin_ns = time.thread_time_ns()
            self._tick()
            cost_ns = time.thread_time_ns() - begin_ns
            cost_s = cost_ns / 1e9
            self._counts["task_sampler_cpu_ns"] += cost_ns

    def _tick(self) -> None:
        self._counts["task_ticks"] += 1
        found: list[tuple[Any, Any]] = []
        try:
            for library in self._libraries:
                found += ((library, task) for task in library.find())
        except BaseException:  # of a class of the program's own, or tasks began or ended meanwhile
            self._counts["torn_tasks"] += 1
        else:
            self._free_rows({id(task): task for _, task in found})
        for library, task in found:
            if self._ended:
                return
            try:
                if (row := self._row(library, task)) < 0:
                    continue
                at_ns = time.time_ns()
                path = self._path(library, task)
            except BaseException:  # of a class of the program's own
                self._counts["torn_tasks"] += 1
                continue
            self._add(row, path, at_ns)

    def _free_rows(self, living: dict[int, Any]) -> None:
        """Leave the rows of tasks that have ended to later tasks of their names."""
        at_ns = time.time_ns()
        for key, (known, row) in list(self._row_of.items()):
            task = known()
            if task is None or living.get(key) is not task:
                del self._row_of[key]
                self._add(row, None, at_ns)
                self._free.setdefault(self._names[row], []).append(row)

    def _row(self, library: Any, task: Any) -> int:
        """Return the number of a task's row, of those that ended tasks of its name have left; -1: none."""
        known = self._row_of.get(id(task))
        if known is not None and known[0]() is task:
            return known[1]
        name = visible_text(f"task {library.name(task)}")
        free = self._free.get(name)
        if not free and len(self._names) == _MAX_TASKS:
            self._counts["task_samples_left_out"] += 1
            return -1
        row = free.pop() if free else len(self._names)
        if row == len(self._names):
            self._names.append(name)
        self._row_of[id(task)] = weakref.ref(task), row
        return row

    def _path(self, library: Any, task: Any) -> _Path | None:
        """Return the chain of a task's coroutines; None if it runs."""
        coroutine = library.coroutine(task)
        if getattr(coroutine, "cr_running", False) or getattr(coroutine, "gi_running", False):
            return None
        frames = [(frame, frame.f_lasti, frame.f_lineno) for frame in awaited_frames(coroutine)]
        waits = library.waits(task)
        path = [
            ((_name(frame.f_code), frame.f_code.co_filename, frame.f_code.co_firstlineno), line)
            for frame, _, line in frames[:_MAX_FRAMES]
        ]
        if any(frame.f_lasti != last for frame, last, _ in frames):
            self._counts["torn_tasks"] += 1
            return None
        return tuple(path) if waits else (*path, (_READY, 0))

    def _add(self, row: int, path: _Path | None, at_ns: int) -> None:
        run = self._newest.get(row)
        if run is not None and run[3] == path:
            run[1] = at_ns
            run[4] += path is not None
        elif len(self._runs) < _MAX_RUNS:
            # A run without a stack says that no task waited, and counts nothing.
            self._newest[row] = run = [at_ns, at_ns, row, path, int(path is not None)]
            self._runs.append(run)
        else:
            self._counts["task_samples_left_out"] += 1

    def finish(self) -> None:
        """End; the thread may still be in a tick, whose samples are left out."""
        self._ended = True
        if self._pause.locked():
            self._pause.release()

    def joined(self, samples: SampledStacks) -> SampledStacks:
        """Return the samples with a thread for each task, after finish()."""
        runs = [list(run) for run in self._runs]
        codes: dict[_Code, int] = {}
        nodes: dict[tuple[int, int, int], int] = {}
        first_node, first_code = len(samples.parent), len(samples.codes)
        for run in runs:
            node = -1
            for code, line in run[3] or ():
                key = (node, codes.setdefault(code, len(codes)) + first_code, line)
                node = nodes.setdefault(key, first_node + len(nodes))
            run[3] = node
        first, last, task, node_of, count = (
            np.array([run[at] for run in runs], np.int64) for at in range(5)
        )
        added = {
            "first_ns": first,
            "last_ns": last,
            "thread": task + len(samples.threads),
            "node": node_of,
            "count": count,
            "state": np.full(len(runs), AWAITS_STATE),
        }
        tree = np.array(list(nodes), np.int64).reshape(-1, 3)
        changed: dict[str, Any] = {
            name: np.concatenate([column, added[name].astype(column.dtype)])
            for name in added
            for column in [getattr(samples, name)]
        }
        for at, name in enumerate(("parent", "code", "line")):
            column = getattr(samples, name)
            changed[name] = np.concatenate([column, tree[:, at].astype(column.dtype)])
        return replace(
            samples,
            codes=(*samples.codes, *codes),
            threads=(*samples.threads, *((0, name) for name in self._names)),
            counts={**samples.counts, **self._counts},
            tasks_hz=self.hz,
            **changed,
        )


def _name(code: Any) -> str:
    return str(getattr(code, "co_qualname", code.co_name))
