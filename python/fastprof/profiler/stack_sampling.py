# SPDX-License-Identifier: Apache-2.0
"""StackSampling: sample the Python stacks of all threads during one recording (sample_hz)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fastprof import _core
from fastprof.base.observer import Observer
from fastprof.model.sampled_stacks import SampledStacks
from fastprof.record.subinterpreters import Subinterpreters
from fastprof.record.thread_names import follow_names, stop_following_names

__all__ = [
    "FILE_BYTES",
    "MAX_RUNS",
    "StackSampling",
    "is_start",
    "of_program",
    "room_problems",
    "samples_of",
]

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_STARTERS = ("fastprof", "<frozen runpy>", "runpy.py")
_WRAPPER = os.path.join(_PACKAGE, "record", "propagation.py")  # of what a program's thread runs
MAX_RUNS = 1 << 23  # of 40 bytes
FILE_BYTES = 64 << 20  # of a followed process; each half has 20 minutes of a busy thread at 1 kHz
_FILE_SECONDS = 1e9


class StackSampling(Observer):
    """A native thread that copies stacks without the GIL; see docs/sampling.md."""

    missing = "sample_hz"

    def __init__(
        self, hz: float, *, native: bool = False, tasks: bool = False, file: str = ""
    ) -> None:
        """file: new file for the samples, which another process reads; "": they are in `samples` after finish()."""
        self._hz = hz
        self._file = file
        self._tasks: Any = None
        if tasks:
            from fastprof.profiler.task_sampling import SuspendedTasks

            self._tasks = SuspendedTasks(hz)
        self._sampler = _core.StackSampler(hz, MAX_RUNS, native)
        self._subinterpreters = Subinterpreters()
        self._samples: SampledStacks | None = None

    def start(self) -> list[str]:
        problem = self._file and self._sampler.write_to(
            self._file, FILE_BYTES, _FILE_SECONDS, grows=True
        )
        problem = problem or self._sampler.begin()
        if problem:
            return [f"stacks are not sampled: {problem}"]
        follow_names(self._sampler)
        self._subinterpreters.begin()
        problems = [] if self._tasks is None else self._tasks.start()
        if problem := self._sampler.native_problem:
            problems.append(f"samples have no native frames: {problem}")
        return problems

    def finish(self) -> list[str]:
        if not self._sampler.active:
            return []
        stop_following_names(self._sampler)
        if self._tasks is not None:
            self._tasks.finish()
        self._sampler.end()
        problems = []
        if self._subinterpreters.end():
            problems.append(
                "code in subinterpreters is not sampled: `fastprof attach --outside PID` samples it"
            )
        if self._file:
            return problems
        found = samples_of(self._sampler, self._hz, {})
        self._samples = of_program(found)
        if self._tasks is not None:
            self._samples = self._tasks.joined(self._samples)
        return problems + room_problems(found)

    def metadata(self) -> Mapping[str, Any]:
        if self._samples is None:
            return {}
        return {"sampling": {"hz": self._hz, **self._samples.counts}}

    @property
    def samples(self) -> SampledStacks | None:
        """What was sampled, after finish()."""
        return self._samples


def samples_of(sampler: _core.StackSampler, hz: float, names: Mapping[int, str]) -> SampledStacks:
    """Return what a sampler has found, after its end(). names: of threads, by the kernel's id."""
    columns: dict[str, Any] = {**sampler.columns()}
    tids = columns.pop("tid").tolist()
    kernel_names = zip(tids, sampler.thread_names(), strict=True)
    return SampledStacks(
        hz=hz,
        codes=tuple(sampler.codes()),
        threads=tuple(
            (tid, names.get(tid) or name or f"thread {tid}") for tid, name in kernel_names
        ),
        counts=sampler.counts(),
        tasks_hz=0.0,
        **columns,
    )


def room_problems(samples: SampledStacks) -> list[str]:
    """Return that samples are missing because there were too many; [] if none are."""
    if room := samples.counts["samples_without_room"]:
        return [f"{room} samples were not kept, because there are too many: sample less often"]
    return []


def of_program(samples: SampledStacks) -> SampledStacks:
    """Return the samples of one process without fastprof's own threads, and without frames that start the program."""
    return samples.without_own_threads(_is_own).without_outermost(is_start)


def _is_own(file: str) -> bool:
    return file.startswith(_PACKAGE) and file != _WRAPPER


def is_start(file: str) -> bool:
    """Return whether code of a file only starts the program: that of `fastprof run`, and of python -m."""
    return file.startswith(_PACKAGE) or os.path.basename(file) in _STARTERS
