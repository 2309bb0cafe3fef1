# SPDX-License-Identifier: Apache-2.0
"""TaskSteps: when each asyncio or trio task of a table ran, to attribute samples of its thread to it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.model.sampled_stacks import SampledStacks
from fastprof.model.table import EventTable

__all__ = ["NO_TASK", "TaskSteps"]

Array: TypeAlias = NDArray[Any]

NO_TASK = "(outside of tasks)"


class TaskSteps:
    """The times in which tasks ran: a task's lifetime without its suspensions. Immutable: any thread."""

    def __init__(self, table: EventTable) -> None:
        categories = np.array(table.sites.field("category"), object)[table.column("site")]
        lives = np.flatnonzero(categories == "task_lifetime")
        awaits = np.flatnonzero(categories == "task_await")
        track = table.column("track")
        awaits_of: dict[int, list[int]] = {}
        for row in awaits.tolist():
            awaits_of.setdefault(int(track[row]), []).append(row)
        self.names: list[str] = [NO_TASK]
        known = {NO_TASK: 0}
        self._pid = table.pid
        # (process, id of the kernel) -> begin, end, name
        parts: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for row in lives.tolist():
            name = known.setdefault(table.name(row), len(known))
            if name == len(self.names):
                self.names.append(table.name(row))
            place = table.tracks[int(track[row])]
            steps = parts.setdefault((place.pid, place.tid), [])
            at, end = int(table.start_ns[row]), int(table.end_ns[row])
            suspended = (
                (int(table.start_ns[each]), int(table.end_ns[each]))
                for each in awaits_of.get(int(track[row]), ())
            )
            for begin, over in sorted(suspended):
                if at <= begin <= end:
                    steps.append((at, begin, name))
                    at = over
            if at < end:
                steps.append((at, end, name))
        self._steps = {key: np.array(sorted(each), np.int64) for key, each in parts.items()}

    def counts(self, samples: SampledStacks, kept: Array) -> list[int]:
        """Return the number of samples in each of `names`. kept: mask of the runs that count.

        The times of the samples of a run are interpolated.
        """
        found = np.zeros(len(self.names), np.int64)
        for thread, (tid, _) in enumerate(samples.threads):
            runs = np.flatnonzero(kept & (samples.thread == thread))
            count = samples.count[runs].astype(np.int64)
            steps = self._steps.get((samples.pid_of(thread, self._pid), tid))
            if steps is None or not len(steps):
                found[0] += count.sum()
                continue
            first, last = samples.first_ns[runs], samples.last_ns[runs]
            run = np.repeat(np.arange(len(runs)), count)
            index = np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
            gap = (last - first) / np.maximum(count - 1, 1)
            at = first[run] + (gap[run] * index).astype(np.int64)
            step = np.searchsorted(steps[:, 0], at, "right") - 1
            inside = (step >= 0) & (at < steps[step, 1])
            found += np.bincount(np.where(inside, steps[step, 2], 0), minlength=len(found))
        return [int(count) for count in found]
