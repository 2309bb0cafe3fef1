# SPDX-License-Identifier: Apache-2.0
"""TableBuilder: collects the rows of a trace being read, and makes an EventTable of them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fastprof.importers.memory_budget import JSON_BYTES_A_CHARACTER
from fastprof.importers.number_column import NumberColumn, extend_array, whole_array
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

# Upper bounds in bytes for estimate_bytes(). A row takes 34 bytes here and as much again while the
# table is made; sites, tracks and values are Python objects with entries in dictionaries and lists.
_ROW_BYTES = 96
_SITE_BYTES = 1000
_TRACK_BYTES = 700
_VALUE_BYTES = 250


class Codes:
    """Codes of one coded column, extended up to the last row that has a value."""

    def __init__(self) -> None:
        self.codes = array("i")
        self.values: list[Any] = []
        self.value_bytes = 0  # upper bound of the values' memory
        self._index: dict[str, int] = {}

    def put(self, row: int, text: str, value: Any) -> None:
        """Set the value of a row; equal `text` means equal values."""
        code = self.code_of(text, value)
        if row < len(self.codes):
            self.codes[row] = code
            return
        self.codes.extend([-1] * (row - len(self.codes)))
        self.codes.append(code)

    def code_of(self, text: str, value: Any) -> int:
        """Return the code of a value, a new one if necessary; equal `text` means equal values."""
        code = self._index.get(text)
        if code is None:
            code = self._index[text] = len(self.values)
            self.values.append(value)
            self.value_bytes += _VALUE_BYTES + JSON_BYTES_A_CHARACTER * len(text)
        return code

    def get(self, row: int) -> Any:
        """Return the value of a row; None if it has none."""
        code = self.codes[row] if row < len(self.codes) else -1
        return self.values[code] if code >= 0 else None

    def column(self, size: int) -> CodedColumn:
        """Return the column for `size` rows. Call last: rows cannot be added afterwards."""
        return CodedColumn(whole_array(self.codes, size, -1), tuple(self.values))


class TableBuilder:
    """Rows in the order in which they are added; about 40 bytes each while building."""

    def __init__(self) -> None:
        self._site_of: dict[Site, int] = {}
        self._sites: list[Site] = []
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
        self._numbers: dict[str, NumberColumn] = {}
        self._codes: dict[str, Codes] = {}
        self._args_codes = array("i")

    def __len__(self) -> int:
        return len(self.start)

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory until the table is made, in bytes; O(columns)."""
        numbers = sum(column.nbytes for column in self._numbers.values())
        values = sum(codes.value_bytes for codes in self._codes.values())
        return (
            (_ROW_BYTES + 4 * len(self._codes)) * len(self.start)
            + numbers
            + 8 * len(self.words)
            + _SITE_BYTES * len(self._site_of)
            + 4 * self._site_chars
            + _TRACK_BYTES * len(self.tracks)
            + values
        )

    def site_of(self, site: Site) -> int:
        """Return the index of a site; equal sites share one."""
        known = len(self._site_of)
        index = self._site_of.setdefault(site, known)
        if index == known:
            self._sites.append(site)
            self._site_chars += len(site.name) + len(site.category)
        return index

    def site_at(self, index: int) -> Site:
        """Return the site with this index."""
        return self._sites[index]

    def track_of(self, key: Any, pid: int, tid: int) -> int:
        """Return the index of the track with this key; create it if new."""
        index = self._track_of.get(key)
        if index is None:
            index = self._track_of[key] = len(self.tracks)
            self.tracks.append(Track(index, pid, tid))
        return index

    def known_track(self, key: Any) -> int | None:
        """Return the index of the track with this key; None if there is none."""
        return self._track_of.get(key)

    def name_track(self, index: int, name: str) -> None:
        """Set a track's name."""
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
        """Add a row; return its number. Raises OverflowError for times outside 64 bits."""
        if not (_INT64_MIN <= start_ns <= _INT64_MAX and _INT64_MIN <= end_ns <= _INT64_MAX):
            raise OverflowError("a time exceeds 64 bits")
        self.start.append(start_ns)
        self.end.append(end_ns)
        self.site.append(site)
        self.track.append(track)
        self.kind.append(kind)
        self.flags.append(flags)
        self.payload.append(payload)
        return len(self.start) - 1

    def extend(
        self,
        start_ns: Any,
        end_ns: Any,
        site: Any,
        track: Any,
        kind: Any = None,
        flags: Any = None,
        payload: Any = None,
    ) -> None:
        """Add rows: arrays of equal length, times within 64 bits; by default finished ranges."""
        size = len(start_ns)
        self.start.frombytes(start_ns.astype(np.int64).tobytes())
        self.end.frombytes(end_ns.astype(np.int64).tobytes())
        self.site.frombytes(site.astype(np.uint32).tobytes())
        self.track.frombytes(track.astype(np.uint32).tobytes())
        self.kind.frombytes(bytes(size) if kind is None else kind.tobytes())
        self.flags.frombytes(bytes([FINISHED]) * size if flags is None else flags.tobytes())
        no_payload = np.full(size, NO_PAYLOAD, np.uint32) if payload is None else payload
        self.payload.frombytes(no_payload.tobytes())

    def add_words(self, *words: int) -> int:
        """Append payload words (negative ones as two's complement); return the first's index."""
        first = len(self.words)
        self.words.extend(word & 0xFFFFFFFFFFFFFFFF for word in words)
        return first

    def put(self, column: str, row: int, value: int, default: int) -> None:
        """Set a row's number in an optional int64 column; default: value of rows without one."""
        self._number_column(column, default).put(row, value)

    def _number_column(self, column: str, default: int) -> NumberColumn:
        entry = self._numbers.get(column)
        if entry is None:
            entry = self._numbers[column] = NumberColumn(default)
        return entry

    def code(self, column: str, row: int, text: str, value: Any) -> None:
        """Set a row's value in a coded column; equal `text` means equal values."""
        codes = self._codes.get(column)
        if codes is None:
            codes = self._codes[column] = Codes()
        codes.put(row, text, value)

    def put_rows(self, column: str, rows: Any, values: Any, default: int) -> None:
        """Set the numbers of many rows; arrays of equal length, rows ascending."""
        self._number_column(column, default).put_rows(rows, values)

    def code_of(self, column: str, text: str, value: Any) -> int:
        """Return the code of a value in a coded column; equal `text` means equal values."""
        return self._codes.setdefault(column, Codes()).code_of(text, value)

    def put_codes(self, column: str, rows: Any, codes: Any) -> None:
        """Set the codes of many rows; arrays of equal length, rows ascending."""
        _put(self._codes[column].codes, rows, codes, -1)

    def put_args_codes(self, rows: Any, codes: Any) -> None:
        """Set the codes of many rows' args in `args_texts`, which must then be passed to finish()."""
        _put(self._args_codes, rows, codes, -1)

    def args_code(self, row: int) -> int:
        """Return the code of a row's args that put_args_codes() stored; -1 for none."""
        return self._args_codes[row] if row < len(self._args_codes) else -1

    def metadata(self, row: int) -> dict[str, Any]:
        """Return the args of a row that put_args() stored as text."""
        codes = self._codes.get("metadata_json")
        text = codes.get(row) if codes is not None else None
        args: dict[str, Any] = json.loads(text) if text is not None else {}
        return args

    def finish(
        self,
        *,
        kernels: KernelTable | None = None,
        shift_ns: int = 0,
        track_map: Mapping[int, int] | None = None,
        args_texts: Callable[[Sequence[str]], Sequence[str]] | None = None,
        **facts: Any,
    ) -> EventTable:
        """Return the table. Call once: its columns are the builder's own memory wherever possible.

        shift_ns: added to all times. track_map: old -> new track index. facts: arguments of EventTable.

        args_texts: function from the builder's texts of metadata_json to the values of the whole column:
        those of put_args_codes(), then the builder's.
        """
        size = len(self)
        track = np.frombuffer(self.track, np.uint32)
        if track_map:
            moved = np.arange(max(*track_map, len(self.tracks)) + 1, dtype=np.uint32)
            moved[list(track_map)] = list(track_map.values())
            track = moved[track]
        start, end = np.frombuffer(self.start, np.int64), np.frombuffer(self.end, np.int64)
        if shift_ns:
            start += shift_ns
            end += shift_ns
        columns: dict[str, Any] = {
            "start_ns": start,
            "end_ns": end,
            "site": np.frombuffer(self.site, np.uint32),
            "track": track,
            "flags": np.frombuffer(self.flags, np.uint8),
        }
        kind = np.frombuffer(self.kind, np.uint8)
        if bool((kind != EventKind.RANGE).any()):
            columns["kind"] = kind
        if len(self.words):
            columns["payload"] = np.frombuffer(self.payload, np.uint32)
        for name, numbers in self._numbers.items():
            columns[name] = numbers.column(size)
        coded = {name: codes.column(size) for name, codes in self._codes.items()}
        if args_texts is not None and len(self._args_codes):
            coded["metadata_json"] = self._args_column(size, coded.get("metadata_json"), args_texts)
        return EventTable(
            columns,
            sites=self._sites,
            tracks=self.tracks,
            coded=coded,
            kernels=kernels,
            payload_words=np.frombuffer(self.words, np.uint64) if len(self.words) else None,
            **facts,
        )

    def _args_column(
        self,
        size: int,
        own: CodedColumn | None,
        args_texts: Callable[[Sequence[str]], Sequence[str]],
    ) -> CodedColumn:
        codes = whole_array(self._args_codes, size, -1)
        values = args_texts(() if own is None else own.values)
        if own is not None:
            first = len(values) - len(own.values)
            rows = np.flatnonzero(own.codes >= 0)
            codes[rows] = own.codes[rows] + np.int32(first)
        return CodedColumn(codes, values)


def _put(values: array[int], rows: Any, numbers: Any, default: int) -> None:
    """Set values[rows], extending the array by `default`."""
    extend_array(values, int(rows[-1]) + 1, default)
    np.frombuffer(values, values.typecode)[rows] = numbers
