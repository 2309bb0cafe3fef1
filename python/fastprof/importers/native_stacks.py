# SPDX-License-Identifier: Apache-2.0
"""NativeStacks: pairs begins and ends of slices on each track, as Perfetto's trace processor does.

An end closes the innermost open slice of its track; if it has a name or category, the innermost one
that matches. Open slices inside the closed one have lost their ends and end with it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np

from fastprof import _core
from fastprof.importers.chrome_args import put_args
from fastprof.importers.table_builder import FINISHED, TableBuilder

__all__ = ["NativeStacks"]

_KEY_BYTES = 300
_ARGS_BYTES = 400
_INT64 = 1 << 63


class NativeStacks:
    """The open slices of all tracks. The scanner pairs the slices that it reads and those of begin() and end().

    If events do not arrive in time order on each track, `in_order` becomes False and pairs may be wrong: read the
    trace again with sorted_=True, which keeps the events and pairs them in finish(), in time order.
    """

    def __init__(
        self, scanner: _core.PacketScanner, rows: TableBuilder, skipped: Counter[str], sorted_: bool
    ) -> None:
        self.unfinished: set[int] = set()  # rows that remain unfinished although an end follows
        self._scanner = scanner
        self._rows = rows
        self._skipped = skipped
        self._is_sorted = sorted_
        self._codes: dict[Hashable, int] = {}
        self._args: list[dict[str, Any]] = [{}]  # of ends that are paired later, by tag
        self._args_bytes = 0

    @property
    def in_order(self) -> bool:
        """Whether all events arrived in time order on each track."""
        return self._scanner.in_order

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory used beside the scanner's, in bytes."""
        return _KEY_BYTES * len(self._codes) + self._args_bytes

    def code(self, track: Hashable) -> int:
        """Return the number of a track's stack."""
        return self._codes.setdefault(track, len(self._codes))

    def begin(self, track: Hashable, time_ns: int, row: int) -> None:
        """Open the slice of a row."""
        site = self._rows.site_at(self._rows.site[row])
        stays_unfinished = row in self.unfinished
        self.unfinished.discard(row)
        scanner = self._scanner
        name, category = scanner.text_code(site.name), scanner.text_code(site.category)
        scanner.begin_slice(self.code(track), time_ns, row, name, category, stays_unfinished)

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
        if not -_INT64 <= time_ns < _INT64:
            raise OverflowError("a time exceeds 64 bits")
        scanner, tag = self._scanner, 0
        if args and self._is_sorted:
            tag = len(self._args)
            self._args.append(args)
            self._args_bytes += _ARGS_BYTES + size_bytes
        codes = scanner.text_code(name), scanner.text_code(category)
        row = scanner.end_slice(self.code(track), time_ns, *codes, tag)
        if args and row >= 0:
            self._merge(row, args)

    def _merge(self, row: int, args: dict[str, Any]) -> None:
        known = self._rows.metadata(row)
        if not known and (code := self._rows.args_code(row)) >= 0:
            known = json.loads(self._scanner.store.args_text(code))
        put_args(self._rows, row, {**known, **args}, has_state=False)

    def apply(self) -> None:
        """Store the ends that the scanner has found in the rows, which the builder must contain."""
        rows, end_ns, finished = self._scanner.take_closings()
        if len(rows):
            np.frombuffer(self._rows.end, np.int64)[rows] = end_ns
            np.frombuffer(self._rows.flags, np.uint8)[rows[finished != 0]] |= FINISHED

    def finish(self, end_ns: int) -> None:
        """Pair the kept events; slices that are still open end at end_ns and remain unfinished."""
        self._scanner.finish_slices(end_ns)
        self.apply()
        for tag, row in zip(*self._scanner.tagged, strict=True):
            self._merge(row, self._args[tag])
        without_begin, lost = self._scanner.lost_ends
        self._skipped["end without begin"] += without_begin
        self._skipped["begin without end, within a slice that ended"] += lost
