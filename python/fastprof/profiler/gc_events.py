# SPDX-License-Identifier: Apache-2.0
"""Python's garbage collections as ranges named "Python GC" (record_python_gc_info)."""

from __future__ import annotations

import contextlib
import gc
import threading
from typing import Any

from fastprof._core import record_function

__all__ = ["GcEvents", "after_fork_in_child"]

# Without a lock, which an interrupt could leave taken: each access is one call into C.
_live: list[GcEvents] = []
_open: dict[int, Any] = {}  # thread -> the range of the collection that runs there


class GcEvents:
    """Every collection of the process is a range from start() to stop(); argument: its generation.

    One range per collection however many of these are live: every session that runs records it.
    """

    def start(self) -> None:
        """Begin. Any thread."""
        _live.append(self)
        _follow_live()

    def stop(self) -> None:
        """End. Called again, or without start(): no effect."""
        if self in _live:
            _live.remove(self)
        _follow_live()


def _follow_live() -> None:
    """Have the callback in gc.callbacks once while somebody wants it."""
    while (count := gc.callbacks.count(_collecting)) != bool(_live):
        if count > bool(_live):
            with contextlib.suppress(ValueError):
                gc.callbacks.remove(_collecting)
        else:
            gc.callbacks.append(_collecting)


def after_fork_in_child() -> None:
    """No profile of the parent runs in a forked child."""
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
