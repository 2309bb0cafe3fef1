# SPDX-License-Identifier: Apache-2.0
"""TableBuilder: collects the rows of a trace and makes an EventTable of them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from fastprof.importers.memory_budget import JSON_BYTES_A_CHARACTER
from fastprof.model.sites import Site, Track
from fastprof.model.table import (
    NO_PAYLOAD,
    CodedColumn,
    EventFlag,
    EventKind,
    EventTable,
    KernelTable,
)

__all__ = ["Codes", "TableBuilder"]

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
FINISHED = int(EventFlag.FINISHED)

# Upper bounds for estimate_bytes(): a row is 34 bytes here and as much again while the table is
# made; the others are Python objects with their places in dictionaries and lists.
_ROW_BYTES = 96
_SITE_BYTES = 1000
_TRACK_BYTES = 700
_VALUE_BYTES = 250


class Codes:
    """Codes of one coded column, filled as rows need it."""

    def __init__(self) -> None:
        self.codes = array("i")
        self.values: list[Any] = []
        self.value_bytes = 0  # an upper bound
        self._index: dict[str, int] = {}

    def put(self, row: int, text: str, value: Any) -> None:
        """Give a row a value; `text` identifies it."""
        code = self._index.get(text)
        if code is None:
            code = self._index[text] = len(self.values)
            self.values.append(value)
            self.value_bytes += _VALUE_BYTES + JSON_BYTES_A_CHARACTER * len(text)
        self.codes.extend([-1] * (row - len(self.codes)))
        self.codes.append(code)

    def column(self, size: int) -> CodedColumn:
        """The column for `size` rows."""
        codes = np.full(size, -1, np.int32)
        codes[: len(self.codes)] = np.frombuffer(self.codes, np.int32)
        return CodedColumn(codes, tuple(self.values))


class TableBuilder:
    """Rows in the order they are added, about 40 bytes each while building."""

    def __init__(self) -> None:
        self._site_of: dict[Site, int] = {}
        self._site_chars = 0
        self._track_of: dict[Any, int] = {}
        self.tracks: list[Track] = []
        self.start = array("q")
        self.end = array("q")
        self.site = array("I")
        self.track = array("I")
        self.kind = array("B")
        self.flags = array("B")
        self.payload = array("I")
        self.words = array("Q")
        self._numbers: dict[str, tuple[array[int], int]] = {}
        self._codes: dict[str, Codes] = {}

    def __len__(self) -> int:
        return len(self.start)

    def estimate_bytes(self) -> int:
        """Memory that the rows take until the table is made, from above; a few operations."""
        columns = 8 * len(self._numbers) + 4 * len(self._codes)
        values = sum(codes.value_bytes for codes in self._codes.values())
        return (
            (_ROW_BYTES + columns) * len(self.start)
            + 8 * len(self.words)
            + _SITE_BYTES * len(self._site_of)
            + 4 * self._site_chars
            + _TRACK_BYTES * len(self.tracks)
            + values
        )

    def site_of(self, site: Site) -> int:
        """Index of a site, one for equal ones."""
        known = len(self._site_of)
        index = self._site_of.setdefault(site, known)
        if index == known:
            self._site_chars += len(site.name) + len(site.category)
        return index

    def track_of(self, key: Any, pid: int, tid: int) -> int:
        """Index of the track with this key, made when it is new."""
        index = self._track_of.get(key)
        if index is None:
            index = self._track_of[key] = len(self.tracks)
            self.tracks.append(Track(index, pid, tid))
        return index

    def known_track(self, key: Any) -> int | None:
        """Index of the track with this key, None when no row or name has it."""
        return self._track_of.get(key)

    def name_track(self, index: int, name: str) -> None:
        """Name a track."""
        self.tracks[index] = self.tracks[index]._replace(name=name)

    def add(
        self,
        kind: int,
        start_ns: int,
        end_ns: int,
        site: int,
        track: int,
        flags: int = FINISHED,
        payload: int = NO_PAYLOAD,
    ) -> int:
        """Add a row; its number. OverflowError for times that 64 bits do not hold."""
        if not (_INT64_MIN <= start_ns <= _INT64_MAX and _INT64_MIN <= end_ns <= _INT64_MAX):
            raise OverflowError("a time that 64 bits do not hold")
        self.start.append(start_ns)
        self.end.append(end_ns)
        self.site.append(site)
        self.track.append(track)
        self.kind.append(kind)
        self.flags.append(flags)
        self.payload.append(payload)
        return len(self.start) - 1

    def extend(self, start_ns: Any, end_ns: Any, site: Any, track: Any) -> None:
        """Add finished ranges without payload, arrays of one length; times fit into 64 bits."""
        size = len(start_ns)
        self.start.frombytes(start_ns.astype(np.int64).tobytes())
        self.end.frombytes(end_ns.astype(np.int64).tobytes())
        self.site.frombytes(site.astype(np.uint32).tobytes())
        self.track.frombytes(track.astype(np.uint32).tobytes())
        self.kind.frombytes(bytes(size))
        self.flags.frombytes(bytes([FINISHED]) * size)
        self.payload.frombytes(np.full(size, NO_PAYLOAD, np.uint32).tobytes())

    def add_words(self, *words: int) -> int:
        """Append payload words (negative ones as two's complement); index of the first."""
        first = len(self.words)
        self.words.extend(word & 0xFFFFFFFFFFFFFFFF for word in words)
        return first

    def put(self, column: str, row: int, value: int, default: int) -> None:
        """Set a number of a row in an optional int64 column; rows must come in order."""
        entry = self._numbers.get(column)
        if entry is None:
            entry = self._numbers[column] = (array("q"), default)
        values = entry[0]
        values.extend([default] * (row - len(values)))
        values.append(min(max(value, _INT64_MIN), _INT64_MAX))

    def code(self, column: str, row: int, text: str, value: Any) -> None:
        """Set a value of a row in a coded column; rows must come in order."""
        codes = self._codes.get(column)
        if codes is None:
            codes = self._codes[column] = Codes()
        codes.put(row, text, value)

    def finish(
        self,
        *,
        kernels: KernelTable | None = None,
        track_map: Mapping[int, int] | None = None,
        **facts: Any,
    ) -> EventTable:
        """The table. track_map: rows of these tracks move to others; `facts` go to EventTable."""
        size = len(self)
        track = np.frombuffer(self.track, np.uint32).copy()
        for source, target in (track_map or {}).items():
            track[track == source] = target
        columns: dict[str, Any] = {
            "start_ns": np.frombuffer(self.start, np.int64),
            "end_ns": np.frombuffer(self.end, np.int64),
            "site": np.frombuffer(self.site, np.uint32),
            "track": track,
            "flags": np.frombuffer(self.flags, np.uint8),
        }
        kind = np.frombuffer(self.kind, np.uint8)
        if bool((kind != EventKind.RANGE).any()):
            columns["kind"] = kind
        if len(self.words):
            columns["payload"] = np.frombuffer(self.payload, np.uint32)
        for name, (values, default) in self._numbers.items():
            column = np.full(size, default, np.int64)
            column[: len(values)] = np.frombuffer(values, np.int64)
            columns[name] = column
        return EventTable(
            columns,
            sites=list(self._site_of),
            tracks=self.tracks,
            coded={name: codes.column(size) for name, codes in self._codes.items()},
            kernels=kernels,
            payload_words=np.frombuffer(self.words, np.uint64) if len(self.words) else None,
            **facts,
        )
