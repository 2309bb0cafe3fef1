# SPDX-License-Identifier: Apache-2.0
"""An action before SIGTERM ends the process, also if the main thread is inside C; and work that SIGTERM waits for."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastprof import _core

__all__ = ["before_sigterm_kills"]

_GRACE_MS = 1000
_LIMIT_MS = 5000  # half of what docker and kubernetes leave at least before SIGKILL


@contextmanager
def before_sigterm_kills(action: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Run an action before SIGTERM kills this process, during the block. A second SIGTERM kills at once.

    Yields a function, which may be called again, after whose call the first SIGTERM does nothing, whoever handles it:
    for the end of the block, which does the same as the action, and after which the process ends anyway.

    If the main thread is inside a call of C that does not return, the action runs in a thread of its own after
    _GRACE_MS; if that call keeps the GIL, SIGTERM kills after _LIMIT_MS.

    No effect if SIGTERM is handled or ignored, if the program handles it, in forked children, and outside of the main
    thread. Nothing is unwound: the program's `finally` blocks do not run, as without this.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield lambda: None
        return

    ending = False  # the watch ends, or has ended, and on_signal() must not wait for it
    deferred = pending = False
    aside: Any = None  # the program's handler, while a SIGTERM is deferred
    # Taken for good by who answers: the main thread, or the watch's if the main thread is inside C.
    answered = threading.Lock()

    def answer() -> None:
        try:
            action()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_signal(number: int, frame: Any) -> None:
        nonlocal pending
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        pending = ending
        if not ending:
            end_watch()
            answer()

    def defer() -> None:
        nonlocal deferred, aside
        if not deferred:
            deferred = True
            end_watch()
        handler = signal.getsignal(signal.SIGTERM)
        # The program is over, and so is the work of its handler.
        if aside is None and handler not in (on_signal, signal.SIG_IGN, None):
            aside = signal.signal(signal.SIGTERM, on_signal)

    def late() -> None:
        if answered.acquire(blocking=False):
            answer()  # the second SIGTERM, for which there is no function of Python's

    def end_watch() -> None:
        """End the watch; if it has begun to answer, wait until it kills this process."""
        nonlocal ending
        ending = True
        if not answered.acquire(blocking=False):
            threading.Event().wait()
        _core.end_signal_watch()

    def forget(*, in_child: bool = False) -> None:
        nonlocal aside
        if in_child:
            _core.end_signal_watch(True)
        elif not deferred:
            end_watch()
        if signal.getsignal(signal.SIGTERM) is on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if aside is not None:
            signal.signal(signal.SIGTERM, aside)
            aside = None
        if pending and not deferred and not in_child:  # it came while the watch ended
            os.kill(os.getpid(), signal.SIGTERM)

    # A SIGTERM that meets a forked child before its handler is gone would be forgotten: Python clears what is pending.
    masks = threading.local()

    def hold() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        _core.pause_signal_watch(True)

    def release() -> None:
        _core.pause_signal_watch(False)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def release_in_child() -> None:
        forget(in_child=True)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_in_child)
    signal.signal(signal.SIGTERM, on_signal)
    _core.watch_signal(signal.SIGTERM, _GRACE_MS, _LIMIT_MS, late)
    try:
        yield defer
    finally:
        forget()
