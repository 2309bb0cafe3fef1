# SPDX-License-Identifier: Apache-2.0
"""OpenRanges: pairs the begins and ends of ranges in a Chrome trace, by track or by id.

An end closes the innermost open range of its key; if it has a name or category, the innermost one that matches
(Perfetto's rule). Ranges of a thread that are open inside of the closed one have lost their ends and end with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

__all__ = ["OpenRanges"]


class _Open:
    __slots__ = ("ended", "labels", "row")

    def __init__(self, row: int, name: str, category: str) -> None:
        self.row = row
        self.labels = {(name, category), (name, ""), ("", category), ("", "")}
        self.ended = False


class _Key:
    __slots__ = ("matching", "stack")

    def __init__(self) -> None:
        self.stack: list[_Open] = []  # innermost last
        # By (name, category), either also "" for any: the ranges that match, innermost last.
        self.matching: dict[tuple[str, str], list[_Open]] = {}

    def close(self, opened: _Open) -> None:
        opened.ended = True
        for label in opened.labels:
            _pop_ended(self.matching[label])
        _pop_ended(self.stack)


class OpenRanges:
    """The begun ranges of all keys. A begin and an end take constant time, however many ranges are open."""

    def __init__(self) -> None:
        self.size = 0  # number of open ranges
        self._keys: dict[Hashable, _Key] = {}

    def begin(self, key: Hashable, row: int, name: str, category: str) -> None:
        """Open the range of a row."""
        of_key = self._keys.get(key)
        if of_key is None:
            of_key = self._keys[key] = _Key()
        opened = _Open(row, name, category)
        of_key.stack.append(opened)
        for label in opened.labels:
            of_key.matching.setdefault(label, []).append(opened)
        self.size += 1

    def end(self, key: Hashable, name: str, category: str, nests: bool) -> tuple[int, list[int]]:
        """Close a range; return its row, -1 for none, and the rows that lost their ends inside of it.

        name, category: "" for any. nests: the ranges of this key nest strictly.
        """
        of_key = self._keys.get(key)
        candidates = [] if of_key is None else of_key.matching.get((name, category), [])
        if of_key is None or not candidates:
            return -1, []
        closed, lost = candidates[-1], []
        while nests and of_key.stack[-1] is not closed:
            lost.append(of_key.stack[-1].row)
            of_key.close(of_key.stack[-1])
        of_key.close(closed)
        self.size -= 1 + len(lost)
        if not of_key.stack:
            del self._keys[key]
        return closed.row, lost

    def rows(self) -> Iterator[int]:
        """Yield the rows whose ends are missing."""
        for of_key in self._keys.values():
            yield from (opened.row for opened in of_key.stack if not opened.ended)


def _pop_ended(ranges: list[_Open]) -> None:
    while ranges and ranges[-1].ended:
        ranges.pop()
