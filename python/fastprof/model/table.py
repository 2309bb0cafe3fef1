# SPDX-License-Identifier: Apache-2.0
"""EventTable: what one session saw, as immutable named NumPy columns in integer nanoseconds.

The columns of a captured table are the recorder's own (csrc/include/fastprof/capture/capture.hpp),
without a copy. Everything else (tree, views, exporters) reads an EventTable and nothing else, so
all of it works on tables filled by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fastprof.base import errors
from fastprof.model.columns import (
    CODED_COLUMNS,
    COLUMNS,
    NO_PARENT,
    NO_PAYLOAD,
    Array,
    CodedColumn,
    ColumnSpec,
    EventFlag,
    EventKind,
    KernelTable,
    read_only,
)
from fastprof.model.sites import Site, SiteTable, Track, TrackTable

__all__ = [
    "CODED_COLUMNS",
    "COLUMNS",
    "NO_PARENT",
    "NO_PAYLOAD",
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
            arrays[name] = read_only(array)
        for name, column in (coded or {}).items():
            if name not in CODED_COLUMNS:
                raise errors.ValueError(
                    f"unknown coded column {name!r}; known: {', '.join(CODED_COLUMNS)}"
                )
            if len(column) != size:
                raise errors.ValueError(f"coded column {name!r} has {len(column)} rows, not {size}")
        self._columns = arrays
        self._cache: dict[str, Any] = {}
        self.sites = sites if isinstance(sites, SiteTable) else SiteTable.from_sites(sites)
        self.tracks = tracks if isinstance(tracks, TrackTable) else TrackTable.from_tracks(tracks)
        self.coded = dict(coded or {})
        self.kernels = kernels
        self.payload_words = (
            None if payload_words is None else read_only(np.asarray(payload_words, np.uint64))
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
            cached = self._cache[name] = read_only(self._default(name))
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
        if name == "external_id":
            on_host = np.arange(1, size + 1, dtype=np.int64)
            if self.has("device_type"):
                on_host[self.column("device_type") != COLUMNS["device_type"].default] = 0
            return on_host
        if name == "is_async":
            kind, flags = self.column("kind"), self.column("flags")
            foreign = int(np.bitwise_or.reduce(flags)) & EventFlag.FOREIGN_END
            if not foreign and not bool(kind.any()):  # the usual case, told without a temporary
                return np.broadcast_to(np.False_, (size,))
            asynchronous: Array = kind == EventKind.ASYNC_RANGE
            if foreign:
                asynchronous |= (flags & EventFlag.FOREIGN_END) != 0
            return asynchronous
        if name in ("is_user_annotation", "is_python_function", "scope"):
            by_site = self.sites.column(name)
            if len(by_site) and bool((by_site == by_site[0]).all()):
                return np.broadcast_to(by_site[0], (size,))
            return by_site[self.column("site")]
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
        return read_only(self.end_ns - self.start_ns)

    @property
    def name_id(self) -> Array:
        """Code of each row's name, int32, index into `names`; equal names share a code."""
        cached = self._cache.get("name_id")
        if cached is None:
            codes = self.sites.name_codes
            site = self.column("site")
            # Usually every site has a name of its own: then the site column is the answer.
            cached = site if self.sites.names_distinct else codes[site]
            self._cache["name_id"] = cached = read_only(cached)
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
            self._cache["thread"] = cached = read_only(cached)
        return cached

    @property
    def unfinished(self) -> int:
        """How many ranges were still open at the end of the session."""
        if "flags" not in self._columns or not len(self):
            return 0
        if int(np.bitwise_and.reduce(self.column("flags"))) & EventFlag.FINISHED:
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

    # ---- copying -------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        # Of the constructor's arguments; what was derived from them is derived again.
        arguments = {
            "tracks": self.tracks,
            "coded": self.coded,
            "kernels": self.kernels,
            "payload_words": self.payload_words,
            "strings": tuple(self.strings),
            "t0_ns": self.t0_ns,
            "t1_ns": self.t1_ns,
            "clock_error_ns": self.clock_error_ns,
            "pid": self.pid,
            "process_name": self.process_name,
            "dropped": self.dropped,
            "metadata": self.metadata,
            "begin_ordered": self.begin_ordered,
        }
        return _made_again, (self._columns, self.sites, arguments)

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


def _made_again(
    columns: Mapping[str, Any], sites: SiteTable, arguments: dict[str, Any]
) -> EventTable:
    return EventTable(columns, sites=sites, **arguments)


def _nearest_kept(parent: Array, position: Array, chosen: Array) -> Array:
    """New index of each chosen row's nearest ancestor that has a position, -1 for none.

    By pointer doubling: a step for each level would be quadratic in deep trees.
    """
    size = len(parent)
    # Rows with a position, and the end of every walk (the last entry), stay where they are.
    above = np.append(np.where(parent < 0, size, parent), size).astype(np.int64)
    nearest = np.where(position >= 0, np.arange(size + 1), above)
    while True:
        further = nearest[nearest]
        if np.array_equal(further, nearest):
            break
        nearest = further
    found: Array = position[nearest[above[chosen]]].astype(np.int32)
    return found
