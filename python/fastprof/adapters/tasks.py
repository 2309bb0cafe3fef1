# SPDX-License-Identifier: Apache-2.0
"""FollowedTasks: records which task runs on each thread, for one recording.

Native code observes the steps of asyncio's tasks, on any event loop (csrc/adapters/python/task_switches.cpp). asyncio
and trio are never imported here: if one is missing, the recording starts to follow it once the program imports it.
"""

from __future__ import annotations

import sys

from fastprof import _core
from fastprof.adapters.asyncio_tasks import learn_task_steps, running_task
from fastprof.adapters.import_watch import after_import, forget_import
from fastprof.adapters.trio_tasks import follow_trio, running_trio_task, unfollow_trio
from fastprof.base.observer import Observer

__all__ = ["FollowedTasks"]


class FollowedTasks(Observer):
    """The recording of task switches from start() to stop()."""

    missing = "tasks"

    def __init__(self) -> None:
        self._switches = _core.TaskSwitches()
        self._watches_imports = False
        self._follows_trio = False

    def start(self) -> list[str]:
        self._switches.begin()
        after_import("asyncio", _asyncio_imported)
        after_import("trio", self._trio_imported)
        self._watches_imports = True
        loop, task = running_task()
        if task is not None:
            _core.note_running_task(task)
            # The end of the step in progress cannot be observed, so a callback reports it. The loop runs
            # the callback before it waits for anything.
            loop.call_soon(_core.running_task_left, task)
        else:
            _core.note_running_task(running_trio_task())
        if "asyncio" in sys.modules and not _core.task_steps_known():
            return ["tasks are not told apart: this Python steps asyncio's tasks in an unknown way"]
        return []

    def stop(self) -> None:
        self._switches.end()
        if self._watches_imports:
            self._watches_imports = False
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
