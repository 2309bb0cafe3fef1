# SPDX-License-Identifier: Apache-2.0
"""Calls that do nothing but wait: for a lock, a thread, a result, data, a process, a signal or time.

Of C functions, whose self time is time in which their thread did no work, and of the standard library's functions in
Python that call them. A new wait is added here: all views and explain() follow. Names are those in PyTorch's traces,
"<built-in function sleep>" and "/usr/lib/python3.12/threading.py(1080): join"; for C functions also those of
cProfile, "<method 'acquire' of '_thread.lock' objects>". Any thread.
"""

from __future__ import annotations

import re

__all__ = ["FOR_A_THREAD", "awaited", "is_blocking_call", "is_worker_loop"]

_FUNCTIONS = (
    "poll|select|sleep|pause|sigwait|sigwaitinfo|sigtimedwait|wait|wait3|wait4|waitid|waitpid"
)
_METHODS = (
    r"(_accept|recv|recv_into|recvfrom|recvfrom_into|recvmsg|recvmsg_into) of (_socket\.)?socket",
)
# PyTorch's traces have the object's address, as repr() does.
_BLOCKING = re.compile(
    rf"<built-in (function ({_FUNCTIONS})"
    rf"|method (time\.sleep|(posix|select|signal)\.({_FUNCTIONS})|({'|'.join(_METHODS)}) object( at 0x[0-9a-f]+)?))>"
)


def _method(name: str, of: str) -> str:
    return rf"<(built-in )?method '?({name})'? of '?({of})'? objects?( at 0x[0-9a-f]+)?>"


def _function(file: str, name: str) -> str:
    return rf"(.*[/\\]((python|pypy)\d[^/\\]*|Lib)[/\\])?{file}\.py\(\d+\): ({name})"


_EVENTS = "input or output"
# What a thread waits for that another thread, or an event loop, provides.
_AWAITED = {
    "the end of a thread": (
        _method("join", r"_thread\._ThreadHandle"),
        _function("threading", "join|_wait_for_tstate_lock"),
    ),
    "a result": (
        _function(r"concurrent[/\\]futures[/\\]_base", "result|exception|wait"),
        _function(r"multiprocessing[/\\]pool", "get|wait"),
    ),
    "a queue": (_method("get", r"_queue\.SimpleQueue"), _function("queue", "get|put|join")),
    "an event or condition": (_function("threading", "wait"),),
    "a lock": (
        _method(
            "acquire|__enter__|_acquire_restore", r"_thread\.R?[lL]ock|_multiprocessing\.SemLock"
        ),
        _function("threading", "acquire|__enter__|_acquire_restore"),
    ),
    _EVENTS: (
        _method("poll", r"select\.(e?poll|devpoll)"),
        _method("control", r"select\.kqueue"),
        r"<built-in (function|method select\.)( ?)select>",
        _function("selectors", "select"),
        _function(r"multiprocessing[/\\]connection", "wait|poll|_poll"),
    ),
}
_PATTERNS = {
    what: re.compile(f"^({'|'.join(patterns)})$", re.DOTALL) for what, patterns in _AWAITED.items()
}
# Calls that wait for another thread.
FOR_A_THREAD = re.compile(
    "|".join(p.pattern for w, p in _PATTERNS.items() if w != _EVENTS), re.DOTALL
)
# Functions of threads that wait for work: what they wait is no time of the program.
_LOOPS = re.compile(
    "|".join(
        rf"(.*[/\\])?{file}\.py\(\d+\): ({name})"
        for file, name in (
            (r"concurrent[/\\]futures[/\\]thread", "_worker"),
            (r"concurrent[/\\]futures[/\\]process", "wait_result_broken_or_wakeup|_process_worker"),
            (r"multiprocessing[/\\]queues", "_feed"),
            (r"multiprocessing[/\\]pool", "worker|_wait_for_updates|_handle_tasks"),
            (r"logging[/\\]handlers", "dequeue"),
            (r"IPython[/\\]core[/\\]history", "run"),
            (r"tqdm[/\\]_monitor", "run"),
            (r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]pin_memory", "do_one_step|_pin_memory_loop"),
        )
    ),
    re.DOTALL,
)


def is_worker_loop(name: str) -> bool:
    """Return whether a call is the loop of a thread that waits for work, as those of pools and queues do."""
    return _LOOPS.fullmatch(name) is not None


def awaited(name: str) -> str:
    """Return what a call waits for, as "a lock", by its name; "" for a call that waits for time or that works."""
    return next((what for what, pattern in _PATTERNS.items() if pattern.fullmatch(name)), "")


def is_blocking_call(name: str) -> bool:
    """Return whether an event's name is that of a call which only waits."""
    return _BLOCKING.fullmatch(name) is not None or awaited(name) != ""
