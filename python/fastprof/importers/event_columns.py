# SPDX-License-Identifier: Apache-2.0
"""EventColumns: adds the events that the native scanner read to a table, as arrays."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.base.native_numbers import ArgType
from fastprof.base.record_scope import ENGINE_RANGE_PREFIX, RecordScope
from fastprof.importers.chrome_args import (
    DEVICE_CATEGORIES,
    LISTS,
    NUMBERS,
    STATES,
    TEXTS,
    USER_SCOPE,
    ScopeRule,
    keeps_number,
    launches_kernels,
    range_state,
)
from fastprof.importers.kernel_links import NO_DEVICE, DeviceRows
from fastprof.importers.own_device_rows import LINK_ARGS, LinkArgs
from fastprof.importers.table_builder import FINISHED, TableBuilder
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.sites import Site
from fastprof.model.table import EventKind

__all__ = ["ArgTexts", "BlockColumns", "EventColumns", "trace_conventions"]

Array: TypeAlias = NDArray[Any]

OP_CATEGORY = "cpu_op"
_LINKS = LINK_ARGS
_STATE_VALUES = (None, True, False, None)  # of the store's two bits a state; 0 is absent
_SCOPES = (USER_SCOPE, int(RecordScope.FUNCTION), int(RecordScope.BACKWARD_FUNCTION))
_RANGES = "XB"  # phases of the store's sites that are ranges: complete, and begun
_TEXT_PLACES = 100  # place of the first column of texts, after all columns of numbers
# Type of a counter's value, by phase.
_COUNTERS = {"C": int(ArgType.INT64), "D": int(ArgType.FLOAT64)}
_KINDS = {
    "i": EventKind.MARK,
    "m": EventKind.MEMORY,
    "s": EventKind.FLOW_BEGIN,
    "f": EventKind.FLOW_END,
    "C": EventKind.COUNTER,
    "D": EventKind.COUNTER,
}
# Stands for a member that an event lacks. (A device of this number would be one of none.)
_ABSENT = -(1 << 63)
# Upper bound of the bytes per row beside the rows of the builder: args, and links to devices.
_ROW_BYTES = 40
_SITE_BYTES = 400


def trace_conventions(other_pid: int = -1) -> _core.TraceConventions:
    """Return the names of args that become columns, for the native scanner.

    other_pid: process whose events the scanner does not interpret.
    """
    numbers = [key for key, _, _ in NUMBERS]
    return _core.TraceConventions(
        numbers=[*numbers, *_LINKS],
        lists=[key for key, _ in LISTS],
        texts=[key for key, _, _ in TEXTS],
        states=list(STATES),
        engine_prefix=ENGINE_RANGE_PREFIX,
        op_category=OP_CATEGORY,
        forward_thread=numbers.index("Fwd thread id"),
        other_pid=other_pid,
    )


class ArgTexts(Sequence[str]):
    """Args of rows as JSON text, made when accessed; then the texts of rows that were not scanned."""

    are_texts = True  # check_values() need not decode them

    def __init__(self, store: _core.RowStore, others: Sequence[str]) -> None:
        self._store = store
        self._size = store.args
        self._others = others

    def __len__(self) -> int:
        return self._size + len(self._others)

    def __getitem__(self, code: Any) -> Any:
        if isinstance(code, slice):
            return [self[i] for i in range(*code.indices(len(self)))]
        index = range(len(self))[code]
        if index >= self._size:
            return self._others[index - self._size]
        return json.dumps(json.loads(self._store.args_text(index)))

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))


class EventColumns:
    """Rows of scanned events in a TableBuilder. Blocks are added in file order, in parts if necessary."""

    def __init__(
        self,
        store: _core.RowStore,
        rows: TableBuilder,
        devices: DeviceRows | LinkArgs,
        scopes: ScopeRule,
    ) -> None:
        """Add rows of `store` to `rows`, with the scopes of `scopes` and device work in `devices`.

        devices: LinkArgs if blocks have track indices of `rows`, and device work is linked after the last event.
        """
        self.store = store
        self.places: dict[tuple[str, str, int], int] = {("", "", 0): 0}  # source location -> number
        self._rows = rows
        self._devices = devices
        self._has_codes = isinstance(devices, DeviceRows)  # of tracks
        self._scopes = scopes
        self._backward = 0  # number of the store's backward names that were passed to the rule
        # By site code of the store: site and kind of the rows, flags, device type or -1, launches.
        self._site = array("I")
        self._kind = array("B")
        self._flags = array("B")
        self._device = array("b")
        self._launches = array("B")
        self._track = array("I")  # by track code
        self._codes: dict[str, Array] = {}  # by column: text code -> code in the column, or -1

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory used beside the builder's, in bytes."""
        maps = sum(known.nbytes for known in self._codes.values())
        own = _ROW_BYTES * len(self._rows) + _SITE_BYTES * len(self._site) + maps
        return self.store.bytes + own

    def args_texts(self, others: Sequence[str]) -> Sequence[str]:
        """Return the values of the column metadata_json. others: texts of rows that were not scanned."""
        return ArgTexts(self.store, others)

    def share_backward_names(self) -> None:
        """Pass names of backward functions that the scanner found to the rule."""
        names = self.store.backward_names
        for code in names[self._backward :]:
            self._scopes.backward_names.add(json.loads(self.store.text(code)))
        self._backward = len(names)

    def take_backward_names(self, names: set[str]) -> None:
        """Pass names of backward functions that the rule found to the scanner."""
        for name in names:
            self.store.add_backward(f'"{name}"'.encode("utf-8", "surrogatepass"))

    def add(self, block: BlockColumns, begin: int, end: int) -> None:
        """Add the rows [begin, end) of a block."""
        if begin == end:
            return
        site_codes, track_codes = block.site[begin:end], block.track[begin:end]
        self._extend_sites(int(site_codes.max()) + 1)
        if self._has_codes:
            self._extend_tracks(int(track_codes.max()) + 1)
        first, size = len(self._rows), end - begin
        payload = np.full(size, NO_PAYLOAD, np.uint32)
        flow_rows, ids = _part(block.flow, begin, end)
        if len(ids):
            first_words = np.flatnonzero(np.diff(flow_rows, prepend=-1))
            payload[flow_rows[first_words]] = first_words + len(self._rows.words)
            self._rows.words.frombytes(ids.tobytes())
        self._rows.extend(
            block.start_ns[begin:end],
            block.end_ns[begin:end],
            np.frombuffer(self._site, np.uint32)[site_codes],
            np.frombuffer(self._track, np.uint32)[track_codes] if self._has_codes else track_codes,
            np.frombuffer(self._kind, np.uint8)[site_codes],
            np.frombuffer(self._flags, np.uint8)[site_codes],
            payload,
        )
        self._add_args(block, begin, end, first)
        if isinstance(self._devices, DeviceRows):
            self._add_devices(self._devices, block, begin, end, first)
        else:
            for place, key in enumerate(_LINKS, len(NUMBERS)):
                rows, values = _part(block.sparse[place], begin, end)
                if len(rows):
                    self._devices.add(key, first + rows, values)
        args = block.args[begin:end]
        with_args = np.flatnonzero(args >= 0)
        if len(with_args):
            self._rows.put_args_codes(first + with_args, args[with_args])

    def _add_args(self, block: BlockColumns, begin: int, end: int, first: int) -> None:
        found: list[tuple[int, int, str, Array, Array, Any]] = []
        for place, (_, column, default) in enumerate(NUMBERS):
            rows, values = _part(block.sparse[place], begin, end)
            if len(rows):
                keep = keeps_number(column, values)
                rows, values = rows[keep], values[keep]
            if len(rows):
                found.append((int(rows[0]), place, column, rows, values, default))
        offset = len(NUMBERS) + len(_LINKS)
        decoders = [(column, None) for _, column in LISTS]
        for place, (column, decode) in enumerate(
            [*decoders, *((column, decode) for _, column, decode in TEXTS)]
        ):
            rows, values = _part(block.sparse[offset + place], begin, end)
            if len(rows):
                found.append((int(rows[0]), _TEXT_PLACES + place, column, rows, values, decode))
        # In order of the first row, so that columns are created in the order of the file.
        for _, place, column, rows, values, more in sorted(found, key=lambda entry: entry[:2]):
            if place < _TEXT_PLACES:
                self._rows.put_rows(column, first + rows, values, more)
            else:
                self._put_texts(column, first + rows, values, more)

    def _put_texts(self, column: str, rows: Array, texts: Array, decode: Any) -> None:
        known = self._codes.get(column)
        if known is None or len(known) < self.store.texts:
            more = np.full(self.store.texts * 5 // 4, -1, np.int32)
            more[: 0 if known is None else len(known)] = known if known is not None else ()
            known = self._codes[column] = more
        new = texts[known[texts] < 0]
        for text_code in dict.fromkeys(new.tolist()):
            value = json.loads(self.store.text(text_code))
            text = value if decode else repr(value)
            value = decode(value) if decode else value
            known[text_code] = self._rows.code_of(column, text, value)
        self._rows.put_codes(column, rows, known[texts])

    def _add_devices(
        self, devices: DeviceRows, block: BlockColumns, begin: int, end: int, first: int
    ) -> None:
        size, offset = end - begin, len(NUMBERS)

        def dense(place: int, absent: int) -> Array:
            values = np.full(size, absent, np.int64)
            rows, numbers = _part(block.sparse[offset + place], begin, end)
            values[rows] = numbers
            return values

        sites = block.site[begin:end]
        types = np.frombuffer(self._device, np.int8)[sites]
        rows = np.flatnonzero(types >= 0)
        if len(rows):
            index = dense(1, _ABSENT)[rows]
            index = np.where(index == _ABSENT, NO_DEVICE, index & 0x7FFFFFFF)
            devices.add_devices(first + rows, types[rows], index, dense(2, 0)[rows])
        rows, external = _part(block.sparse[offset], begin, end)
        is_range = np.frombuffer(self._launches, np.uint8)[sites[rows]]
        linked = (external > 0) & (is_range != 2)
        if linked.any():
            devices.add_links(first + rows[linked], external[linked], is_range[linked].astype(bool))

    def _extend_sites(self, count: int) -> None:
        for code in range(len(self._site), count):
            name_code, category_code, phase, scope, state, place = self.store.site(code)
            is_memory, bits = phase == "m", state
            state = 0 if is_memory else state
            name = json.loads(self.store.text(name_code))
            category = json.loads(self.store.text(category_code))
            states = {
                key: _STATE_VALUES[state >> (2 * i) & 3]
                for i, key in enumerate(STATES)
                if state >> (2 * i) & 3
            }
            is_range = phase in _RANGES
            kind, flags = range_state(states) if is_range else (int(_KINDS[phase]), FINISHED)
            if phase == "B":
                flags &= ~FINISHED
            more: dict[str, Any] = {}
            if phase in _COUNTERS:
                more = {"arg_names": ("value",), "arg_types": (_COUNTERS[phase],)}
            if is_memory:
                more = {"device_type": _int16(bits >> 16), "device_index": _int16(bits)}
                if place:
                    more["function"] = json.loads(self.store.text(place - 1))
            elif place:
                more["file"], more["function"], line = list(self.places)[place]
                more["line"] = line & 0xFFFFFFFF
            device = DEVICE_CATEGORIES.get(category) if phase == "X" else None
            site = Site(name, category=category, kind=kind, scope=_SCOPES[scope], **more)
            self._site.append(self._rows.site_of(site))
            self._kind.append(kind)
            self._flags.append(flags)
            self._device.append(-1 if device is None else int(device))
            # 2: not a complete event, so no link
            self._launches.append(launches_kernels(category) if phase == "X" else 2)

    def _extend_tracks(self, count: int) -> None:
        for code in range(len(self._track), count):
            key = self.store.track(code)
            self._track.append(self._rows.track_of(key, *key))


def _int16(bits: int) -> int:
    """Return the low 16 bits as a signed number."""
    return ((bits & 0xFFFF) ^ 0x8000) - 0x8000


class BlockColumns:
    """The columns of a scanned block as arrays."""

    def __init__(self, block: _core.ScannedEvents) -> None:
        self.rows = block.rows
        self.start_ns = block.take_start_ns()
        self.end_ns = block.take_end_ns()
        self.site = block.take_site()
        self.track = block.take_track()
        self.args = block.take_args()
        self.flow = block.take_flow()
        self.sparse = block.take_sparse()


def _part(column: tuple[Array, Array], begin: int, end: int) -> tuple[Array, Array]:
    """Return (rows, values) within [begin, end); rows count from `begin`."""
    rows, values = column
    if not len(rows):
        return rows, values
    first, last = np.searchsorted(rows, (begin, end))
    return rows[first:last].astype(np.int64) - begin, values[first:last]
