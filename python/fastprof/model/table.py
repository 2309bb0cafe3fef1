# SPDX-License-Identifier: Apache-2.0
"""EventTable: the events of one session as immutable named NumPy columns, times in integer ns.

The columns of a captured table are the recorder's own memory (csrc/include/fastprof/capture/capture.hpp),
without a copy. The tree, views and exporters read only EventTables, so all of them also work on
tables filled by hand.
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
    SparseValues,
    read_only,
)
from fastprof.model.parents import new_numbers, skip_rows
from fastprof.model.sites import TASK_CATEGORIES, Site, SiteTable, Track, TrackTable
from fastprof.model.table_results import TableResults

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


class EventTable(TableResults):
    """Immutable columns of equal length; see COLUMNS for names, dtypes and defaults.

    columns: name -> array, converted to the column's dtype (no copy if it matches). start_ns, end_ns
    and site are required; an absent optional column takes no memory and reads as its default.
    sites, tracks: targets of the columns site and track. coded: names of CODED_COLUMNS -> CodedColumn.
    kernels: device activities launched by rows. payload_words: uint64 array that the column payload indexes;
    strings: texts that its words refer to. t0_ns, t1_ns: begin and end of the session, Unix ns; default of
    t1_ns: the last end. clock_error_ns: bound of the clock conversion's error. dropped: cause -> number of
    missing events. metadata: further facts by name.
    begin_ordered: rows are grouped by track and within a track in begin order, so that a parent
    precedes its children, as in captured tables; tables filled by hand may be in any order.

    Raises errors.ValueError for missing or unknown columns and unequal lengths. Safe to read from any
    number of threads.

        table = fastprof.EventTable(
            {"start_ns": [0, 10], "end_ns": [50, 20], "site": [0, 1]},
            sites=[fastprof.Site("outer"), fastprof.Site("inner")],
        )
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
        "thread_waits",
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
        thread_waits: Mapping[int, tuple[Array, Array]] | None = None,
    ) -> None:
        for name in ("start_ns", "end_ns", "site"):
            if name not in columns:
                raise errors.ValueError(
                    f"an EventTable requires the column {name!r}. Pass it as an array."
                )
        arrays: dict[str, Array | SparseValues] = {}
        size = len(columns["start_ns"])
        for name, value in columns.items():
            spec = COLUMNS.get(name)
            if spec is None:
                raise errors.ValueError(
                    f"unknown column {name!r}. Use one of {', '.join(COLUMNS)}."
                )
            if isinstance(value, SparseValues) and len(value) == size:
                arrays[name] = value
                continue
            array = np.asarray(value)
            if array.dtype != np.dtype(spec.dtype):
                array = array.astype(spec.dtype)
            if array.ndim != 1 or len(array) != size:
                raise errors.ValueError(
                    f"column {name!r} has shape {array.shape}, expected ({size},) like start_ns. Pass one"
                    " value per row."
                )
            arrays[name] = read_only(array)
        for name, column in (coded or {}).items():
            if name not in CODED_COLUMNS:
                raise errors.ValueError(
                    f"unknown coded column {name!r}. Use one of {', '.join(CODED_COLUMNS)}."
                )
            if len(column) != size:
                raise errors.ValueError(
                    f"coded column {name!r} has {len(column)} rows, expected {size}. Pass one code per row."
                )
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
            t1_ns = int(self.column("end_ns").max()) if size else self.t0_ns
        self.t1_ns = int(t1_ns)
        self.clock_error_ns = int(clock_error_ns)
        self.pid = int(pid)
        self.process_name = process_name
        self.dropped = {k: int(v) for k, v in (dropped or {}).items() if v}
        self.metadata = dict(metadata or {})
        self.begin_ordered = begin_ordered
        # Of sampled threads, by the track's id: times, and from then on the index in WAITS of sampled_stacks.py.
        self.thread_waits = dict(thread_waits or {})

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
        """Return whether the column was given (an absent one reads as its default)."""
        return name in self._columns or name in self.coded

    def _repr_html_(self) -> str:
        """Return the first rows as a sortable HTML table, for notebooks."""
        from fastprof.model.table_html import table_html

        return table_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the first rows where IPython shows text."""
        from fastprof.model.table_html import table_text

        printer.text(table_text(self))

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the given columns, coded ones last."""
        return (*self._columns, *self.coded)

    def column(self, name: str) -> Array:
        """Return a column as a read-only array of its dtype in COLUMNS; its default if absent.

        The default is one value broadcast to the length, thus without memory. Raises KeyError for an
        unknown name, and for "parent" if the table has no parents.
        """
        array = self._columns.get(name)
        if isinstance(array, SparseValues):
            array = self._columns[name] = read_only(array.dense(COLUMNS[name].dtype))
        if array is not None:
            return array
        cached = self._cache.get(name)
        if cached is None:
            cached = self._cache[name] = read_only(self._default(name))
        return cached

    def _default(self, name: str) -> Array:
        spec = COLUMNS.get(name)
        if spec is None:
            raise KeyError(f"unknown column {name!r}. Use one of {', '.join(COLUMNS)}.")
        size = len(self)
        if name == "parent":
            raise KeyError("the table has no column parent. Compute it with EventTree.of(table).")
        if name == "id":
            return np.arange(size, dtype=np.int64)
        if name == "external_id":
            on_host = np.arange(1, size + 1, dtype=np.int64)
            if self.has("device_type"):
                on_host[self.column("device_type") != COLUMNS["device_type"].default] = 0
            return on_host
        if name == "is_async":
            kind, flags = self.column("kind"), self.column("flags")
            crossed = int(np.bitwise_or.reduce(flags)) & EventFlag.CROSS_THREAD_END
            if not crossed and not bool(kind.any()):  # the common case, tested without a temporary
                return np.broadcast_to(np.False_, (size,))
            asynchronous: Array = kind == EventKind.ASYNC_RANGE
            if crossed:
                asynchronous |= (flags & EventFlag.CROSS_THREAD_END) != 0
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
        return self.column("start_ns")

    @property
    def end_ns(self) -> Array:
        """End of each row, int64, Unix nanoseconds; for an unfinished range the session's stop."""
        return self.column("end_ns")

    @property
    def duration_ns(self) -> Array:
        """end_ns - start_ns, int64; computed on each access, so that it takes no memory."""
        return read_only(self.end_ns - self.start_ns)

    @property
    def name_id(self) -> Array:
        """Code of each row's name, int32, an index into `names`; equal names share a code."""
        cached = self._cache.get("name_id")
        if cached is None:
            codes = self.sites.name_codes
            site = self.column("site")
            # If each site has a distinct name, as is common, the site column is the result.
            cached = site if self.sites.names_distinct else codes[site]
            self._cache["name_id"] = cached = read_only(cached)
        return cached

    @property
    def names(self) -> Sequence[str]:
        """The names that `name_id` indexes."""
        return self.sites.distinct_names

    def name(self, row: int) -> str:
        """Return the name of one row, as recorded."""
        return self.sites.names[int(self.column("site")[row])]

    @property
    def thread(self) -> Array:
        """Id of the track on which each row began, int64 (the track's index without a track table)."""
        cached = self._cache.get("thread")
        if cached is None:
            track = self.column("track")
            cached = self.tracks.ids[track] if len(self.tracks) else track.astype(np.int64)
            self._cache["thread"] = cached = read_only(cached)
        return cached

    @property
    def recording_thread(self) -> Array:
        """Id of the thread's track on which each row began, int64. `thread` has the task's track for rows of tasks."""
        track = self.column("track")
        return self.tracks.thread_ids[track] if len(self.tracks) else track.astype(np.int64)

    @property
    def unfinished(self) -> int:
        """Number of ranges that were still open at the end of the session; tasks do not count."""
        if "flags" not in self._columns or not len(self):
            return 0
        if int(np.bitwise_and.reduce(self.column("flags"))) & EventFlag.FINISHED:
            return 0
        is_open = (self.column("flags") & EventFlag.FINISHED) == 0
        if "kind" in self._columns:  # instants have no end
            is_open &= self.column("kind") <= EventKind.ASYNC_RANGE
        of_tasks = [category in TASK_CATEGORIES for category in self.sites.field("category")]
        if any(of_tasks):
            is_open &= ~np.array(of_tasks)[self.column("site")]
        return int(np.count_nonzero(is_open))

    @property
    def nbytes(self) -> int:
        """Size in bytes of the columns, the payload and the coded columns' codes."""
        total = sum(array.nbytes for array in self._columns.values())
        total += sum(column.codes.nbytes for column in self.coded.values())
        return total + (0 if self.payload_words is None else self.payload_words.nbytes)

    def to_dict(self) -> dict[str, Array]:
        """Return the given columns by name, as read-only arrays without a copy."""
        return {name: self.column(name) for name in self._columns}

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "an EventTable has no rows to iterate over. Read a column with table.column('start_ns'), or "
            "get one object per event with table.events()."
        )

    # ---- copying -------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        # Pickles the constructor's arguments; cached values are recomputed.
        arguments = {**self._arguments(), "strings": tuple(self.strings)}
        sites = arguments.pop("sites")
        return _rebuilt_table, (self.to_dict(), sites, arguments)

    def _arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments except for the columns."""
        return {name: getattr(self, name) for name in self.__slots__ if name[0] != "_"}

    # ---- deriving ------------------------------------------------------------------------------

    def __getitem__(self, rows: slice | Array | Sequence[int]) -> EventTable:
        """Return a table of selected rows: a slice (no copy), a boolean mask or row numbers.

        A row whose parent is not selected gets its nearest selected ancestor as parent. Kernels of
        rows that are not selected are left out.
        """
        if isinstance(rows, (int, np.integer)):
            raise TypeError(
                "an EventTable cannot be indexed by one number. Use a slice such as table[i:i + 1], a "
                "mask or a list."
            )
        size = len(self)
        selector: Any = rows if isinstance(rows, slice) else np.asarray(rows)
        if not isinstance(selector, slice) and not selector.size and selector.dtype != np.bool_:
            selector = selector.astype(np.int64)  # NumPy makes an empty list one of floats
        columns = {n: self.column(n)[selector] for n in self._columns if n != "parent"}
        needs_map = "parent" in self._columns or self.kernels is not None
        kernels = self.kernels
        if needs_map and not (isinstance(rows, slice) and rows == slice(None)):
            chosen = np.arange(size, dtype=np.int64)[selector]
            position = new_numbers(chosen, size)
            if "parent" in self._columns:
                nearest = skip_rows(self.column("parent"), position[:-1] >= 0)
                columns["parent"] = position[nearest[chosen]].astype(np.int32)
            if kernels is not None:
                kept = position[kernels.row] >= 0
                kernels = KernelTable.sorted(
                    position[kernels.row[kept]],
                    kernels.name[kept],
                    kernels.device[kept],
                    kernels.duration_ns[kept],
                    kernels.names,
                )
        elif "parent" in self._columns:
            columns["parent"] = self.column("parent")
        if "id" not in columns:
            columns["id"] = self.column("id")[selector]
        monotone = isinstance(rows, slice) and (rows.step is None or rows.step > 0)
        monotone = monotone or (not isinstance(rows, slice) and selector.dtype == np.bool_)
        return self.replaced(
            columns,
            coded={n: c.take(selector) for n, c in self.coded.items()},
            kernels=kernels,
            begin_ordered=self.begin_ordered and monotone,
        )

    def with_columns(
        self,
        columns: Mapping[str, Any] | None = None,
        *,
        coded: Mapping[str, CodedColumn] | None = None,
        kernels: KernelTable | None = None,
        sites: SiteTable | None = None,
        tracks: TrackTable | None = None,
    ) -> EventTable:
        """Return a table with columns added or replaced; the others are shared, not copied."""
        return self.replaced(
            {**self._columns, **(columns or {})},
            coded={**self.coded, **(coded or {})},
            kernels=self.kernels if kernels is None else kernels,
            sites=self.sites if sites is None else sites,
            tracks=self.tracks if tracks is None else tracks,
            thread_waits=None if columns and "start_ns" in columns else self.thread_waits,
        )

    def replaced(self, columns: Mapping[str, Any], **changes: Any) -> EventTable:
        """Return a table of these columns. changes: arguments of the constructor; the others are this table's."""
        return EventTable(columns, **{**self._arguments(), **changes})

    def without_overhead(self, event_cost: Mapping[str, Any] | None = None) -> EventTable:
        """Return the table with what recording cost taken out of its times.

        The time of each thread is compressed: each event takes its cost with it, from its own time and from that of
        all that enclose it. Times of different threads are no longer comparable; durations and self times are.

        event_cost: what profile.calibrate() returned; None: what the file says. Raises errors.ValueError without it.
        """
        from fastprof.model.own_cost import without_own_cost

        return without_own_cost(self, event_cost)


def _rebuilt_table(
    columns: Mapping[str, Any], sites: SiteTable, arguments: dict[str, Any]
) -> EventTable:
    return EventTable(columns, sites=sites, **arguments)
