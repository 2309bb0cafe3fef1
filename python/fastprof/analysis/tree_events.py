# SPDX-License-Identifier: Apache-2.0
"""TreeEvent: one row of an EventTree with parent and children, made when it is read.

Reads columns only; holds no other event, so there are no reference cycles. Any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np

from fastprof.model.tree import EventTree

__all__ = ["LazyRows", "TreeEvent"]

T = TypeVar("T")


class TreeEvent:
    """An event of a tree, with the names of PyTorch's _ProfilerEvent. index: its place in the tree."""

    __slots__ = ("index", "tree")

    def __init__(self, tree: EventTree, index: int) -> None:
        self.tree = tree
        self.index = index

    @property
    def row(self) -> int:
        """Row of the table."""
        return self.index if self.tree.rows is None else int(self.tree.rows[self.index])

    @property
    def id(self) -> int:
        """Identity of the event."""
        return int(self.tree.table.column("id")[self.row])

    @property
    def name(self) -> str:
        """Name as recorded."""
        return self.tree.table.name(self.row)

    @property
    def start_time_ns(self) -> int:
        """Begin, Unix ns."""
        return int(self.tree.table.start_ns[self.row])

    @property
    def end_time_ns(self) -> int:
        """End, Unix ns."""
        return int(self.tree.table.end_ns[self.row])

    @property
    def duration_time_ns(self) -> int:
        """Time from begin to end, ns."""
        return self.end_time_ns - self.start_time_ns

    @property
    def start_tid(self) -> int:
        """Thread on which it began."""
        return int(self.tree.table.thread[self.row])

    @property
    def parent(self) -> TreeEvent | None:
        """The enclosing event, or None."""
        index = int(self.tree.parent[self.index])
        return None if index < 0 else TreeEvent(self.tree, index)

    @property
    def children(self) -> list[TreeEvent]:
        """The enclosed events by start. Linear in the tree's size for one event: prefer columns."""
        found = np.flatnonzero(self.tree.parent == self.index)
        start = self.tree.take(self.tree.table.start_ns)[found]
        order = np.argsort(start, kind="stable")
        return [TreeEvent(self.tree, int(index)) for index in found[order]]

    # Objects are made when they are read: those of one place are equal, so that `in` and index() find them.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeEvent):
            return NotImplemented
        return self.tree is other.tree and self.index == other.index

    def __hash__(self) -> int:
        return hash((id(self.tree), self.index))

    def __repr__(self) -> str:
        return f"<TreeEvent {self.name} {self.duration_time_ns} ns>"


class LazyRows(Sequence[T], Generic[T]):
    """A sequence whose elements are made when they are read, by a function of the index."""

    def __init__(self, size: int, make: Callable[[int], T]) -> None:
        self._size, self._make = size, make

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._make(i) for i in range(self._size)[index]]
        if not -self._size <= index < self._size:
            raise IndexError(f"index {index} of a sequence of {self._size}")
        return self._make(index % self._size)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
