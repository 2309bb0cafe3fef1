# SPDX-License-Identifier: Apache-2.0
"""A short switch interval of the interpreter, for work that often releases the GIL beside busy threads.

A thread that takes the GIL again waits up to sys.getswitchinterval(), 5 ms, for each thread that computes. The first
start beside torch releases it often (imports, self-tests): on 2 idle CPUs with 16 busy threads it took 1.7 s, and 6 s
with shapes and memory; with this 0.1 to 0.3 s. (20 us instead of 100 take longer: each waiting thread wakes up.)
The first process of a build of torch runs 60 ops that prove how inputs are laid out; in each, torch releases the GIL
and takes it again after a turn of every other thread. Later processes do not: adapters/torch/proven_builds.py.
"""

from __future__ import annotations

import sys
import weakref

__all__ = ["User", "after_fork_in_child", "restore", "shorten"]

_SHORT_S = 1e-4

# Weak, since an interrupt inside restore() may keep a user from leaving; that of the next user restores then.
_users: dict[int, weakref.ref[object]] = {}
_usual_s: float | None = None  # the program's own interval; None: it was not shortened here


class User:
    """Any object that can be referred to weakly may be one."""


def shorten(user: object) -> None:
    """Shorten the interval until restore(user). Any thread; in a `try` whose `finally` restores it."""
    global _usual_s
    _users[id(user)] = weakref.ref(user)
    now_s = sys.getswitchinterval()
    if now_s > 2 * _SHORT_S:  # else it is short already, by this module or by the program
        _usual_s = now_s
        sys.setswitchinterval(_SHORT_S)


def restore(user: object) -> None:
    """Restore the program's interval once every user has. No effect when called again. Any thread."""
    global _usual_s
    _users.pop(id(user), None)
    usual_s = _usual_s
    if usual_s is None or any(each() is not None for each in list(_users.values())):
        return
    if _SHORT_S / 2 < sys.getswitchinterval() < 2 * _SHORT_S:
        sys.setswitchinterval(usual_s)
    _usual_s = None


def after_fork_in_child() -> None:
    """Restore it in a forked child, where threads of the parent that shortened it do not exist."""
    _users.clear()
    restore(_users)
