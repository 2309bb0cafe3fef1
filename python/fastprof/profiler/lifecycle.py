# SPDX-License-Identifier: Apache-2.0
"""Profiles that are still open when the interpreter exits or the process forks."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Protocol

from fastprof import _core
from fastprof.adapters.torch import ops as torch_ops
from fastprof.profiler import gc_events

__all__ = ["closed", "opened"]


class Stoppable(Protocol):
    """What is stopped at exit."""

    def stop(self) -> Any: ...


# Without a lock, which an interrupt could leave taken: each access is one call into C.
_open: dict[int, Stoppable] = {}


def opened(profile: Stoppable) -> None:
    """Remember a running profile until `closed`."""
    _open[id(profile)] = profile


def closed(profile: Stoppable) -> None:
    """Forget it."""
    _open.pop(id(profile), None)


@atexit.register
def _stop_open_profiles() -> None:
    # In the order they were started, last first: as nested blocks would have ended.
    left = list(_open.values())
    for profile in reversed(left):
        try:
            profile.stop()
        except Exception:
            import traceback

            print("fastprof: a profile left open could not be stopped:", file=sys.stderr)
            traceback.print_exc()


def _in_child() -> None:
    _open.clear()
    torch_ops.after_fork_in_child()
    gc_events.after_fork_in_child()
    _core.after_fork_in_child()


os.register_at_fork(after_in_child=_in_child)
