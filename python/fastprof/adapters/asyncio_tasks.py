# SPDX-License-Identifier: Apache-2.0
"""asyncio's tasks: find the running one, and the C functions of CPython that step tasks."""

from __future__ import annotations

import _thread
import contextlib
import sys
from collections.abc import Awaitable, Generator
from typing import Any

from fastprof import _core

__all__ = ["learn_task_steps", "running_task"]


def running_task() -> tuple[Any, Any]:
    """Return (event loop that runs on this thread, its current task); None in place of each that is missing."""
    asyncio = sys.modules.get("asyncio")
    loop = getattr(asyncio, "_get_running_loop", lambda: None)()
    return loop, None if asyncio is None or loop is None else asyncio.current_task(loop)


def learn_task_steps() -> bool:
    """Find the functions of CPython's _asyncio that step tasks; return whether they are known. Runs once.

    Requires that asyncio is imported. A probe task runs on a minimal event loop that keeps its callbacks,
    from its first step to its end. It has a thread of its own, on which no other loop runs and no
    KeyboardInterrupt is raised. That thread imports nothing, so the caller may hold any import lock.
    """
    if _core.task_steps_known():
        return True
    finished = _thread.allocate_lock()
    finished.acquire()

    def learn() -> None:
        try:
            with contextlib.suppress(Exception):
                _learn_from_a_task()
        finally:
            finished.release()

    try:
        _thread.start_new_thread(learn, ())
    except RuntimeError:  # no more threads, or the interpreter is shutting down
        return False
    finished.acquire()
    return _core.task_steps_known()


def _learn_from_a_task() -> None:
    module = sys.modules["_asyncio"]
    loop, future = _Loop(), _Future()
    module._set_running_loop(loop)  # CPython >= 3.14 steps only tasks of the running loop
    task = module.Task(_awaiting(future), loop=loop, name="fastprof")
    future.loop = loop
    step = loop.callback
    step()  # runs until the task awaits the future
    wakeup = future.callback
    wakeup(future)  # runs until the task ends
    if task.done():
        _core.learn_task_steps(task, step, wakeup)


async def _awaiting(future: Awaitable[None]) -> None:
    await future


class _Loop:
    """Minimal event loop: the methods that a task calls. It keeps the last callback and runs nothing."""

    callback: Any = None

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> None:
        self.callback = callback

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        pass

    def is_running(self) -> bool:
        return True


class _Future:
    """Minimal future that has its result, None: the methods that a task calls."""

    _asyncio_future_blocking = False
    loop: Any = None
    callback: Any = None

    def __await__(self) -> Generator[Any, None, None]:
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> Any:
        return self.loop

    def add_done_callback(self, callback: Any, *, context: Any = None) -> None:
        self.callback = callback

    def result(self) -> None:
        return None
