# SPDX-License-Identifier: Apache-2.0
"""Requests to a process without a flight recorder, which `fastprof attach` has put fastprof into."""

from __future__ import annotations

import atexit
import os
import threading

from fastprof.flight_recorder.requests import Requests
from fastprof.flight_recorder.watch import Watch

__all__ = ["close", "listen"]

_lock = threading.Lock()
_watch: Watch | None = None
_registered = False


def listen(path: str) -> None:
    """Answer requests on a new socket at `path` until close(), a request "leave", or the end of the process.

    No effect if it listens already. Raises OSError if the socket cannot be made. Any thread.
    """
    global _watch, _registered
    with _lock:
        if _watch is not None:
            return
        watch = Watch(path, Requests(lambda: None, leave=close).answer, lambda: None, None)
        watch.open()
        _watch = watch
        if not _registered:
            _registered = True
            atexit.register(close)
            os.register_at_fork(
                before=_before_fork,
                after_in_parent=_after_fork_in_parent,
                after_in_child=_after_fork_in_child,
            )


def close() -> None:
    """Close the socket and remove it. No effect if there is none. Any thread."""
    global _watch
    with _lock:
        watch, _watch = _watch, None
    if watch is not None:
        watch.close()


def _before_fork() -> None:
    _lock.acquire()
    if _watch is not None:
        _watch.pause()


def _after_fork_in_parent() -> None:
    if _watch is not None:
        _watch.begin()
    _lock.release()


def _after_fork_in_child() -> None:
    """The child is not attached: the socket is its parent's."""
    global _watch, _lock
    before, _watch = _watch, None
    _lock = threading.Lock()
    if before is not None:
        before.close(in_child=True)
