# SPDX-License-Identifier: Apache-2.0
"""Record Python's garbage collections as ranges named "Python GC" (record_python_gc_info)."""

from __future__ import annotations

import contextlib
import gc
import threading
from typing import Any

from fastprof._core import record_function
from fastprof.base.observer import Observer

__all__ = ["GcEvents", "after_fork_in_child"]

# Both are accessed without a lock, which an interrupt could leave locked: each access is one C call.
_live: list[GcEvents] = []
_open: dict[int, Any] = {}  # thread id -> range of the collection that runs on that thread


class GcEvents(Observer):
    """Record every collection of the process as a range from start() to stop(), generation as argument.

    A collection makes one range however many of these objects are started; every running session
    records it.
    """

    def start(self) -> list[str]:
        _live.append(self)
        _follow_live()
        return []

    def stop(self) -> None:
        if self in _live:
            _live.remove(self)
        _follow_live()


def _follow_live() -> None:
    """Keep the callback in gc.callbacks exactly once while any GcEvents is started."""
    while (count := gc.callbacks.count(_collecting)) != bool(_live):
        if count > bool(_live):
            with contextlib.suppress(ValueError):
                gc.callbacks.remove(_collecting)
        else:
            gc.callbacks.append(_collecting)


def after_fork_in_child() -> None:
    """Reset in a forked child, where no profile of the parent runs."""
    _live.clear()
    _open.clear()
    _follow_live()


def _collecting(phase: str, info: dict[str, int]) -> None:
    thread = threading.get_ident()
    if phase == "start":
        collection: Any = record_function("Python GC", generation=info.get("generation", 0))
        collection.__enter__()
        _open[thread] = collection
    else:
        begun = _open.pop(thread, None)
        if begun is not None:
            begun.__exit__(None, None, None)
