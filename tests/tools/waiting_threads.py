# SPDX-License-Identifier: Apache-2.0
"""Waits until other threads have reached the call in which they wait, without a fixed delay."""

from __future__ import annotations

import linecache
import sys
import time

__all__ = ["until_threads_wait"]


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
