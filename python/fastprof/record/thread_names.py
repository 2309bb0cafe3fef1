# SPDX-License-Identifier: Apache-2.0
"""Names of threads for samplers: reported when a thread of `threading` begins and when it ends, while a sampler runs.

Two methods of threading.Thread are replaced meanwhile, that with which a new thread notes its kernel's id and the last
one of a thread, which CPython 3.10 does not call: there, a thread that has ended has the name with which it began. A
Python without either has the names of the threads that live when a sampler begins and ends.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

from fastprof import _core

__all__ = [
    "after_fork_in_child",
    "follow_names",
    "listed_threads",
    "name_of",
    "stop_following_names",
]

_lock = threading.RLock()
_samplers: list[_core.StackSampler] = []
_replaced: list[tuple[str, Any, Any]] = []  # name, original, replacement


def follow_names(sampler: _core.StackSampler) -> None:
    """Report the names of living threads to a sampler, then those of threads that begin or end. GIL."""
    with _lock:
        _samplers.append(sampler)
        if not _replaced:
            _replace("_set_native_id", ends=False)
            _replace("_delete", ends=True)
    _report_living(sampler)


def stop_following_names(sampler: _core.StackSampler) -> None:
    """Report the names of living threads for the last time; call before the sampler's end. May be called again."""
    with _lock:
        if sampler not in _samplers:
            return
        _samplers.remove(sampler)
        if not _samplers:
            _restore()
    _report_living(sampler)


def after_fork_in_child() -> None:
    """Reset in a forked child, where no sampler of the parent runs."""
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held it
    _samplers.clear()
    _restore()


def listed_threads() -> list[Any]:
    """Return the threads of `threading`. The main thread is the last one, too, so that its name counts for its id.

    Greenlets that stand for threads have the id of the thread that runs them (gevent, eventlet), mostly the main one.
    Not sys._current_frames(): it crashes CPython 3.11 beside threads that end with the interpreter.
    """
    return [*threading.enumerate(), threading.main_thread()]


def name_of(thread: Any) -> tuple[int, str] | None:
    """Return a thread's id of the kernel, and its name; None if it has none. Raises what its class raises."""
    # Libraries put objects of their own in the place of threads (eventlet), which may lack a native_id.
    number, name = getattr(thread, "native_id", None), thread.name
    return (number, name) if isinstance(number, int) and isinstance(name, str) else None


def _report_living(sampler: _core.StackSampler) -> None:
    names: dict[int, str] = {}
    for thread in listed_threads():
        with contextlib.suppress(Exception):  # of a class of the program's own
            names.update(filter(None, [name_of(thread)]))
    for tid, name in names.items():
        sampler.name_thread(tid, _encodable(name))


def _replace(name: str, *, ends: bool) -> None:
    original: Callable[[Any], None] | None = getattr(threading.Thread, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def reporting(thread: Any) -> None:
        if ends:
            _report(thread, ends=True)
        original(thread)
        if not ends:
            _report(thread, ends=False)

    _replaced.append((name, original, reporting))
    setattr(threading.Thread, name, reporting)


def _report(thread: Any, *, ends: bool) -> None:
    with contextlib.suppress(Exception):  # of a class of the program's own
        # A greenlet that stands for a thread has the kernel's id of another one.
        if thread.ident == _core.thread_ident():
            for sampler in [*_samplers]:
                sampler.name_thread(thread.native_id, _encodable(str(thread.name)), ends)


def _restore() -> None:
    while _replaced:
        name, original, replacement = _replaced.pop()
        # If another tool has replaced our function meanwhile, ours stays below it and reports to nobody.
        if getattr(threading.Thread, name) is replacement:
            setattr(threading.Thread, name, original)


def _encodable(name: str) -> str:
    return name.encode("utf-8", "replace").decode()
