# SPDX-License-Identifier: Apache-2.0
"""The observers of a recording, by its options. A new one is a class in a file of its own, and a line here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from fastprof.adapters.tasks import FollowedTasks
from fastprof.adapters.torch.ops import Observation
from fastprof.base.native_numbers import Category
from fastprof.base.observer import Observer
from fastprof.profiler.gc_events import GcEvents
from fastprof.profiler.options import Options
from fastprof.profiler.stack_sampling import StackSampling
from fastprof.record.python_calls import TracedCalls
from fastprof.record.python_memory import PythonMemory
from fastprof.record.thread_starts import FollowedWork

if TYPE_CHECKING:
    from fastprof.adapters.torch.ops import Part

if "torch" in sys.modules:
    # What a start with shapes or memory needs. Beside 16 threads that compute, importing it there took 0.3 s, since
    # each access to a file releases the GIL; here a program mostly has no such threads yet.
    from fastprof.adapters.torch import inputs, memory  # noqa: F401

__all__ = ["chosen_observers"]

_OP_CATEGORIES = Category.USER | Category.OP


def chosen_observers(
    options: Options, report: Callable[[str, str], None], devices: Observer
) -> list[Observer]:
    """Return the observers in the order in which they start; they end in the reverse order.

    report: called with (name, reason) of what torch's observers cannot record.
    """
    return [*_of_torch(options, report, devices), *_of_python(options)]


def _of_torch(
    options: Options, report: Callable[[str, str], None], devices: Observer
) -> Iterator[Observer]:
    if not options.categories & _OP_CATEGORIES:
        yield devices
        return
    parts: list[Part] = []
    threads: list[Observer] = []
    if not options.all_threads:
        from fastprof.adapters.torch.threads import TorchThreads

        followed = TorchThreads(partial(report, "torch_threads"))
        parts.append(followed)
        threads.append(followed)
    if options.profile_memory:
        from fastprof.adapters.torch.memory import TorchMemory

        parts.append(TorchMemory(partial(report, "profile_memory")))
    if options.with_modules:
        from fastprof.adapters.torch.modules import TorchModules

        parts.append(TorchModules(partial(report, "with_modules")))
    if options.python_calls is not None:
        from fastprof.adapters.torch.module_calls import ModuleCalls

        parts.append(ModuleCalls())
    yield Observation(report, parts, inputs=options.record_shapes)
    yield devices
    yield from threads


def _of_python(options: Options) -> Iterator[Observer]:
    if options.gc_events:
        yield GcEvents()
    if options.tasks:
        yield FollowedTasks()
    if not options.all_threads:
        yield FollowedWork()
    if options.python_calls is not None:  # after those above, so that their start is not traced
        yield TracedCalls(options.python_calls)
    if options.python_memory:
        yield PythonMemory(options.python_memory == "exact")
    if options.sample_hz:
        if options.sample_file:
            yield StackSampling(options.sample_hz, file=options.sample_file)
        else:
            native, tasks = options.native, options.sample_tasks
            yield StackSampling(options.sample_hz, native=native, tasks=tasks)
