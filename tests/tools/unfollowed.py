# SPDX-License-Identifier: Apache-2.0
"""Runs a function on a thread to which fastprof does not propagate the sessions of the starting thread."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any


def run_unfollowed(function: Callable[[], Any]) -> None:
    """Call a function on a new thread, started without threading.Thread, and wait for it: at most 60 s."""
    ended = _thread.allocate_lock()
    ended.acquire()

    def run() -> None:
        try:
            function()
        finally:
            ended.release()

    _thread.start_new_thread(run, ())
    assert ended.acquire(timeout=60)
