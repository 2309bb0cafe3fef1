# SPDX-License-Identifier: Apache-2.0
"""Record which of trio's tasks runs, by an instrument in trio's runs while a profile records tasks.

trio calls an instrument before and after each step of a task. A run that begins during a profile gets the
instrument at its creation; of the runs in progress when a profile starts, only that of the starting thread
gets it. trio is never imported here.
"""

from __future__ import annotations

import sys
from typing import Any

from fastprof import _core

__all__ = ["follow_trio", "running_trio_task", "unfollow_trio"]

_users = 0
_original: Any = None  # Instruments.__init__, while it is replaced


class _TaskInstrument:
    """The instrument, shared by all runs. trio looks its methods up when it is added."""

    def __init__(self) -> None:
        self.ended: set[Any] = set()
        self.begun_before: set[Any] = set()  # tasks whose step was in progress when this was added

    def before_task_step(self, task: Any) -> None:
        if _users:
            _core.enter_task(task)
        else:
            sys.modules["trio"].lowlevel.remove_instrument(self)

    def task_exited(self, task: Any) -> None:
        self.ended.add(task)

    def after_task_step(self, task: Any) -> None:
        ended = task in self.ended
        self.ended.discard(task)
        if task in self.begun_before:
            self.begun_before.discard(task)
            _core.running_task_left(task, ended)
        else:
            _core.leave_task(task, ended)


_instrument = _TaskInstrument()


def follow_trio() -> None:
    """Begin for one more profile. Requires that trio is imported."""
    global _users, _original
    _users += 1
    instruments = _instruments_type()
    if instruments is None or _original is not None:
        return
    _original = original = instruments.__init__

    def with_ours(self: Any, incoming: Any) -> None:
        original(self, incoming)
        if _users:
            self.add_instrument(_instrument)

    instruments.__init__ = with_ours


def unfollow_trio() -> None:
    """End for one profile. Instruments of runs in progress remove themselves at the next step."""
    global _users, _original
    _users = max(_users - 1, 0)
    instruments = _instruments_type()
    if not _users and _original is not None and instruments is not None:
        instruments.__init__ = _original
        _original = None


def running_trio_task() -> Any:
    """Return the trio task that runs on this thread, and add the instrument to its run; None outside of a run."""
    lowlevel = getattr(sys.modules.get("trio"), "lowlevel", None)
    if lowlevel is None:
        return None
    try:
        task = lowlevel.current_task()
    except RuntimeError:  # not in a run of trio
        return None
    _instrument.begun_before.add(task)
    lowlevel.add_instrument(_instrument)
    return task


def _instruments_type() -> Any:
    return getattr(sys.modules.get("trio._core._instrumentation"), "Instruments", None)
