# SPDX-License-Identifier: Apache-2.0
"""Ranges and marks for ITT tools such as VTune: torch.profiler.itt without torch.

Each call goes to the collector that the environment variable INTEL_LIBITTNOTIFY64 names (VTune sets it), as a task
of the domain "fastprof". Without one, calls have no effect. Any thread; ranges of a thread nest.

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
    """Return whether ranges can be sent to an ITT tool: True, as in a torch that is built with ITT."""
    return True


def range_push(msg: str) -> None:
    """Begin a range of the calling thread. msg: its name."""
    _core.range_tool_push(_KIND, msg)


def range_pop() -> None:
    """End the calling thread's innermost range."""
    _core.range_tool_pop(_KIND)


def mark(msg: str) -> None:
    """Mark an instant: an empty task, as PyTorch makes it. msg: its name."""
    _core.range_tool_mark(_KIND, msg)


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Make a range of a block, also as a decorator. msg: its name, formatted with the other arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
