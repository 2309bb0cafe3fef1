# SPDX-License-Identifier: Apache-2.0
"""What is known of asyncio's tasks: which one runs, and the callbacks that step them."""

from __future__ import annotations

import _thread
import contextlib
import sys
from collections.abc import Awaitable, Generator
from typing import Any

from fastprof import _core

__all__ = ["learn_task_steps", "running_task"]


def running_task() -> tuple[Any, Any]:
    """Return the event loop that runs on this thread and its current task; None for neither."""
    asyncio = sys.modules.get("asyncio")
    loop = getattr(asyncio, "_get_running_loop", lambda: None)()
    return loop, None if asyncio is None or loop is None else asyncio.current_task(loop)


def learn_task_steps() -> bool:
    """Find the functions of CPython's _asyncio that step tasks, once. Needs asyncio, imported.

    A task is made on an event loop that hands its callbacks to us, and stepped until it has ended: on a
    thread of its own, which has no running loop, and on which no KeyboardInterrupt is raised. The
    thread imports nothing, so that it may be waited for under any import lock.
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
    step()  # awaits the future
    wakeup = future.callback
    wakeup(future)  # ends
    if task.done():
        _core.learn_task_steps(task, step, wakeup)


async def _awaiting(future: Awaitable[None]) -> None:
    await future


class _Loop:
    """What a task needs of its event loop."""

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
    """What a task needs of a future that it awaits; it has a result."""

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
