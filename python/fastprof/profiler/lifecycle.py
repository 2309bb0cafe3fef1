# SPDX-License-Identifier: Apache-2.0
"""Profiles that are still open when the interpreter exits or the process forks."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any, Protocol

from fastprof import _core
from fastprof.profiler import torch_ops

__all__ = ["closed", "opened"]


class Stoppable(Protocol):
    """What is stopped at exit."""

    def stop(self) -> Any: ...


_open: dict[int, Stoppable] = {}
_lock = threading.Lock()


def opened(profile: Stoppable) -> None:
    """Remember a running profile until `closed`."""
    with _lock:
        _open[id(profile)] = profile


def closed(profile: Stoppable) -> None:
    """Forget it."""
    with _lock:
        _open.pop(id(profile), None)


@atexit.register
def _stop_open_profiles() -> None:
    # In the order they were started, last first: as nested blocks would have ended.
    with _lock:
        left = list(_open.values())
    for profile in reversed(left):
        try:
            profile.stop()
        except Exception:
            import traceback

            print("fastprof: a profile left open could not be stopped:", file=sys.stderr)
            traceback.print_exc()


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _open.clear()
    torch_ops.after_fork_in_child()
    _core.after_fork_in_child()


os.register_at_fork(after_in_child=_in_child)
