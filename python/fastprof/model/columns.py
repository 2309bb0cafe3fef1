# SPDX-License-Identifier: Apache-2.0
"""The columns of an EventTable with dtypes, defaults and descriptions, and the types that hold columns."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.cached_property import cached_property
from fastprof.base.device_type import DeviceType

__all__ = [
    "CODED_COLUMNS",
    "COLUMNS",
    "NO_PARENT",
    "NO_PAYLOAD",
    "Array",
    "CodedBySite",
    "CodedColumn",
    "ColumnSpec",
    "EventFlag",
    "EventKind",
    "KernelTable",
    "SparseValues",
    "read_only",
]

Array: TypeAlias = NDArray[Any]


class EventKind(enum.IntEnum):
    """Kind of a row. Values are those of SiteKind in recorder/state/site.hpp."""

    RANGE = 0
    ASYNC_RANGE = 1
    MARK = 2
    COUNTER = 3
    FLOW_BEGIN = 4
    FLOW_END = 5
    MEMORY = 6
    OUT_OF_MEMORY = 7
    SESSION_MEMBERSHIP = 8  # used inside the recorder only; never in a table


class EventFlag(enum.IntFlag):
    """Bits of the flags column. Values are those of event_flag in capture/capture.hpp.

    FINISHED: the end was recorded; else the range was open when the session ended.
    CROSS_THREAD_END: ended on another thread than it began on.
    CLOCK_DISCONTINUITY: the clock jumped between begin and end.
    CLAMPED: the end was before the begin, so the duration was set to 0 ns.
    ENCLOSING: began before the session: a Python call that was on the stack at the start.
    DETAIL: the payload has a detail header after the argument words.
    """

    FINISHED = 1
    CROSS_THREAD_END = 2
    CLOCK_DISCONTINUITY = 4
    CLAMPED = 8
    ENCLOSING = 16
    DETAIL = 32


NO_PAYLOAD = 0xFFFFFFFF
NO_PARENT = -1


class ColumnSpec(NamedTuple):
    """A column: name, dtype, default if absent (None: computed, or required), and description."""

    name: str
    dtype: str
    default: Any
    doc: str


_SPECS = (
    ColumnSpec("start_ns", "int64", None, "begin, Unix time in ns"),
    ColumnSpec("end_ns", "int64", None, "end, Unix time in ns; equals start_ns for instants"),
    ColumnSpec("site", "uint32", None, "index into sites: name, category, file, line, scope"),
    ColumnSpec("track", "uint32", 0, "index into tracks: the thread or task it began on"),
    ColumnSpec("parent", "int32", None, "row of the enclosing range, -1 for none; absent: unknown"),
    ColumnSpec("payload", "uint32", NO_PAYLOAD, "index into payload_words"),
    ColumnSpec("kind", "uint8", int(EventKind.RANGE), "EventKind"),
    ColumnSpec("flags", "uint8", int(EventFlag.FINISHED), "EventFlag bits"),
    ColumnSpec("end_track", "int64", -1, "index into tracks where it ended, -1: where it began"),
    ColumnSpec("id", "int64", None, "identity of the event; absent: the row number"),
    ColumnSpec("sequence_nr", "int64", -1, "autograd sequence number, -1 for none"),
    ColumnSpec(
        "fwd_thread", "int64", -1, "of a backward function: thread of its forward op; -1: none"
    ),
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
    ColumnSpec("cpu_memory_usage", "int64", 0, "bytes allocated minus freed, with children"),
    ColumnSpec("device_memory_usage", "int64", 0, "bytes allocated minus freed, with children"),
    ColumnSpec("flow_id", "int64", 0, "id of the arrow that begins or ends here, 0 for none"),
    ColumnSpec("flow_type", "int32", 0, "kind of that arrow as in PyTorch: 1 forward-backward"),
    ColumnSpec("flow_start", "bool", False, "the arrow begins here, else it ends here"),
    ColumnSpec(
        "external_id", "int64", None, "id of a host event; absent: row number + 1, 0 on devices"
    ),
    ColumnSpec(
        "linked_correlation_id", "int64", 0, "external_id of the event that launched this one"
    ),
    ColumnSpec(
        "record_function_id", "int64", 0, "PyTorch's RecordFunction number (rf_id), 0 for none"
    ),
    ColumnSpec("python_id", "int64", -1, "number of a Python call, -1 for other rows"),
    ColumnSpec("python_parent_id", "int64", -1, "python_id of the caller, -1 for none"),
    ColumnSpec("python_module_id", "int64", -1, "number of the nn.Module called, -1 for none"),
    ColumnSpec("call_line", "uint16", 0, "line of the caller at which a call was made; 0: unknown"),
)
COLUMNS: dict[str, ColumnSpec] = {spec.name: spec for spec in _SPECS}

# Columns of Python objects, each distinct value stored once: codes plus a tuple of values.
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
    "input_storages",
    "list_dtypes",
    "event_metadata",
    "metadata_json",
    "counters",
    "module_hierarchy",
)


@dataclass(frozen=True)
class CodedColumn:
    """A dictionary-encoded column: values[codes[row]], None where the code is -1. Read-only: any thread."""

    codes: Array
    values: Sequence[Any]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: Any) -> Any:
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]

    def take(self, rows: Any) -> CodedColumn:
        """Return the column for a selection of rows; values are shared."""
        return CodedColumn(read_only(self.codes[rows]), self.values)

    def __reduce__(self) -> Any:
        # Subclasses that compute codes or values lazily are pickled as plain columns.
        return CodedColumn, (np.asarray(self.codes), tuple(self.values))

    @classmethod
    def encode(cls, values: Sequence[Any]) -> CodedColumn:
        """Encode plain values; values of equal repr() share one code. None stays None."""
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
        return cls(read_only(codes), tuple(kept))


@dataclass(frozen=True)
class SparseValues:
    """A column in which few rows have a value other than `default`; a table converts it to an array on access.

    rows: row numbers, ascending. values: their values. size: number of rows of the column. Immutable: any thread.
    """

    rows: Array
    values: Array
    size: int
    default: int

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        """Size in bytes in this form."""
        return int(self.rows.nbytes + self.values.nbytes)

    def dense(self, dtype: str) -> Array:
        """Return the column as an array."""
        column = np.full(self.size, self.default, dtype)
        column[self.rows] = self.values
        return column


class CodedBySite(CodedColumn):
    """A coded column whose codes are by_site[site], computed on first access."""

    _site: Array
    _by_site: Array

    def __init__(self, site: Array, by_site: Array, values: Sequence[Any]) -> None:
        for name, value in (("_site", site), ("_by_site", by_site), ("values", tuple(values))):
            object.__setattr__(self, name, value)

    @cached_property
    def codes(self) -> Array:
        """Code of each row, int32."""
        return read_only(self._by_site[self._site])

    def __len__(self) -> int:
        return len(self._site)

    def take(self, rows: Any) -> CodedColumn:
        """Return the column for a selection of rows; values are shared."""
        return CodedBySite(self._site[rows], self._by_site, self.values)


@dataclass(frozen=True)
class KernelTable:
    """Device activities attached to rows, sorted by row; a row may have several. Read-only: any thread."""

    row: Array  # int64: the launching row
    name: Array  # int32: index into names
    device: Array  # int32: device index
    duration_ns: Array  # int64
    names: Sequence[str]

    @classmethod
    def sorted(
        cls, row: Array, name: Array, device: Array, duration_ns: Array, names: Sequence[str]
    ) -> KernelTable:
        """Return the table of activities in any order; those of one row keep theirs."""
        order = np.argsort(row, kind="stable")
        return cls(row[order], name[order], device[order], duration_ns[order], names)

    def __len__(self) -> int:
        return len(self.row)


def read_only(array: Array) -> Array:
    """Return the array if it is read-only, else a read-only view of it."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array
