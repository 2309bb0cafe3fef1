# SPDX-License-Identifier: Apache-2.0
"""table_of: make an EventTable of a session's capture. Columns are not copied, payload is decoded on access."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.native_numbers import ArgType, DetailFlag, DetailType
from fastprof.decode.detail_columns import DetailReader, Details, find_details
from fastprof.decode.device_columns import device_columns
from fastprof.decode.op_columns import overload_names
from fastprof.model.table import (
    NO_PAYLOAD,
    CodedColumn,
    EventKind,
    EventTable,
    SiteTable,
    Track,
    TrackTable,
)

__all__ = ["CaptureLike", "table_of", "without_pauses"]

Array: TypeAlias = NDArray[Any]

# Flags at their position in a block's head word.
_WRITTEN, _UNAVAILABLE = (flag << 32 for flag in (DetailFlag.WRITTEN, DetailFlag.UNAVAILABLE))

# Arguments of a range that become columns (csrc/bindings/range_payload.cpp).
_FLOPS_ARGUMENT, _SHAPES_MEMBER, _TEXT_ARGUMENT = "flops", "Input Dims", "args"


class CaptureLike(DetailReader, Protocol):
    """The part of fastprof._core.Capture that is read here."""

    @property
    def t0_ns(self) -> int: ...
    @property
    def t1_ns(self) -> int: ...
    @property
    def clock_error_ns(self) -> int: ...
    @property
    def pid(self) -> int: ...
    @property
    def process_name(self) -> str: ...
    def columns(self) -> dict[str, Any]: ...
    def sites(self) -> dict[str, list[Any]]: ...
    def tracks(self) -> list[tuple[int, int, int, str, bool, int, str]]: ...
    def strings(self) -> list[str]: ...
    def payload_words(self) -> Any: ...
    def cross_thread_end_row(self) -> Any: ...
    def cross_thread_end_track(self) -> Any: ...
    def device_links(self) -> tuple[Any, Any, Any, Any]: ...
    def dropped(self) -> dict[str, int]: ...


def table_of(
    capture: CaptureLike,
    *,
    with_stack: bool = True,
    with_modules: bool = True,
    with_shapes: bool = True,
    with_flops: bool = True,
    with_storages: bool = False,
    keeps_frame: Callable[[str], bool] = bool,
    metadata: Mapping[str, Any] | None = None,
) -> EventTable:
    """Return the table of a capture. Its arrays keep the capture alive.

    A column exists only if the capture has data for it. Parameters select columns:
    with_stack: the Python stacks. with_modules: the modules that ops run in.
    with_shapes, with_flops: the inputs and FLOPs of ops. with_storages: the storages of tensor inputs, which
    only sessions that record allocations contain.
    keeps_frame: predicate on stack entries "file(line): function"; default: keep all.
    metadata: the table's metadata.

    Raises errors.ValueError if a row's details are truncated or contain an invalid reference. Any thread.
    """
    columns: dict[str, Array] = dict(capture.columns())
    fields = capture.sites()
    sites = SiteTable(fields.pop("name"), **fields)
    words = np.asarray(capture.payload_words())
    strings: Sequence[str] = ()
    coded: dict[str, CodedColumn] = {}
    if len(words):
        strings = capture.strings()
        details = find_details(capture, sites, with_flops)
        decoder = _Payload(columns, sites, words, strings, details)
        coded = decoder.coded(with_stack, with_modules, with_shapes, with_storages, keeps_frame)
        counters = decoder.counters(getattr(capture, "counter_names", ()))
        if counters is not None:
            coded["counters"] = counters
        columns.update(decoder.plain(with_flops))
    else:
        del columns["payload"]
    node_id = getattr(capture, "node_id", -1)
    if node_id >= 0:
        own = columns.get("node_id")
        everywhere = np.full(len(columns["start_ns"]), node_id, np.int32)
        columns["node_id"] = everywhere if own is None else np.where(own < 0, everywhere, own)
    overloads = overload_names(columns["site"], sites, coded.get("overload_name"))
    if overloads is not None:
        coded["overload_name"] = overloads
    rows = np.asarray(capture.cross_thread_end_row())
    if len(rows):
        end_track = np.full(len(columns["start_ns"]), -1, np.int64)
        end_track[rows] = np.asarray(capture.cross_thread_end_track())
        columns["end_track"] = end_track
    tracks = TrackTable(Track(*track) for track in capture.tracks())
    devices = device_columns(capture, columns, sites, tracks)
    if devices is not None:
        columns.update(devices.columns)
    return EventTable(
        columns,
        sites=sites,
        tracks=tracks,
        coded=coded,
        kernels=None if devices is None else devices.kernels,
        payload_words=words if len(words) else None,
        strings=strings,
        t0_ns=capture.t0_ns,
        t1_ns=capture.t1_ns,
        clock_error_ns=capture.clock_error_ns,
        pid=capture.pid,
        process_name=capture.process_name,
        dropped=capture.dropped(),
        metadata=metadata,
        begin_ordered=True,
    )


def without_pauses(
    table: EventTable, pauses: Sequence[tuple[int | None, int | None]]
) -> EventTable:
    """Return the rows that did not begin in a pause. pauses: [begin, end) in Unix ns; end None: open-ended."""
    kept = np.ones(len(table), np.bool_)
    for begin_ns, end_ns in pauses:
        inside = table.start_ns >= begin_ns
        if end_ns is not None:
            inside &= table.start_ns < end_ns
        kept &= ~inside
    return table if kept.all() else table[kept]


class _Payload:
    """Decodes the payload words of a capture's ranges, column by column."""

    def __init__(
        self,
        columns: Mapping[str, Array],
        sites: SiteTable,
        words: Array,
        strings: Sequence[str],
        details: Details,
    ) -> None:
        self.site = columns["site"]
        self.payload = columns["payload"]
        self.flags = columns["flags"]
        self.kind = columns["kind"]
        self.sites = sites
        self.words = words
        self.strings = strings
        self.size = len(self.site)
        self.details = details

    def plain(self, with_flops: bool) -> dict[str, Array]:
        """Return the numeric columns for which some range has a value: flops, and numbers of ops such as node_id."""
        inputs = self.details.inputs
        found: dict[str, Array] = {}
        if with_flops and inputs:
            found["flops"] = inputs.flops(self.site, self.sites.names)
        found.update(self.details.numbers)
        for site, names in enumerate(self.sites.field("arg_names")):
            if _FLOPS_ARGUMENT not in names:
                continue
            position = names.index(_FLOPS_ARGUMENT)
            if self.sites.field("arg_types")[site][position] != ArgType.FLOAT64:
                continue
            rows = np.flatnonzero(self.site == site)
            flops = found.setdefault("flops", np.full(self.size, np.nan))
            flops[rows] = self.words[self.payload[rows].astype(np.int64) + position].view(
                np.float64
            )
        return found

    def coded(
        self,
        with_stack: bool,
        with_modules: bool,
        with_shapes: bool,
        with_storages: bool,
        keeps_frame: Callable[[str], bool],
    ) -> dict[str, CodedColumn]:
        """Return the coded columns for which some range has a value."""
        found: dict[str, CodedColumn] = {}
        if with_stack:
            stack = self._texts(
                "stack", lambda text: [entry for entry in text.split("\n") if keeps_frame(entry)]
            )
            if stack is not None:
                found["stack"] = stack
        modules = self._texts("modules", str) if with_modules else None
        if modules is not None:
            found["module_hierarchy"] = modules
        overloads = self._texts("overload", str)
        if overloads is not None:
            found["overload_name"] = overloads
        members = self._texts("json", json.loads)
        if members is not None:
            shapes = [value.get(_SHAPES_MEMBER) for value in members.values]
            if any(shape is not None for shape in shapes):
                given = np.array([shape is not None for shape in shapes])
                none = len(shapes)  # rows without shapes have an empty list, as in PyTorch
                codes = np.where(given[members.codes] & (members.codes >= 0), members.codes, none)
                found["input_shapes"] = CodedColumn(codes.astype(np.int32), (*shapes, []))
        found.update(self._arguments(members))
        if with_shapes:
            self._shapes_of_text(found)
            found.update(self.details.inputs.coded(found, with_storages))
        return found

    def _shapes_of_text(self, found: dict[str, CodedColumn]) -> None:
        """Add the shapes and type of the text given to record_function(name, text): PyTorch's of one input."""
        given = self._with_arguments(
            np.array([_TEXT_ARGUMENT in names for names in self.sites.field("arg_names")], np.bool_)
        )
        if given is None or not given.any():
            return
        codes = np.where(given, np.int32(0), np.int32(1))
        for name in ("input_shapes", "structured_input_shapes", "structured_input_strides"):
            found.setdefault(name, CodedColumn(codes, ([[]], [])))
        found["input_dtypes"] = CodedColumn(codes, ([""], []))

    def _texts(self, kind: str, decode: Any) -> CodedColumn | None:
        """Return the texts of a kind as a coded column; None if there are none."""
        texts = self.details.texts.get(kind)
        if texts is None:
            return None
        codes, indices = texts
        try:
            values = tuple(decode(self.strings[i]) for i in indices)
        except ValueError as error:  # of a damaged backing file: fastprof itself wrote no such text
            raise errors.FormatError(f"a recorded {kind} text is damaged: {error}") from None
        return CodedColumn(codes, values)

    def _arguments(self, members: CodedColumn | None) -> dict[str, CodedColumn]:
        """Return kwinputs and concrete_inputs; a row's values are decoded on access."""
        names = self.sites.field("arg_names")
        keyword = np.array(
            [any(not _is_column_argument(n) for n in site) for site in names], np.bool_
        )
        text = np.array([_TEXT_ARGUMENT in site for site in names], np.bool_)
        found: dict[str, CodedColumn] = {}
        rows = self._with_arguments(keyword)
        if members is not None:
            others = [any(key != _SHAPES_MEMBER for key in value) for value in members.values]
            more = np.append(np.array(others, np.bool_), False)[members.codes]
            rows = more if rows is None else rows | more
        if rows is not None and rows.any():
            found["kwinputs"] = self._lazily(np.flatnonzero(rows), self._keywords(members))
        rows = self._with_arguments(text)
        if rows is not None and rows.any():
            found["concrete_inputs"] = self._lazily(
                np.flatnonzero(rows), lambda row: [self.arguments(row)[_TEXT_ARGUMENT]]
            )
        return found

    def _with_arguments(self, sites: Array) -> Array | None:
        """Return the mask of ranges of these sites that have arguments; None without such sites."""
        if not sites.any():
            return None
        given: Array = (
            (self.payload != NO_PAYLOAD) & (self.kind <= EventKind.ASYNC_RANGE) & sites[self.site]
        )
        return given

    def counters(self, names: Sequence[str]) -> CodedColumn | None:
        """Return perf counters by row: name -> count from begin to end; None if no row has any.

        Scaled by enabled / running time if the counters were multiplexed, see perf_event_open(2). A
        row that did not end, or whose counters could not be read, has None.
        """
        if not names:
            return None
        begin, end = (np.zeros(self.size, np.int64) for _ in range(2))  # index of block, 0: none
        for column, kind in ((begin, DetailType.COUNTERS_BEGIN), (end, DetailType.COUNTERS_END)):
            for rows, at in self.details.blocks_of(kind):
                column[rows] = at
        size = len(names) + 2  # the counters, and enabled and running time
        both = np.flatnonzero((begin > 0) & (end > 0))
        first, last = self.words[begin[both] - 1], self.words[end[both] - 1]
        known = (last & np.uint64(_WRITTEN)) != 0
        known &= ((first | last) & np.uint64(_UNAVAILABLE)) == 0
        rows = both[known]
        if not len(rows):
            return None

        def read(row: int) -> dict[str, float]:
            start, stop = (self.words[at[row] : at[row] + size] for at in (begin, end))
            counted = (stop - start).astype(np.float64)
            enabled, running = float(counted[-2]), float(counted[-1])
            factor = 1.0 if running >= enabled else enabled / running if running else np.nan
            return dict(zip(names, (counted[:-2] * factor).tolist(), strict=True))

        return self._lazily(rows, read)

    def _lazily(self, rows: Array, value: Any) -> CodedColumn:
        codes = np.full(self.size, -1, np.int32)
        codes[rows] = np.arange(len(rows), dtype=np.int32)
        return CodedColumn(codes, _LazyValues(rows, value))

    def _keywords(self, members: CodedColumn | None) -> Any:
        def read(row: int) -> dict[str, Any]:
            values = {
                key: v for key, v in self.arguments(row).items() if not _is_column_argument(key)
            }
            if members is not None:
                more: Mapping[str, Any] = members[row] or {}
                values.update((key, v) for key, v in more.items() if key != _SHAPES_MEMBER)
            return values

        return read

    def arguments(self, row: int) -> dict[str, Any]:
        """Return the typed arguments of a row by name."""
        site, first = int(self.site[row]), int(self.payload[row])
        names, types = self.sites.field("arg_names")[site], self.sites.field("arg_types")[site]
        if first == NO_PAYLOAD:
            return {}
        words = self.words[first : first + len(names)]
        return {
            name: _argument(kind, words[i : i + 1], self.strings)
            for i, (name, kind) in enumerate(zip(names, types, strict=True))
        }


class _LazyValues(Sequence[Any]):
    """Values of a coded column that are computed on each access."""

    def __init__(self, rows: Array, value: Any) -> None:
        self._rows = rows
        self._value = value

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._value(int(row)) for row in self._rows[index]]
        return self._value(int(self._rows[index]))


def _is_column_argument(name: str) -> bool:
    """Return whether an argument becomes a column of its own, and is left out of kwinputs."""
    return name in (_FLOPS_ARGUMENT, _TEXT_ARGUMENT)


def _argument(kind: int, word: Array, strings: Sequence[str]) -> Any:
    if kind == ArgType.FLOAT64:
        return float(word.view(np.float64)[0])
    if kind == ArgType.BOOLEAN:
        return bool(word[0])
    if kind == ArgType.STRING:
        return strings[int(word[0])]
    if kind in (ArgType.UINT64, ArgType.POINTER):
        return int(word[0])
    return int(word.view(np.int64)[0])
