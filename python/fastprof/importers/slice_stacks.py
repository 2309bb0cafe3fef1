# SPDX-License-Identifier: Apache-2.0
"""SliceStacks: pair begins and ends of slices on each track, as Perfetto's trace processor does.

An end closes the innermost open slice of its track; if it has a name or category, the innermost one
that matches. Open slices inside the closed one have lost their ends and end with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from fastprof.importers.chrome_args import put_args
from fastprof.importers.table_builder import FINISHED, TableBuilder

__all__ = ["SliceStacks"]

_STACK_BYTES = 300
_LOGGED_BYTES = 400


class _Stack:
    """The open slices of one track."""

    __slots__ = ("last_ns", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.last_ns = -(1 << 63)


class SliceStacks:
    """The open slices of all tracks, for events that arrive in time order on each track.

    Otherwise `in_order` becomes False and pairs may be wrong: read the trace again with
    is_sorted=True, which keeps the events and pairs them in finish().
    """

    def __init__(self, rows: TableBuilder, skipped: Counter[str], is_sorted: bool) -> None:
        self.in_order = True
        self.unfinished: set[int] = set()  # rows that remain unfinished although an end follows
        self._rows = rows
        self._skipped = skipped
        self._stacks: dict[Hashable, _Stack] = {}
        self._log: list[tuple[int, int, Hashable, int, tuple[str, str], dict[str, Any]]] | None
        self._log = [] if is_sorted else None
        self._logged_bytes = 0

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory used, in bytes."""
        return _STACK_BYTES * len(self._stacks) + self._logged_bytes

    def begin(self, track: Hashable, time_ns: int, row: int) -> None:
        """Open the slice of a row."""
        if self._log is not None:
            self._log.append((time_ns, len(self._log), track, row, ("", ""), {}))
            self._logged_bytes += _LOGGED_BYTES
            return
        stack = self._stacks.get(track)
        if stack is None:
            stack = self._stacks[track] = _Stack()
        if time_ns < stack.last_ns:
            self.in_order = False
        stack.last_ns = time_ns
        stack.rows.append(row)

    def end_innermost(self, track: Hashable, time_ns: int) -> None:
        """Close the innermost open slice of a track."""
        stack = self._stacks.get(track)
        if stack is None or self._log is not None or not stack.rows or time_ns < stack.last_ns:
            self.end(track, time_ns)
            return
        stack.last_ns = time_ns
        row = stack.rows.pop()
        self._rows.end[row] = time_ns  # not before the begin: times do not decrease here
        if row not in self.unfinished:
            self._rows.flags[row] |= FINISHED

    def end(
        self,
        track: Hashable,
        time_ns: int,
        name: str = "",
        category: str = "",
        args: dict[str, Any] | None = None,
        size_bytes: int = 0,
    ) -> None:
        """Close a slice. args: the end event's, merged into those of the slice."""
        if not -(1 << 63) <= time_ns < 1 << 63:
            raise OverflowError("a time exceeds 64 bits")
        if self._log is not None:
            self._log.append((time_ns, len(self._log), track, -1, (name, category), args or {}))
            self._logged_bytes += _LOGGED_BYTES + size_bytes
            return
        stack = self._stacks.get(track)
        if stack is None:
            self._skipped["end without begin"] += 1
            return
        if time_ns < stack.last_ns:
            self.in_order = False
        stack.last_ns = time_ns
        opened = stack.rows
        depth = self._matching(opened, name, category) if name or category else len(opened) - 1
        if depth < 0:
            self._skipped["end without begin"] += 1
            return
        row = opened[depth]
        self._close(row, time_ns)
        if args:
            put_args(self._rows, row, {**self._rows.metadata(row), **args}, has_state=False)
        if depth + 1 < len(opened):
            self._skipped["begin without end, within a slice that ended"] += len(opened) - depth - 1
            for inner in opened[depth + 1 :]:
                self._close(inner, time_ns)
        del opened[depth:]

    def _matching(self, opened: list[int], name: str, category: str) -> int:
        """Return the depth of the innermost open slice that matches name and category; -1 if none."""
        for depth in range(len(opened) - 1, -1, -1):
            site = self._rows.site_at(self._rows.site[opened[depth]])
            if (not name or not site.name or site.name == name) and (
                not category or not site.category or site.category == category
            ):
                return depth
        return -1

    def _close(self, row: int, time_ns: int) -> None:
        rows = self._rows
        rows.end[row] = max(time_ns, rows.start[row])
        if row not in self.unfinished:
            rows.flags[row] |= FINISHED

    def finish(self, end_ns: int) -> None:
        """Pair the kept events; slices that are still open end at end_ns and remain unfinished."""
        log, self._log = self._log, None
        for time_ns, _, track, row, (name, category), args in sorted(
            log or (), key=lambda entry: entry[:2]
        ):
            if row >= 0:
                self.begin(track, time_ns, row)
            else:
                self.end(track, time_ns, name, category, args)
        rows = self._rows
        for stack in self._stacks.values():
            for row in stack.rows:
                rows.end[row] = max(end_ns, rows.start[row])
