# SPDX-License-Identifier: Apache-2.0
"""Runs threads, and waits until others have reached the call in which they wait, or sleep, without a fixed delay."""

from __future__ import annotations

import linecache
import sys
import threading
import time
from pathlib import Path


def run_threads(*threads: threading.Thread) -> None:
    """Start all threads, and return when all have ended."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def until_threads_wait(text: str, *threads: int | None) -> None:
    """Return when the innermost Python line of each of these threads (given by `ident`) contains the text.

    If that line only calls a waiting C function, the threads are inside it: the caller holds the GIL, so each
    thread has released it inside the C function.
    """
    while not all(_runs(text, thread) for thread in threads):
        time.sleep(0.001)


def _runs(text: str, thread: int | None) -> bool:
    frame = sys._current_frames().get(thread or 0)
    return frame is not None and text in linecache.getline(frame.f_code.co_filename, frame.f_lineno)


def until_other_threads_sleep() -> None:
    """Return when no other thread of this process runs or is ready to: a pool has done all its work. Linux."""
    own = str(threading.get_native_id())
    while any(
        _state(task) not in "SX" for task in Path("/proc/self/task").iterdir() if task.name != own
    ):
        time.sleep(0.001)


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return "X"  # it has ended meanwhile
