# SPDX-License-Identifier: Apache-2.0
"""Functions over sequences and trees of events: traversal, search, location. Names as in PyTorch.

Pure functions: any thread; arguments are never modified.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

__all__ = [
    "NO_LOCATION",
    "argmax",
    "index_of_first_match",
    "source_code_location",
    "traverse_bfs",
    "traverse_dfs",
]

T = TypeVar("T")
NO_LOCATION = "No source code location found"
_PYTHON_CALL = re.compile(r"\.py\(.*\)")


def _children(event: Any) -> Iterable[Any]:
    found: Iterable[Any] = event.children
    return found


def traverse_dfs(
    tree: Iterable[T], children_fn: Callable[[T], Iterable[T]] = _children
) -> Iterator[T]:
    """Yield events in pre-order, left to right, lazily.

    tree: the roots. children_fn: returns the children of an event; default: its `children`.

        names = [event.name for event in traverse_dfs(roots)]
    """
    remaining = list(reversed(list(tree)))
    while remaining:
        event = remaining.pop()
        yield event
        remaining.extend(reversed(list(children_fn(event))))


def traverse_bfs(
    tree: Iterable[T], children_fn: Callable[[T], Iterable[T]] = _children
) -> Iterator[T]:
    """Yield events level by level, left to right, lazily; arguments as of traverse_dfs()."""
    remaining = deque(tree)
    while remaining:
        event = remaining.popleft()
        yield event
        remaining.extend(children_fn(event))


def index_of_first_match(
    seq: Sequence[T], predicate: Callable[[T], Any], start: int = 0, end: int | None = None
) -> int | None:
    """Return the first index in [start, end) whose element satisfies the predicate; None without one."""
    last = len(seq) if end is None else min(end, len(seq))
    return next((index for index in range(start, last) if predicate(seq[index])), None)


def argmax(
    seq: Sequence[T],
    key: Callable[[T], Any] = lambda value: value,
    start: int = 0,
    end: int | None = None,
) -> int | None:
    """Return the first index in [start, end) of the largest key; None for an empty range."""
    indices = range(len(seq))[start:end]
    return max(indices, key=lambda index: key(seq[index]), default=None)


def source_code_location(event: Any) -> str:
    """Return the name of the nearest Python call among the event and its ancestors; NO_LOCATION without one.

    A Python call is recognised by "file.py(line)" in its name.
    """
    while event is not None:
        name: str = event.name
        if _PYTHON_CALL.search(name):
            return name
        event = event.parent
    return NO_LOCATION
