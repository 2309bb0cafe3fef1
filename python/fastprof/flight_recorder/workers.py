# SPDX-License-Identifier: Apache-2.0
"""Processes of multiprocessing and flight recorders: how a recorder ends in one, and which of them were killed.

They leave by os._exit(), or print their exception themselves, so that neither atexit's functions nor sys.excepthook
are called in them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from fastprof.adapters.import_watch import after_import, forget_import

__all__ = ["forget", "is_worker", "killed", "watch"]

_UTIL, _POPEN = "multiprocessing.util", "multiprocessing.popen_fork"


class _HookOwner:
    """Owner of the after-fork hook, of which multiprocessing keeps a weak reference."""


_owner = _HookOwner()
_at_end: Callable[[Exception | None], None] | None = None
_first_pid = os.getpid()
_has_fork_hook = False
_registered_in = 0  # pid
_poll: Callable[..., Any] | None = None  # multiprocessing's, while ours replaces it
_killed: set[int] = set()


def watch(at_end: Callable[[Exception | None], None]) -> None:
    """Call `at_end` at the end of this process if multiprocessing started it, with the exception that ends it; note
    which processes that this one starts are killed. Until forget().
    """
    global _at_end
    _at_end = at_end
    after_import(_UTIL, _register)
    after_import(_POPEN, _observe_ends)


def forget() -> None:
    """Undo watch()."""
    global _at_end, _poll
    _at_end = None
    forget_import(_UTIL, _register)
    forget_import(_POPEN, _observe_ends)
    popen = getattr(sys.modules.get(_POPEN), "Popen", None)
    if popen is not None and _poll is not None and popen.poll is _noting_poll:
        popen.poll, _poll = _poll, None


def killed() -> frozenset[int]:
    """Return the pids of multiprocessing's processes that this one started and that a signal other than SIGTERM ended.

    With SIGTERM, a program ends its workers itself.
    """
    return frozenset(_killed)


def is_worker() -> bool:
    """Return whether this process is a fork, or was spawned by multiprocessing, rather than a program of its own."""
    return os.getpid() != _first_pid or "--multiprocessing-fork" in sys.orig_argv


def _register() -> None:
    global _registered_in, _has_fork_hook
    if _registered_in == os.getpid():
        return
    util: Any = sys.modules[_UTIL]
    if not _has_fork_hook:  # also in a fork of a process that has it
        util.register_after_fork(_owner, _after_fork)
        _has_fork_hook = True
    _registered_in = os.getpid()
    util.Finalize(None, _end, exitpriority=-100)  # after the program's own


def _after_fork(_: Any) -> None:
    global _registered_in
    _killed.clear()
    _registered_in = 0  # multiprocessing has dropped all finalizers
    _register()


def _end() -> None:
    process: Any = sys.modules["multiprocessing.process"]
    if _at_end is None or process.parent_process() is None:
        return
    error = sys.exc_info()[1]
    if (
        isinstance(error, SystemExit) and error.code
    ):  # raised for an exception, as torch's spawn() does
        error = error.__context__
    _at_end(error if isinstance(error, Exception) else None)


def _observe_ends() -> None:
    global _poll
    popen: Any = sys.modules[_POPEN].__dict__["Popen"]
    if _poll is None:
        _poll = popen.poll
        popen.poll = _noting_poll


def _noting_poll(self: Any, *args: Any, **named: Any) -> Any:
    assert _poll is not None
    code = _poll(self, *args, **named)
    if isinstance(code, int) and code < 0 and code != -signal.SIGTERM:
        _killed.add(self.pid)
    return code
