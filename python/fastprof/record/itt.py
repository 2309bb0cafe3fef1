# SPDX-License-Identifier: Apache-2.0
"""Ranges and marks for ITT tools such as VTune: torch.profiler.itt without torch.

Each call becomes a task of the domain "fastprof" in the collector that the environment variable INTEL_LIBITTNOTIFY64
names (VTune sets it). Without a collector, calls have no effect. Any thread; the ranges of a thread nest.

    from fastprof import itt
    with itt.range("load {}", path): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastprof import _core

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]

_KIND = "ITT"


def is_available() -> bool:
    """Return True: ranges can be sent to an ITT tool, as with a torch that is built with ITT."""
    return True


def range_push(msg: str) -> None:
    """Begin a range of the calling thread. msg: its name."""
    _core.range_tool_push(_KIND, msg)


def range_pop() -> None:
    """End the calling thread's innermost range."""
    _core.range_tool_pop(_KIND)


def mark(msg: str) -> None:
    """Mark an instant, as an empty task like PyTorch. msg: its name."""
    _core.range_tool_mark(_KIND, msg)


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Make a range around a block, or, as a decorator, around each call.

    msg: name of the range, a format string for the other arguments (str.format).
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
