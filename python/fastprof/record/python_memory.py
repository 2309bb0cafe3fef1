# SPDX-License-Identifier: Apache-2.0
"""PythonMemory: record the allocations of Python's own allocators during one recording (python_memory=True)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastprof import _core
from fastprof.base.observer import Observer

__all__ = ["PythonMemory", "own_allocations"]


@contextmanager
def own_allocations() -> Iterator[None]:
    """Do not record this thread's allocations in the block, which are the profiler's own."""
    former = _core.leave_out_python_allocations(True)
    try:
        yield
    finally:
        _core.leave_out_python_allocations(former)


class PythonMemory(Observer):
    """Hooks in front of the allocators of the domains raw, mem and object (PyMem_SetAllocator).

    Every session that records memory records all threads. The hooks call the allocators that were installed before
    (tracemalloc, debug hooks), which finish() restores; an allocator that was installed on top meanwhile stays.

    exact: record each block; False: a sample of the blocks, whose records are scaled so that sums are unbiased.
    """

    missing = "python_memory"

    def __init__(self, exact: bool) -> None:
        self._hold = _core.PythonAllocations(exact)

    def start(self) -> list[str]:
        self._hold.begin()
        return []

    def finish(self) -> list[str]:
        if not self._hold.active:
            return []
        problems = []
        if taken := self._hold.end():
            problems.append(
                f"memory of Python (domains {taken}) is missing from when another tool, such as "
                "tracemalloc, restored the allocators from before the profile: stop that tool before "
                "the profile begins, or after it ends"
            )
        if untracked := _core.untracked_python_allocations():
            problems.append(
                f"{untracked} Python blocks are missing, because there was no memory to store their sizes: "
                "free memory, or profile a shorter part of the program"
            )
        return problems
