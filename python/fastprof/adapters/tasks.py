# SPDX-License-Identifier: Apache-2.0
"""FollowedTasks: records which task runs on each thread, for one recording.

asyncio's tasks, on any event loop, are seen from C (csrc/adapters/python/task_switches.cpp). Nothing
is imported: asyncio is awaited if it is not there yet.
"""

from __future__ import annotations

import sys

from fastprof import _core
from fastprof.adapters.asyncio_tasks import learn_task_steps, running_task
from fastprof.adapters.import_watch import after_import, forget_import
from fastprof.adapters.trio_tasks import follow_trio, running_trio_task, unfollow_trio

__all__ = ["FollowedTasks"]


class FollowedTasks:
    """The recording of task switches from start() to stop(). Use from one thread at a time."""

    def __init__(self) -> None:
        self._switches = _core.TaskSwitches()
        self._awaits = False
        self._follows_trio = False

    def start(self) -> list[str]:
        """Begin, after the session was started. Return what is not followed, as sentences."""
        self._switches.begin()
        after_import("asyncio", _asyncio_imported)
        after_import("trio", self._trio_imported)
        self._awaits = True
        loop, task = running_task()
        if task is not None:
            _core.note_running_task(task)
            # The step of this task is not seen to end. This runs before the loop waits for anything.
            loop.call_soon(_core.running_task_left, task)
        else:
            _core.note_running_task(running_trio_task())
        if "asyncio" in sys.modules and not _core.task_steps_known():
            return ["tasks are not told apart: this Python steps asyncio's tasks in an unknown way"]
        return []

    def stop(self) -> None:
        """End. Has no effect when called again."""
        self._switches.end()
        if self._awaits:
            self._awaits = False
            forget_import("asyncio", _asyncio_imported)
            forget_import("trio", self._trio_imported)
        if self._follows_trio:
            self._follows_trio = False
            unfollow_trio()

    def _trio_imported(self) -> None:
        self._follows_trio = True
        follow_trio()


def _asyncio_imported() -> None:
    learn_task_steps()
