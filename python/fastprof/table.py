# SPDX-License-Identifier: Apache-2.0
"""EventTable: what one session saw, as immutable named NumPy columns in integer nanoseconds.

The columns of a captured table are the recorder's own (csrc/include/fastprof/capture/capture.hpp),
without a copy. Everything else (tree, views, exporters) reads an EventTable and nothing else, so
all of it works on tables filled by hand.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import errors
from fastprof.device_type import DeviceType
from fastprof.sites import Site, SiteTable, Track, TrackTable

__all__ = [
    "CODED_COLUMNS",
    "COLUMNS",
    "CodedColumn",
    "ColumnSpec",
    "EventFlag",
    "EventKind",
    "EventTable",
    "KernelTable",
    "Site",
    "SiteTable",
    "Track",
    "TrackTable",
]

Array: TypeAlias = NDArray[Any]


class EventKind(enum.IntEnum):
    """What a row is. Same numbers as SiteKind in recorder/site.hpp."""

    RANGE = 0
    ASYNC_RANGE = 1
    MARK = 2
    COUNTER = 3
    FLOW_BEGIN = 4
    FLOW_END = 5
    MEMORY = 6
    OUT_OF_MEMORY = 7
    SEGMENT = 8


class EventFlag(enum.IntFlag):
    """Bits of the flags column. Same numbers as event_flag in capture/capture.hpp."""

    FINISHED = 1
    FOREIGN_END = 2
    CLOCK_DISCONTINUITY = 4
    CLAMPED = 8
    ENCLOSING = 16
    DETAIL = 32


NO_PAYLOAD = 0xFFFFFFFF
NO_PARENT = -1


class ColumnSpec(NamedTuple):
    """Name, dtype and the value that an absent column stands for."""

    name: str
    dtype: str
    default: Any
    doc: str


_SPECS = (
    ColumnSpec("start_ns", "int64", None, "begin, Unix time in ns"),
    ColumnSpec("end_ns", "int64", None, "end, Unix time in ns; equals start_ns for instants"),
    ColumnSpec("site", "uint32", None, "index into sites: name, category, file, line, scope"),
    ColumnSpec("track", "uint32", 0, "index into tracks: the thread it began on"),
    ColumnSpec("parent", "int32", None, "row of the enclosing range, -1 for none; absent: unknown"),
    ColumnSpec("payload", "uint32", NO_PAYLOAD, "index into payload_words"),
    ColumnSpec("kind", "uint8", 0, "EventKind"),
    ColumnSpec("flags", "uint8", 1, "EventFlag bits"),
    ColumnSpec("end_track", "int64", -1, "index into tracks where it ended, -1: where it began"),
    ColumnSpec("id", "int64", None, "identity of the event; absent: the row number"),
    ColumnSpec("sequence_nr", "int64", -1, "autograd sequence number, -1 for none"),
    ColumnSpec("fwd_thread", "int64", -1, "thread of the forward op, -1 for none"),
    ColumnSpec("node_id", "int32", -1, "node of a distributed run, -1 for none"),
    ColumnSpec("is_async", "bool", None, "start and end need not nest; absent: by kind and flags"),
    ColumnSpec("is_remote", "bool", False, "came from another process"),
    ColumnSpec("is_legacy", "bool", False, "came from record lists (parse_records)"),
    ColumnSpec("is_user_annotation", "bool", None, "absent: by the site's category"),
    ColumnSpec("is_python_function", "bool", None, "absent: by the site's category"),
    ColumnSpec("device_type", "int16", int(DeviceType.CPU), "DeviceType"),
    ColumnSpec("device_index", "int32", 0, "index of the device"),
    ColumnSpec("device_resource_id", "int64", None, "stream or thread; absent: the thread"),
    ColumnSpec("scope", "uint8", None, "RecordScope; absent: the site's"),
    ColumnSpec("flops", "float64", np.nan, "floating point operations, NaN for unknown"),
    ColumnSpec("cpu_memory_usage", "int64", 0, "bytes, children included"),
    ColumnSpec("device_memory_usage", "int64", 0, "bytes, children included"),
    ColumnSpec("flow_id", "int64", 0, ""),
    ColumnSpec("flow_type", "int32", 0, ""),
    ColumnSpec("flow_start", "bool", False, ""),
    ColumnSpec("external_id", "int64", 0, ""),
    ColumnSpec("linked_correlation_id", "int64", 0, ""),
    ColumnSpec("python_id", "int64", -1, ""),
    ColumnSpec("python_parent_id", "int64", -1, ""),
    ColumnSpec("python_module_id", "int64", -1, ""),
)
COLUMNS: dict[str, ColumnSpec] = {spec.name: spec for spec in _SPECS}

# Columns whose values are Python objects, stored once each: codes plus a tuple of values.
CODED_COLUMNS = (
    "overload_name",
    "input_shapes",
    "concrete_inputs",
    "kwinputs",
    "stack",
    "activity_type",
    "structured_input_shapes",
    "structured_input_strides",
    "input_dtypes",
    "event_metadata",
    "metadata_json",
)


@dataclass(frozen=True)
class CodedColumn:
    """A dictionary-encoded column: values[codes[row]], None where the code is -1."""

    codes: Array
    values: Sequence[Any]

    def __getitem__(self, row: Any) -> Any:
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]

    def take(self, rows: Any) -> CodedColumn:
        """The same column for a selection of rows; the values are shared."""
        return CodedColumn(_read_only(self.codes[rows]), self.values)

    @classmethod
    def encode(cls, values: Sequence[Any]) -> CodedColumn:
        """Encode plain values; equal text representations share one code. None stays None."""
        index: dict[str, int] = {}
        kept: list[Any] = []
        codes = np.empty(len(values), np.int32)
        for row, value in enumerate(values):
            if value is None:
                codes[row] = -1
                continue
            text = repr(value)
            code = index.get(text)
            if code is None:
                code = index[text] = len(kept)
                kept.append(value)
            codes[row] = code
        return cls(_read_only(codes), tuple(kept))


@dataclass(frozen=True)
class KernelTable:
    """Device activities attached to rows, sorted by row (several per row allowed)."""

    row: Array  # int64: the launching row
    name: Array  # int32: index into names
    device: Array  # int32: device index
    duration_ns: Array  # int64
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.row)


def _read_only(array: Array) -> Array:
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


class EventTable:
    """Immutable columns of one length; see COLUMNS for names, dtypes and defaults.

    `columns` maps names to arrays (converted to the column's dtype; no copy when it is already
    right). start_ns, end_ns and site are required; an optional column that is absent takes no
    memory and reads as its default. `coded` maps names of CODED_COLUMNS to CodedColumn.

    A captured table has rows grouped by track and, within a track, in begin order, so a parent
    comes before its children (`begin_ordered=True`); tables filled by hand may be in any order.
    Safe to read from any number of threads.
    """

    __slots__ = (
        "_cache",
        "_columns",
        "begin_ordered",
        "clock_error_ns",
        "coded",
        "dropped",
        "kernels",
        "metadata",
        "payload_words",
        "pid",
        "process_name",
        "sites",
        "strings",
        "t0_ns",
        "t1_ns",
        "tracks",
    )

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        sites: SiteTable | Sequence[Site],
        tracks: TrackTable | Sequence[Track] = (),
        coded: Mapping[str, CodedColumn] | None = None,
        kernels: KernelTable | None = None,
        payload_words: Any = None,
        strings: Sequence[str] = (),
        t0_ns: int = 0,
        t1_ns: int | None = None,
        clock_error_ns: int = 0,
        pid: int = 0,
        process_name: str = "",
        dropped: Mapping[str, int] | None = None,
        metadata: Mapping[str, Any] | None = None,
        begin_ordered: bool = False,
    ) -> None:
        for name in ("start_ns", "end_ns", "site"):
            if name not in columns:
                raise errors.ValueError(
                    f"an EventTable needs the column {name!r}; give it as an array"
                )
        arrays: dict[str, Array] = {}
        size = len(columns["start_ns"])
        for name, value in columns.items():
            spec = COLUMNS.get(name)
            if spec is None:
                raise errors.ValueError(
                    f"unknown column {name!r}; known columns: {', '.join(COLUMNS)}"
                )
            array = np.asarray(value)
            if array.dtype != np.dtype(spec.dtype):
                array = array.astype(spec.dtype)
            if array.ndim != 1 or len(array) != size:
                raise errors.ValueError(
                    f"column {name!r} has shape {array.shape}, expected ({size},) like start_ns"
                )
            arrays[name] = _read_only(array)
        for name, column in (coded or {}).items():
            if name not in CODED_COLUMNS:
                raise errors.ValueError(
                    f"unknown coded column {name!r}; known: {', '.join(CODED_COLUMNS)}"
                )
            if len(column.codes) != size:
                raise errors.ValueError(
                    f"coded column {name!r} has {len(column.codes)} rows, not {size}"
                )
        self._columns = arrays
        self._cache: dict[str, Any] = {}
        self.sites = sites if isinstance(sites, SiteTable) else SiteTable.from_sites(sites)
        self.tracks = tracks if isinstance(tracks, TrackTable) else TrackTable.from_tracks(tracks)
        self.coded = dict(coded or {})
        self.kernels = kernels
        self.payload_words = (
            None if payload_words is None else _read_only(np.asarray(payload_words, np.uint64))
        )
        self.strings = strings
        self.t0_ns = int(t0_ns)
        if t1_ns is None:
            t1_ns = int(arrays["end_ns"].max()) if size else self.t0_ns
        self.t1_ns = int(t1_ns)
        self.clock_error_ns = int(clock_error_ns)
        self.pid = int(pid)
        self.process_name = process_name
        self.dropped = {k: int(v) for k, v in (dropped or {}).items() if v}
        self.metadata = dict(metadata or {})
        self.begin_ordered = begin_ordered

    # ---- reading -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._columns["start_ns"])

    def __repr__(self) -> str:
        extra = [n for n in self._columns if n not in ("start_ns", "end_ns", "site", "track")]
        extra += list(self.coded)
        return (
            f"<EventTable rows={len(self)} sites={len(self.sites)} tracks={len(self.tracks)} "
            f"columns=start_ns,end_ns,site,track{',' if extra else ''}{','.join(extra)}>"
        )

    def has(self, name: str) -> bool:
        """True when the column was given (an absent one reads as its default)."""
        return name in self._columns or name in self.coded

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns that were given, coded ones last."""
        return (*self._columns, *self.coded)

    def column(self, name: str) -> Array:
        """The column as a read-only array of the dtype in COLUMNS; its default when absent.

        An absent column costs nothing: the default is one value broadcast to the length.
        """
        array = self._columns.get(name)
        if array is not None:
            return array
        cached = self._cache.get(name)
        if cached is None:
            cached = self._cache[name] = _read_only(self._default(name))
        return cached

    def _default(self, name: str) -> Array:
        spec = COLUMNS.get(name)
        if spec is None:
            raise KeyError(f"unknown column {name!r}; known columns: {', '.join(COLUMNS)}")
        size = len(self)
        if name == "parent":
            raise KeyError("this table has no parents yet; EventTree.of(table) computes them")
        if name == "id":
            return np.arange(size, dtype=np.int64)
        if name == "is_async":
            asynchronous: Array = self.column("kind") == EventKind.ASYNC_RANGE
            if "flags" in self._columns:
                asynchronous |= (self.column("flags") & EventFlag.FOREIGN_END) != 0
            return asynchronous
        if name in ("is_user_annotation", "is_python_function", "scope"):
            return self.sites.column(name)[self.column("site")]
        if name == "device_resource_id":
            return self.thread
        return np.broadcast_to(np.asarray(spec.default, spec.dtype), (size,))

    @property
    def start_ns(self) -> Array:
        """Begin of each row, int64, Unix nanoseconds."""
        return self._columns["start_ns"]

    @property
    def end_ns(self) -> Array:
        """End of each row, int64, Unix nanoseconds; for an unfinished range the stop time."""
        return self._columns["end_ns"]

    @property
    def duration_ns(self) -> Array:
        """end_ns - start_ns, int64; computed each time, so that it takes no memory."""
        return _read_only(self.end_ns - self.start_ns)

    @property
    def name_id(self) -> Array:
        """Code of each row's name, int32, index into `names`; equal names share a code."""
        cached = self._cache.get("name_id")
        if cached is None:
            codes = self.sites.name_codes
            site = self.column("site")
            # Usually every site has a name of its own: then the site column is the answer.
            cached = site if self.sites.names_distinct else codes[site]
            self._cache["name_id"] = cached = _read_only(cached)
        return cached

    @property
    def names(self) -> Sequence[str]:
        """The names that `name_id` points into."""
        return self.sites.distinct_names

    def name(self, row: int) -> str:
        """Name of one row, as recorded."""
        return self.sites.names[int(self.column("site")[row])]

    @property
    def thread(self) -> Array:
        """Id of the track each row began on, int64 (the track's index when no tracks are given)."""
        cached = self._cache.get("thread")
        if cached is None:
            track = self.column("track")
            cached = self.tracks.ids[track] if len(self.tracks) else track.astype(np.int64)
            self._cache["thread"] = cached = _read_only(cached)
        return cached

    @property
    def unfinished(self) -> int:
        """How many ranges were still open at the end of the session."""
        if "flags" not in self._columns:
            return 0
        is_open = (self.column("flags") & EventFlag.FINISHED) == 0
        if "kind" in self._columns:  # instants have no end to see
            is_open &= self.column("kind") <= EventKind.ASYNC_RANGE
        return int(np.count_nonzero(is_open))

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, the payload and the coded columns' codes."""
        total = sum(array.nbytes for array in self._columns.values())
        total += sum(column.codes.nbytes for column in self.coded.values())
        return total + (0 if self.payload_words is None else self.payload_words.nbytes)

    def to_dict(self) -> dict[str, Array]:
        """The given columns by name, without a copy (read-only arrays)."""
        return dict(self._columns)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "an EventTable is read by columns: table.column('start_ns'); "
            "for one object per event use EventList.from_table(table)"
        )

    # ---- deriving ------------------------------------------------------------------------------

    def __getitem__(self, rows: slice | Array | Sequence[int]) -> EventTable:
        """A table of a selection of rows: a slice (no copy), a boolean mask or row numbers.

        A row whose parent is not selected gets its nearest selected ancestor as parent. Kernels
        of rows that are not selected are left out.
        """
        if isinstance(rows, (int, np.integer)):
            raise TypeError("select rows by a slice, a mask or a list: table[i:i + 1]")
        size = len(self)
        selector: Any = rows if isinstance(rows, slice) else np.asarray(rows)
        columns = {n: a[selector] for n, a in self._columns.items() if n != "parent"}
        needs_map = "parent" in self._columns or self.kernels is not None
        kernels = self.kernels
        if needs_map and not (isinstance(rows, slice) and rows == slice(None)):
            chosen = np.arange(size, dtype=np.int64)[selector]
            position = np.full(size + 1, -1, np.int64)  # the last entry stands for parent -1
            position[chosen] = np.arange(len(chosen))
            if "parent" in self._columns:
                columns["parent"] = _nearest_kept(self._columns["parent"], position, chosen)
            if kernels is not None:
                kept = position[kernels.row] >= 0
                order = np.argsort(position[kernels.row[kept]], kind="stable")
                kernels = KernelTable(
                    position[kernels.row[kept]][order],
                    kernels.name[kept][order],
                    kernels.device[kept][order],
                    kernels.duration_ns[kept][order],
                    kernels.names,
                )
        elif "parent" in self._columns:
            columns["parent"] = self._columns["parent"]
        if "id" not in columns:
            columns["id"] = self.column("id")[selector]
        monotone = isinstance(rows, slice) and (rows.step is None or rows.step > 0)
        monotone = monotone or (not isinstance(rows, slice) and selector.dtype == np.bool_)
        return self._derive(
            columns,
            {n: c.take(selector) for n, c in self.coded.items()},
            kernels,
            self.begin_ordered and monotone,
        )

    def with_columns(
        self,
        columns: Mapping[str, Any] | None = None,
        *,
        coded: Mapping[str, CodedColumn] | None = None,
        kernels: KernelTable | None = None,
        sites: SiteTable | None = None,
    ) -> EventTable:
        """A table with columns added or replaced; the others are shared, not copied."""
        return self._derive(
            {**self._columns, **(columns or {})},
            {**self.coded, **(coded or {})},
            self.kernels if kernels is None else kernels,
            self.begin_ordered,
            sites,
        )

    def _derive(
        self,
        columns: Mapping[str, Any],
        coded: Mapping[str, CodedColumn],
        kernels: KernelTable | None,
        begin_ordered: bool,
        sites: SiteTable | None = None,
    ) -> EventTable:
        return EventTable(
            columns,
            sites=self.sites if sites is None else sites,
            tracks=self.tracks,
            coded=coded,
            kernels=kernels,
            payload_words=self.payload_words,
            strings=self.strings,
            t0_ns=self.t0_ns,
            t1_ns=self.t1_ns,
            clock_error_ns=self.clock_error_ns,
            pid=self.pid,
            process_name=self.process_name,
            dropped=self.dropped,
            metadata=self.metadata,
            begin_ordered=begin_ordered,
        )


def _nearest_kept(parent: Array, position: Array, chosen: Array) -> Array:
    """New index of each chosen row's nearest ancestor that has a position, -1 for none."""
    ancestor = parent[chosen].astype(np.int64)
    pending = np.flatnonzero((ancestor >= 0) & (position[ancestor] < 0))
    while len(pending):
        ancestor[pending] = parent[ancestor[pending]]
        up = ancestor[pending]
        pending = pending[(up >= 0) & (position[up] < 0)]
    return position[ancestor].astype(np.int32)
