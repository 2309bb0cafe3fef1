# SPDX-License-Identifier: Apache-2.0
"""The tasks of asyncio and of trio that have not ended, on all threads, and what each of them awaits.

Neither library is imported here. All of it needs the GIL, and may raise what the program's own classes raise.
"""

from __future__ import annotations

import contextlib
import gc
import re
import sys
import weakref
from collections.abc import Iterator
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any

from fastprof import _core

__all__ = ["AsyncioTasks", "TrioTasks", "awaited_frames"]

_DEFAULT_NAME = re.compile(r"Task-\d+")
# What leads to a coroutine's awaited one without an attribute; their referents have it.
_WRAPPERS = ("coroutine_wrapper", "async_generator_asend", "async_generator_athrow")


class AsyncioTasks:
    """Tasks of asyncio. Since CPython 3.14, only those of loops that run now, or that ran at an earlier find()."""

    def __init__(self) -> None:
        self._loops: dict[int, weakref.ref[Any]] = {}
        self._knows_loops = False

    def find(self) -> list[Any]:
        """Return the tasks. Raises RuntimeError if tasks began or ended meanwhile."""
        asyncio: Any = sys.modules.get("asyncio.tasks")
        if sys.hexversion >= 0x030E0000:
            return [task for loop in self._find_loops() for task in asyncio.all_tasks(loop)]
        tasks: list[Any] = []
        for name in ("_all_tasks", "_scheduled_tasks"):
            tasks += getattr(asyncio, name, ())
        return [task for task in tasks if not task.done()]

    def _find_loops(self) -> list[Any]:
        set_loop = getattr(sys.modules.get("_asyncio"), "_set_running_loop", None)
        if set_loop is None or not hasattr(sys.modules.get("asyncio.tasks"), "all_tasks"):
            return []
        if not self._knows_loops:
            marker = object()
            set_loop(marker)
            self._knows_loops = _core.learn_running_loops(marker)
            set_loop(None)
        loops = {id(loop): loop for loop in _core.running_loops() if hasattr(loop, "is_closed")}
        for key, known in list(self._loops.items()):
            loop = known()
            if loop is None or loop.is_closed():
                del self._loops[key]
            else:
                loops[key] = loop
        for key, loop in loops.items():
            with contextlib.suppress(TypeError):  # a loop of a class without weak references
                self._loops[key] = weakref.ref(loop)
        return list(loops.values())

    def coroutine(self, task: Any) -> Any:
        """Return the outermost coroutine."""
        return task.get_coro()

    def waits(self, task: Any) -> bool:
        """Return whether a suspended task waits for something but the event loop."""
        return getattr(task, "_fut_waiter", None) is not None

    def name(self, task: Any) -> str:
        """Return the name that was given to a task, or else that of its coroutine."""
        name = str(task.get_name())
        if _DEFAULT_NAME.fullmatch(name):
            name = getattr(task.get_coro(), "__qualname__", name)
        return name


class TrioTasks:
    """Tasks of trio, without those with which a run works itself."""

    def find(self) -> list[Any]:
        """Return the tasks."""
        context: Any = getattr(sys.modules.get("trio._core._run"), "GLOBAL_RUN_CONTEXT", None)
        if context is None:
            return []
        tasks = (task for runner in _runners(context) for task in list(runner.tasks))
        return [task for task in tasks if not _is_internal(task)]

    def coroutine(self, task: Any) -> Any:
        """Return the outermost coroutine."""
        return task.coro

    def waits(self, task: Any) -> bool:
        """Return whether a suspended task waits for something but its turn."""
        return task._abort_func is not None

    def name(self, task: Any) -> str:
        """Return the name of a task: that of its function, unless another one was given."""
        return str(task.name)


def _runners(context: Any) -> Iterator[Any]:
    """Yield the runners of all threads from trio's threading.local object.

    Its referents are read, because each other thread's dictionary is out of reach of an attribute. Reading them from
    frames would be wrong: f_locals keeps the variables of a frame alive, up to CPython 3.12.
    """
    for by_thread in gc.get_referents(context):
        for values in list(by_thread.values()) if type(by_thread) is dict else ():
            runner = values.get("runner") if type(values) is dict else None
            if hasattr(runner, "tasks"):
                yield runner


def _is_internal(task: Any) -> bool:
    return "/trio/_core/" in getattr(task.coro, "cr_code", _is_internal.__code__).co_filename


def awaited_frames(coroutine: Any) -> list[FrameType]:
    """Return the frames of a suspended coroutine and of those that it awaits, outermost first.

    The functions with which trio suspends every task are left out.
    """
    frames = list(_frames(coroutine))
    while len(frames) > 1 and frames[-1].f_code.co_filename.endswith("/trio/_core/_traps.py"):
        frames.pop()
    return frames


def _frames(at: Any) -> Iterator[FrameType]:
    while at is not None:
        # Exactly these types: an attribute of another object may be the program's own code.
        if type(at) is CoroutineType:
            frame, following = at.cr_frame, at.cr_await
        elif type(at) is GeneratorType:
            frame, following = at.gi_frame, at.gi_yieldfrom
        elif type(at) is AsyncGeneratorType:
            frame, following = at.ag_frame, at.ag_await
        elif type(at).__name__ in _WRAPPERS:
            inner = (CoroutineType, AsyncGeneratorType)
            at = next((each for each in gc.get_referents(at) if type(each) in inner), None)
            continue
        else:
            return
        if frame is not None:
            yield frame
        at = following
