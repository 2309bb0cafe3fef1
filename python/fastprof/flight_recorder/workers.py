# SPDX-License-Identifier: Apache-2.0
"""Processes of multiprocessing and flight recorders: how a recorder ends in one, and which of them were killed.

They leave by os._exit(), or print their exception themselves, so that neither atexit's functions nor sys.excepthook
are called in them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from fastprof.adapters.import_watch import after_import, forget_import

__all__ = ["forget", "killed", "parent_of_worker", "watch"]

_UTIL = "multiprocessing.util"
_SERVER = "from multiprocessing.forkserver import"  # in the command line of its server
# The modules whose class Popen learns how a process ended; those of the other methods derive from the first.
_POPENS = ("multiprocessing.popen_fork", "multiprocessing.popen_forkserver")


class _HookOwner:
    """Owner of the after-fork hook, of which multiprocessing keeps a weak reference."""


_owner = _HookOwner()
_at_end: Callable[[Exception | None], None] | None = None
_first_pid = os.getpid()
_has_fork_hook = False
_registered_in = 0  # pid
_wrapped: list[tuple[Any, Callable[..., Any], Callable[..., Any]]] = []  # (class, ours, before it)
_killed: set[int] = set()


def watch(at_end: Callable[[Exception | None], None]) -> None:
    """Call `at_end` at the end of this process if multiprocessing started it, with the exception that ends it; note
    which processes that this one starts are killed. Until forget().
    """
    global _at_end
    _at_end = at_end
    after_import(_UTIL, _register)
    for name, observe in _OBSERVERS:
        after_import(name, observe)


def forget() -> None:
    """Undo watch(). What the program has kept of it meanwhile goes on to call what was there before."""
    global _at_end
    _at_end = None
    forget_import(_UTIL, _register)
    for name, observe in _OBSERVERS:
        forget_import(name, observe)
    while _wrapped:
        popen, ours, before = _wrapped.pop()
        if popen.poll is ours:
            popen.poll = before


def killed() -> frozenset[int]:
    """Return the pids of multiprocessing's processes that this one started and that a signal other than SIGTERM ended.

    With SIGTERM, a program ends its workers itself.
    """
    return frozenset(_killed)


def parent_of_worker() -> int:
    """Return the pid of the process of which this one is a fork or a worker; 0 for a program of its own.

    Workers of multiprocessing's server are forks of it, and belong to the program that started the server.
    """
    parent = os.getppid()
    if any(_SERVER in word for word in sys.orig_argv):
        return _parent_of_server(parent)
    is_worker = os.getpid() != _first_pid or "--multiprocessing-fork" in sys.orig_argv
    return parent if is_worker else 0


def _parent_of_server(pid: int) -> int:
    """Return the parent of the server `pid`; `pid` if that is none, or not known (where there is no /proc)."""
    with contextlib.suppress(OSError, ValueError):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            is_server = _SERVER.encode() in file.read()
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]) if is_server else pid
    return pid


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
    if isinstance(error, SystemExit) and isinstance(error.code, int) and error.code:
        error = error.__context__  # raised for an exception, as torch's spawn() does
    _at_end(error if isinstance(error, Exception) else None)


def _observe_ends(name: str) -> None:
    popen: Any = sys.modules[name].__dict__["Popen"]
    before = popen.poll
    if any(ours is before for _, ours, _ in _wrapped):
        return

    @functools.wraps(before)
    def poll(self: Any, *args: Any, **named: Any) -> Any:
        code = before(self, *args, **named)
        if _at_end is not None and isinstance(code, int) and code < 0 and code != -signal.SIGTERM:
            _killed.add(self.pid)
        return code

    popen.poll = poll
    _wrapped.append((popen, poll, before))


_OBSERVERS = [(name, functools.partial(_observe_ends, name)) for name in _POPENS]
