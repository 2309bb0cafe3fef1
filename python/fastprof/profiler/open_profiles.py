# SPDX-License-Identifier: Apache-2.0
"""Stop profiles that are still open when the interpreter exits; reset them in a forked child."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import Any, Protocol

from fastprof import _core
from fastprof.adapters.torch import ops as torch_ops
from fastprof.base import switch_interval
from fastprof.profiler import gc_events
from fastprof.record import thread_names, thread_starts

__all__ = ["closed", "opened"]


class Stoppable(Protocol):
    """An object that is stopped at exit."""

    def stop(self) -> Any: ...


# Accessed without a lock, which an interrupt could leave locked: each access is one C call.
_open: dict[int, Stoppable] = {}


def opened(profile: Stoppable) -> None:
    """Register a running profile until `closed`."""
    _open[id(profile)] = profile


def closed(profile: Stoppable) -> None:
    """Unregister a profile; unknown ones are ignored."""
    _open.pop(id(profile), None)


@atexit.register
def _stop_open_profiles() -> None:
    # Last started, first stopped: the order in which nested blocks would have ended.
    left = list(_open.values())
    for profile in reversed(left):
        try:
            try:
                profile.stop()
            except KeyboardInterrupt:
                profile.stop()  # again from where it was interrupted
                raise
        except BaseException:  # SystemExit too: it must not keep the other profiles from ending
            import traceback

            with suppress(OSError, ValueError, AttributeError):  # stderr is closed or missing
                print(
                    "fastprof: cannot stop a profile that was still running at exit:",
                    file=sys.stderr,
                )
                traceback.print_exc()


def _in_child() -> None:
    _open.clear()
    switch_interval.after_fork_in_child()
    torch_ops.after_fork_in_child()
    gc_events.after_fork_in_child()
    thread_names.after_fork_in_child()
    thread_starts.after_fork_in_child()
    _core.after_fork_in_child()
    _core.forget_python_calls_in_child()
    _core.sampling_after_fork_in_child()
    _core.python_memory_after_fork_in_child()
    _core.forget_tasks_in_child()


os.register_at_fork(after_in_child=_in_child)
