# SPDX-License-Identifier: Apache-2.0
"""Calls of C functions that do nothing but wait: for a lock, data, a process, a signal or time.

The self time of such a call is time in which its thread did no work.
"""

from __future__ import annotations

import re

__all__ = ["is_blocking_call"]

_FUNCTIONS = (
    "poll|select|sleep|pause|sigwait|sigwaitinfo|sigtimedwait|wait|wait3|wait4|waitid|waitpid"
)
_METHODS = (
    r"(acquire|__enter__|_acquire_restore) of (_thread\.R?[lL]ock|_multiprocessing\.SemLock)",
    r"(poll of select\.(e?poll|devpoll)|control of select\.kqueue)",
    r"(_accept|recv|recv_into|recvfrom|recvfrom_into|recvmsg|recvmsg_into) of (_socket\.)?socket",
    r"get of _queue\.SimpleQueue",
)
# PyTorch's traces have the object's address, as repr() does.
_BLOCKING = re.compile(
    rf"<built-in (function ({_FUNCTIONS})"
    rf"|method (time\.sleep|(posix|select|signal)\.({_FUNCTIONS})|({'|'.join(_METHODS)}) object( at 0x[0-9a-f]+)?))>"
)


def is_blocking_call(name: str) -> bool:
    """Return whether an event's name is that of a call which only waits.

    Names of Python calls are as in PyTorch's traces: "<built-in function sleep>", "<built-in method acquire of
    _thread.lock object>". Any thread.
    """
    return _BLOCKING.fullmatch(name) is not None
