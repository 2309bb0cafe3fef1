# SPDX-License-Identifier: Apache-2.0
"""RowList: a list that creates its items from rows on first access, until it is first modified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex, TypeVar, overload

from fastprof.views.function_event_avg import FunctionEventAvg
from fastprof.views.table_rows import AverageRows, TableRows

__all__ = ["RowList"]


T = TypeVar("T")


class RowList(list[T]):
    """A list backed by `_rows`, or by its own items once `_rows` is None.

    Reading creates the items that are read. A modifying method first creates all items and stores
    them in the list itself (`_make_plain`). C code that reads a list's storage without its methods
    sees an empty list before that.
    """

    def __init__(self, iterable: Iterable[T] = ()) -> None:
        super().__init__(iterable)
        self._rows: TableRows | AverageRows | None = None
        self._made: dict[int, FunctionEventAvg] = {}

    def _at(self, position: int) -> Any:
        rows = self._rows
        if isinstance(rows, AverageRows):
            made = self._made.get(position)
            if made is None:
                made = self._made[position] = rows.at(position)
            return made
        assert rows is not None
        return rows.at(position)

    def __len__(self) -> int:
        return super().__len__() if self._rows is None else len(self._rows)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[T]:
        if self._rows is None:
            return super().__iter__()
        return map(self._at, range(len(self._rows)))

    def __reversed__(self) -> Iterator[T]:
        if self._rows is None:
            return super().__reversed__()
        return map(self._at, range(len(self._rows) - 1, -1, -1))

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: Any) -> Any:
        if self._rows is None:
            return super().__getitem__(index)
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(len(self)))]
        position = int(index.__index__())
        if position < 0:
            position += len(self)
        if not 0 <= position < len(self):
            raise IndexError("list index out of range")
        return self._at(position)

    def __contains__(self, item: object) -> bool:
        return any(event is item or event == item for event in self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list):
            return NotImplemented
        return self is other or list(self) == list(other)

    def __ne__(self, other: object) -> bool:
        if not isinstance(other, list):
            return NotImplemented
        return not self == other

    __hash__ = None

    def __add__(self, other: Any) -> Any:
        return list(self) + list(other)

    def index(self, value: Any, start: SupportsIndex = 0, stop: SupportsIndex = 1 << 62) -> int:
        return list(self).index(value, start, stop)

    def count(self, value: Any) -> int:
        return list(self).count(value)

    def copy(self) -> list[T]:
        return list(self)

    def _make_plain(self) -> None:
        """Store all items in the list itself, before the first modification."""
        if self._rows is not None:
            events: list[Any] = list(self)
            if isinstance(self._rows, TableRows):
                for event in events:
                    self._rows.pin(event)
            self._rows, self._made = None, {}
            super().extend(events)


def _changing(name: str) -> Callable[..., Any]:
    plain = getattr(list, name)

    def method(self: RowList[Any], *args: Any, **kwargs: Any) -> Any:
        self._make_plain()
        return plain(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = plain.__doc__
    return method


for _name in (
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "remove",
    "reverse",
    "sort",
    "__setitem__",
    "__delitem__",
    "__iadd__",
    "__imul__",
    "__mul__",
    "__rmul__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
):
    setattr(RowList, _name, _changing(_name))
