# SPDX-License-Identifier: Apache-2.0
"""TableColumns: the columns of a text table, the order of its rows, and the text of each cell."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from operator import index
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.device_type import DEVICE_TIME_TYPES, DeviceType
from fastprof.base.formatting import (
    TIME_UNITS,
    flops_scale,
    format_memory,
    format_share,
    format_time,
)
from fastprof.base.text_style import TextStyle
from fastprof.model.blocking_calls import awaited
from fastprof.model.table import CodedColumn
from fastprof.views.frame import METRIC_FIELDS, EventFrame, sequential_sum
from fastprof.views.measures import device_metric_name

__all__ = ["BAR", "SORT_KEYS", "Column", "TableColumns", "TableOptions", "cut_left", "sorted_rows"]

Array: TypeAlias = NDArray[Any]

BAR = "Self CPU bar"
_WIDTH = 12
_CUT_TEXTS = ("src", "name", "shapes")
_SPELLINGS = ("device", "cuda", "xpu", "privateuse1")
SORT_KEYS = (
    "key",
    *dict.fromkeys(
        field.replace("device", spelling)
        for field in METRIC_FIELDS
        for spelling in (_SPELLINGS if "device" in field else ("device",))
    ),
)


class TableOptions(NamedTuple):
    """Arguments of EventList.table; a width of None means no limit, row_limit -1 all rows.

    visible: show control characters and bidi marks of names as symbols, for terminals. style: add colours and a
    column of bars. waits_last: list calls that wait for a thread or for events after all others.
    """

    sort_by: str | None = None
    row_limit: int | None = 100
    max_src_column_width: int | None = 75
    max_name_column_width: int | None = 55
    max_shapes_column_width: int | None = 80
    header: str | None = None
    top_level_events_only: bool = False
    time_unit: str | None = None
    max_stack_lines: int | None = None
    flops_per_s: bool = False
    profile_memory: bool = False
    with_flops: bool = False
    max_width: int | None = None
    visible: bool = False
    style: TextStyle | None = None
    waits_last: bool = False


class Column(NamedTuple):
    """A column. cell: returns the text of a frame row. width: in characters."""

    header: str
    width: int
    cell: Callable[[int], str]
    align: str = ">"
    is_text: bool = False  # the cells may be cut; numbers may not
    field: str = ""  # frame field that the column shows, for sorting


def sorted_rows(frame: EventFrame, sort_by: str | None) -> Array:
    """Return row numbers in list order, or by a field, descending and stable.

    sort_by: one of SORT_KEYS (cuda_, xpu_ and privateuse1_ spellings read the device_ field); None
    for list order. Raises errors.ValueError, listing the keys, for any other value.
    """
    rows = np.arange(frame.size) if frame.order is None else frame.order
    if sort_by is None:
        return rows
    field = device_metric_name(str(sort_by))
    if field in ("key", "name"):
        texts = [str(frame.key[row]) for row in rows.tolist()]
        order = sorted(range(len(rows)), key=lambda i: texts[i], reverse=True)
        return rows[np.array(order, np.int64)]
    if field not in METRIC_FIELDS:
        raise errors.ValueError(f"cannot sort by {sort_by!r}. Valid keys: {', '.join(SORT_KEYS)}.")
    return rows[np.argsort(-frame.metric(field)[rows], kind="stable")]


class TableColumns:
    """The columns and totals of one table.

    rows: row numbers of the frame in printed order. cpu_sum, device_sum: total self times, us. source: index of the
    column "Source Location"; None without one.
    """

    def __init__(self, frame: EventFrame, options: TableOptions) -> None:
        if options.time_unit is not None and options.time_unit not in TIME_UNITS:
            units = ", ".join(TIME_UNITS)
            raise errors.ValueError(f"unknown time_unit {options.time_unit!r}. Use one of {units}.")
        # All row limits below 0 mean all rows.
        for name in ("row_limit", *(f"max_{text}_column_width" for text in _CUT_TEXTS)):
            value: Any = getattr(options, name)
            if value is None:
                continue
            if not isinstance(value, SupportsIndex) or (name != "row_limit" and index(value) < 0):
                raise errors.ValueError(
                    f"invalid {name} {value!r}. Use a whole number from 0 on, or None for no limit."
                )
        self.frame = frame
        self.options = options
        self.rows = sorted_rows(frame, options.sort_by)
        if options.waits_last:
            waits = np.array([bool(awaited(str(frame.key[row]))) for row in self.rows], np.bool_)
            self.rows = self.rows[np.argsort(waits, kind="stable")]
        self.cpu_sum = sequential_sum(frame.self_cpu_time_total[self.rows]) / frame.unit_per_us
        self.source: int | None = None
        device_self = frame.self_device_time_total
        self.has_device_time = device_self is not None and bool((device_self > 0).any())
        if self.has_device_time and not frame.use_device:
            raise errors.StateError(
                "the events have device time but no device type. "
                'Set use_device on the events, for example to "cuda".'
            )
        self.device_sum = self._device_sum() if self.has_device_time else 0
        self.columns = self._columns()

    def self_share(self, row: int) -> float:
        """Return a row's part of the total self CPU time, 0 to 1."""
        own = self.frame.self_cpu_time_total[row].item() / self.frame.unit_per_us
        return own / self.cpu_sum if self.cpu_sum > 0 else 0.0

    def stack_of(self, row: int) -> list[str]:
        """Return the stack entries of a row, innermost first."""
        return list(self.frame.stack[row] or ()) if self.frame.stack is not None else []

    def _columns(self) -> list[Column]:
        frame, options = self.frame, self.options
        cap = options.max_name_column_width
        width = 4 + max(map(len, _used(frame.key)))
        name_width = width if cap is None else min(width, cap)
        columns = [Column("Name", name_width, lambda row: _cut(frame.key[row], cap), is_text=True)]
        overload = frame.overload_name
        if overload is not None and any(_used(overload)):
            columns.append(
                Column(
                    "Overload Name",
                    name_width,
                    lambda row: _cut(overload[row] or "", cap),
                    is_text=True,
                )
            )
        columns += [
            Column("Self CPU %", _WIDTH, self._share("self_cpu_time_total", self.cpu_sum)),
            Column(
                "Self CPU", _WIDTH, self._times("self_cpu_time_total"), field="self_cpu_time_total"
            ),
            Column("CPU total %", _WIDTH, self._total_share()),
            Column("CPU total", _WIDTH, self._times("cpu_time_total"), field="cpu_time_total"),
            Column(
                "CPU time avg",
                _WIDTH,
                self._times("cpu_time_total", average=True),
                field="cpu_time",
            ),
        ]
        style = options.style
        if style is not None:
            bar = Column(BAR, _WIDTH, lambda row: style.bar(self.self_share(row), _WIDTH), "<")
            columns.insert(1, bar)
        columns += self._device_columns()
        columns += self._memory_columns()
        count = frame.metric("count")
        columns.append(Column("# of Calls", _WIDTH, lambda row: str(int(count[row]))))
        if bool((frame.node_id != -1).any()):
            columns.append(Column("Node ID", _WIDTH, lambda row: str(int(frame.node_id[row]))))
        columns += self._shape_columns()
        columns += self._source_columns(len(columns))
        columns += self._flops_columns()
        return columns

    def _device_columns(self) -> list[Column]:
        if not self.has_device_time:
            return []
        device = (self.frame.use_device or "").upper()
        return [
            Column(
                f"Self {device}",
                _WIDTH,
                self._times("self_device_time_total"),
                field="self_device_time_total",
            ),
            Column(
                f"Self {device} %", _WIDTH, self._share("self_device_time_total", self.device_sum)
            ),
            Column(
                f"{device} total",
                _WIDTH,
                self._times("device_time_total"),
                field="device_time_total",
            ),
            Column(
                f"{device} time avg",
                _WIDTH,
                self._times("device_time_total", average=True),
                field="device_time",
            ),
        ]

    def _memory_columns(self) -> list[Column]:
        if not self.options.profile_memory:
            return []
        columns = [
            Column("CPU Mem", _WIDTH, self._memory("cpu_memory_usage"), field="cpu_memory_usage"),
            Column(
                "Self CPU Mem",
                _WIDTH,
                self._memory("self_cpu_memory_usage"),
                field="self_cpu_memory_usage",
            ),
        ]
        used = self.frame.metric("self_device_memory_usage")
        if self.frame.use_device and bool((used > 0).any()):
            device = self.frame.use_device.upper()
            columns += [
                Column(
                    f"{device} Mem",
                    _WIDTH,
                    self._memory("device_memory_usage"),
                    field="device_memory_usage",
                ),
                Column(
                    f"Self {device} Mem",
                    _WIDTH,
                    self._memory("self_device_memory_usage"),
                    field="self_device_memory_usage",
                ),
            ]
        return columns

    def _shape_columns(self) -> list[Column]:
        shapes = self.frame.input_shapes
        if shapes is None or not any(
            value is not None and len(value) > 0 for value in _used(shapes)
        ):
            return []
        width = 4 + max(len(str(value)) for value in _used(shapes))
        cap = self.options.max_shapes_column_width
        width = width if cap is None else min(width, cap)
        return [Column("Input Shapes", width, lambda row: str(shapes[row])[:width], is_text=True)]

    def _source_columns(self, position: int) -> list[Column]:
        stack = self.frame.stack
        stacks = [value for value in _used(stack) if value] if stack is not None else []
        if not stacks:
            return []
        width = 4 + max(map(len, chain.from_iterable(stacks)))
        cap = self.options.max_src_column_width
        width = width if cap is None else min(width, cap)
        self.source = position

        def cell(row: int) -> str:
            entries = self.stack_of(row)
            return cut_left(entries[0], width) if entries else ""

        return [Column("Source Location", width, cell, "<", is_text=True)]

    def _flops_columns(self) -> list[Column]:
        columns = []
        wanted = [("Total ", "", "flops")] if self.options.with_flops else []
        if self.options.flops_per_s:
            wanted.append(("", "/s", "flops_per_s"))
        for before, after, field in wanted:
            values = self.frame.metric(field)
            positive = values[values > 0]
            if not len(positive):
                continue
            scale, unit = flops_scale(float(positive.min()))
            columns.append(Column(f"{before}{unit}{after}", _WIDTH, _scaled(values, scale)))
        return columns

    # ---- cells ---------------------------------------------------------------------------------

    def time_text(self, time_us: float) -> str:
        return format_time(time_us, self.options.time_unit)

    def _times(self, field: str, average: bool = False) -> Callable[[int], str]:
        values = self.frame.metric(field)
        count = self.frame.metric("count")
        unit = self.frame.unit_per_us
        if not average:
            return lambda row: self.time_text(values[row].item() / unit)

        def cell(row: int) -> str:
            calls = int(count[row])
            return self.time_text(values[row].item() / unit / calls if calls else 0.0)

        return cell

    def _share(self, field: str, whole_us: float) -> Callable[[int], str]:
        values = self.frame.metric(field)
        unit = self.frame.unit_per_us
        return lambda row: format_share(values[row].item() / unit, whole_us)

    def _total_share(self) -> Callable[[int], str]:
        share = self._share("cpu_time_total", self.cpu_sum)
        return lambda row: "0" if self.frame.is_async[row] else share(row)

    def _memory(self, field: str) -> Callable[[int], str]:
        values = self.frame.metric(field)
        return lambda row: format_memory(int(values[row]))

    def _device_sum(self) -> float:
        """Return the total self device time: of legacy CPU rows and device activities.

        CPU rows with kernels are left out, because their kernels have rows of their own; so are
        annotations, which only span other activities.
        """
        frame = self.frame
        on_device = np.isin(frame.device_type, [int(t) for t in DEVICE_TIME_TYPES])
        counted = on_device & ~np.asarray(frame.is_user_annotation, np.bool_)
        legacy = np.asarray(frame.is_legacy, np.bool_)
        counted |= (frame.device_type == DeviceType.CPU) & legacy
        rows = self.rows
        device_self = frame.metric("self_device_time_total")[rows][counted[rows]]
        return float(sequential_sum(device_self)) / frame.unit_per_us


def _scaled(values: Array, scale: float) -> Callable[[int], str]:
    return lambda row: f"{values[row].item() * scale:8.3f}" if values[row] > 0 else "--"


def _used(column: CodedColumn) -> list[Any]:
    """Return the values that occur in a column, None included."""
    codes = column.codes
    if len(codes) and codes.strides == (0,):
        codes = codes[:1]
    counts = np.bincount(codes.astype(np.int64) + 1, minlength=len(column.values) + 1)
    values = [column.values[i] for i in np.flatnonzero(counts[1:]).tolist()]
    return [*values, None] if counts[0] else values


def _cut(text: str, cap: int | None) -> str:
    return text if cap is None or len(text) < cap - 3 else text[: cap - 3] + "..."


def cut_left(text: str, width: int) -> str:
    """Return the text, or its end after "...", at most `width` characters long."""
    if len(text) <= width:
        return text
    text = text[len(text) - width :]
    return "..." + text[3:] if len(text) > 3 else text
