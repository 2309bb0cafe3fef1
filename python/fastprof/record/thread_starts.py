# SPDX-License-Identifier: Apache-2.0
"""FollowedWork: propagate thread-local sessions to the threads that a thread starts and the work that it submits.

For profiles with all_threads=False. While one records, these functions pass on the sessions of the calling thread:
threading.Thread.start, ThreadPoolExecutor.submit (called by loop.run_in_executor and asyncio.to_thread),
call_soon_threadsafe of asyncio's loops (called by asyncio.run_coroutine_threadsafe) and trio's start of worker
threads. A worker of a pool records for a profile only while it runs work that was submitted in it. Tasks created by
such work carry the sessions in their context.
"""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from fastprof import _core
from fastprof.adapters.import_watch import after_import, forget_import
from fastprof.base.observer import Observer

__all__ = ["FollowedWork", "after_fork_in_child"]

# Held for the change of `_live` and what follows from it; never while something is imported.
_lock = threading.RLock()
_live: list[FollowedWork] = []
_replaced: list[tuple[Any, str, Any, Any]] = []  # holder, name, original, replacement
_suppressed = (
    threading.local()
)  # .on: do not pass sessions to a thread that is started now: it is a pool's worker
_sessions: contextvars.ContextVar[Any] = contextvars.ContextVar("fastprof_sessions")


class FollowedWork(Observer):
    """Follows work from start() to stop()."""

    def start(self) -> list[str]:
        """Replace the functions named above, now or when their modules are imported."""
        with _lock:
            _live.append(self)
            _core.set_sessions_variable(_sessions)
            _replace(threading.Thread, "start", _thread_start)
        after_import("concurrent.futures.thread", _follow_pools)
        after_import("asyncio", _follow_loops)
        after_import("trio", _follow_trio_threads)
        return []

    def stop(self) -> None:
        """Restore them after the last stop()."""
        if self in _live:
            forget_import("concurrent.futures.thread", _follow_pools)
            forget_import("asyncio", _follow_loops)
            forget_import("trio", _follow_trio_threads)
        with _lock:
            if self in _live:
                _live.remove(self)
            if not _live:
                _restore()


def after_fork_in_child() -> None:
    """Reset in a forked child, where no profile of the parent runs."""
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held it
    _live.clear()
    _restore()


def _restore() -> None:
    _core.set_sessions_variable(None)
    for entry in reversed(list(_replaced)):
        holder, name, original, replacement = entry
        # If another tool has replaced our function meanwhile, ours stays below it and only calls the original.
        if getattr(holder, name) is replacement:
            setattr(holder, name, original)
        _replaced.remove(entry)


def _replace(holder: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    original = getattr(holder, name)
    if any(entry[0] is holder and entry[1] == name for entry in _replaced):
        return
    replacement = functools.wraps(original)(wrapped(original))
    _replaced.append((holder, name, original, replacement))
    setattr(holder, name, replacement)


def _follow_pools() -> None:
    if _live:
        pool = sys.modules["concurrent.futures.thread"].ThreadPoolExecutor
        _replace(pool, "submit", _submit)


def _follow_loops() -> None:
    if _live:
        loop = sys.modules["asyncio.base_events"].BaseEventLoop
        _replace(loop, "call_soon_threadsafe", _call_soon_threadsafe)


def _follow_trio_threads() -> None:
    cache = getattr(sys.modules.get("trio._core._thread_cache"), "ThreadCache", None)
    if _live and cache is not None:
        _replace(cache, "start_thread_soon", _submit)  # its first argument is the function, too


class _Followed:
    """A function that runs in the sessions of the thread that handed it over."""

    def __init__(self, sessions: Any, function: Callable[..., Any]) -> None:
        self.sessions = sessions
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _core.call_in_sessions(self.sessions, self.function, args, kwargs)


def _thread_start(original: Callable[..., None]) -> Callable[..., None]:
    def start(self: threading.Thread) -> None:
        sessions = None if getattr(_suppressed, "on", False) else _core.save_sessions()
        if sessions is None:
            return original(self)
        own = self.__dict__.get("run")
        run = self.run

        def followed() -> None:
            _restore_run(self, own)
            _core.call_in_sessions(sessions, run, (), {})

        self.run = followed  # type: ignore[method-assign]
        try:
            return original(self)
        except BaseException:
            _restore_run(self, own)
            raise

    return start


def _restore_run(thread: threading.Thread, run: Any) -> None:
    """Restore a thread's own attribute `run`; None: it had none."""
    if run is None:
        thread.__dict__.pop("run", None)
    else:
        thread.__dict__["run"] = run


def _submit(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        sessions = _core.save_sessions()
        if sessions is None:
            return original(self, function, *args, **kwargs)
        _suppressed.on = True  # a worker also runs work that others submit
        try:
            return original(self, _Followed(sessions, function), *args, **kwargs)
        finally:
            _suppressed.on = False

    return submit


def _call_soon_threadsafe(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_soon_threadsafe(
        self: Any, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Any:
        sessions = _core.save_sessions()
        if sessions is None:
            return original(self, callback, *args, context=context)
        if context is None:
            context = contextvars.copy_context()
            context.run(_sessions.set, sessions)
        return original(self, _Followed(sessions, callback), *args, context=context)

    return call_soon_threadsafe
