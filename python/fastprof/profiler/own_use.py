# SPDX-License-Identifier: Apache-2.0
"""OwnUse: the CPU time that a profile itself takes: to start, to stop, and in fastprof's own threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastprof import _core

__all__ = ["OwnUse"]

_PREFIX = "fastprof-"  # of the names of fastprof's native threads
# CPU time of each of these threads when a profile last asked, as they outlive profiles: thread id -> ns.
_seen: dict[int, int] = {}


class OwnUse:
    """Counts for one profile. Use from one thread at a time."""

    def __init__(self) -> None:
        self._ns: dict[str, int] = {}
        self._threads_ns: dict[str, int] = {}

    @contextmanager
    def counting(self, what: str) -> Iterator[None]:
        """Add the CPU time of the calling thread to `what`."""
        began_ns = time.thread_time_ns()
        try:
            yield
        finally:
            self._ns[what] = self._ns.get(what, 0) + time.thread_time_ns() - began_ns

    def look_at_threads(self) -> None:
        """Add what fastprof's threads took since a profile of this process last looked; once before they end."""
        for name, ns in _threads_cpu_ns().items():
            self._threads_ns[name] = self._threads_ns.get(name, 0) + ns

    def read(self) -> dict[str, Any]:
        """Return {"start_cpu_ns", "stop_cpu_ns", "threads_cpu_ns": {name: ns}}, the CPU times so far.

        threads_cpu_ns is empty without /proc. What recording an event costs is in
        the time of the program's threads; profile.calibrate() measures it.
        """
        times = {f"{name}_cpu_ns": ns for name, ns in self._ns.items()}
        return {**times, "threads_cpu_ns": self._threads_ns}


def _threads_cpu_ns() -> dict[str, int]:
    found: dict[str, int] = {}
    now: dict[int, int] = {}
    for tid, name, ns in _core.threads_cpu_ns(_PREFIX):
        now[tid] = ns
        before = _seen.get(tid, 0)
        found[name] = found.get(name, 0) + (ns - before if ns >= before else ns)
    _seen.clear()
    _seen.update(now)
    return found
