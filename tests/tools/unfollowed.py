# SPDX-License-Identifier: Apache-2.0
"""A thread that profiles of another thread do not follow, for tests."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any

__all__ = ["run_unfollowed"]


def run_unfollowed(function: Callable[[], Any]) -> None:
    """Call a function on a new thread, and wait for it."""
    ended = _thread.allocate_lock()
    ended.acquire()

    def run() -> None:
        try:
            function()
        finally:
            ended.release()

    _thread.start_new_thread(run, ())
    assert ended.acquire(timeout=60)
