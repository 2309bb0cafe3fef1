# SPDX-License-Identifier: Apache-2.0
"""PythonMemory: one recording's view of what Python's own allocators do (python_memory=True)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastprof import _core

__all__ = ["PythonMemory", "own_allocations"]


@contextmanager
def own_allocations() -> Iterator[None]:
    """Leave out what this thread allocates in the block: the profiler's own work while a profile runs."""
    former = _core.leave_out_python_allocations(True)
    try:
        yield
    finally:
        _core.leave_out_python_allocations(former)


class PythonMemory:
    """Hooks in front of the domains raw, mem and object (PyMem_SetAllocator). Use from one thread at a time.

    All threads are recorded, by every session that records memory. Allocators that were in place (tracemalloc,
    debug hooks) stay, below the hooks, and are restored by stop(); one that is put on top meanwhile stays, too.
    """

    def __init__(self) -> None:
        self._hold = _core.PythonAllocations()

    def start(self) -> None:
        """Begin, after the session was started."""
        self._hold.begin()

    def stop(self) -> list[str]:
        """End, before the session is stopped. Return what was not recorded. A second call does nothing."""
        if not self._hold.active:
            return []
        problems = []
        if taken := self._hold.end():
            problems.append(
                f"memory of Python (domains {taken}) is missing from when another tool, such as "
                "tracemalloc, restored the allocators that it had found at its own start: end it before "
                "the profile begins, or after the profile"
            )
        if untracked := _core.untracked_python_allocations():
            problems.append(
                f"{untracked} blocks of Python's are missing, because there was no memory to note their sizes"
            )
        return problems
