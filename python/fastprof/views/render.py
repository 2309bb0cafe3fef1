# SPDX-License-Identifier: Apache-2.0
"""Render an EventFrame as a text table; for the same numbers, the text of PyTorch 2.13.

Only printed rows are formatted, and rows are not modified. Differences from PyTorch
(docs/differences.md): FLOPs and source location have headers of their own when both are shown, shares
of a zero total print "NaN", and footer lines report unfinished and dropped events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

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
from fastprof.base.text_style import TextStyle, cut_to_width, share_role, text_width
from fastprof.base.visible_text import visible_text
from fastprof.model.table import CodedColumn
from fastprof.views.frame import METRIC_FIELDS, EventFrame, sequential_sum
from fastprof.views.measures import device_metric_name
from fastprof.views.table_fit import FitColumn, fit_columns

__all__ = ["SORT_KEYS", "TableLayout", "TableOptions", "render_table", "sorted_rows"]

Array: TypeAlias = NDArray[Any]

_WIDTH = 12
_BAR = "Self CPU bar"
_BY_SHARE = ("Name", "Self CPU %", "Self CPU")  # columns whose colour says the share
_GAP = "  "
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

    visible: control characters and bidi marks of names appear as symbols, for terminals. style: colours, and
    a column of bars.
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


class _Column(NamedTuple):
    header: str
    width: int
    cell: Callable[[int], str]
    align: str = ">"
    is_text: bool = False  # the cells may be cut; numbers may not
    field: str = ""  # frame field that the column shows, for sorting


def render_table(frame: EventFrame, options: TableOptions) -> str:
    """Return the table as text, ending in a newline; "" without rows."""
    if frame.size == 0:
        return ""
    layout = TableLayout(_visible_frame(frame) if options.visible else frame, options)
    left_out = layout.fit(options.max_width) if options.max_width is not None else []
    lines: list[str] = []
    ruler = "".join("-" * column.width + _GAP for column in layout.columns)
    full_line = "=" * (len(ruler) - len(_GAP))
    if options.header is not None:
        lines += [full_line, options.header]
    if options.top_level_events_only:
        lines += [full_line, "This report only display top-level ops statistics"]
    lines += [ruler, *layout.header_lines(), ruler]
    for row in layout.printed_rows():
        lines.append(layout.row_line(row))
        if layout.source is not None:
            entries = layout.stack_of(row)[1:]
            if options.max_stack_lines is not None:
                entries = entries[: max(options.max_stack_lines - 1, 0)]
            lines.extend(layout.source_line(entry) for entry in entries)
            lines.append(layout.source_line(""))
    lines.append(ruler)
    lines += layout.footers()
    if left_out:
        lines.append(f"Left out for want of width: {', '.join(left_out)}")
    if options.max_width is not None:
        lines = [line.rstrip() for line in lines]
    return "\n".join(lines) + "\n"


def sorted_rows(frame: EventFrame, sort_by: str | None) -> Array:
    """Return row numbers in list order, or by a field, descending and stable.

    sort_by: one of SORT_KEYS (cuda_, xpu_ and privateuse1_ spellings read the device_ field); None
    for list order. Raises errors.ValueError, listing the keys, for any other value.
    """
    rows = np.arange(frame.size) if frame.order is None else frame.order
    if sort_by is None:
        return rows
    field = device_metric_name(sort_by)
    if field in ("key", "name"):
        texts = [str(frame.key[row]) for row in rows.tolist()]
        order = sorted(range(len(rows)), key=lambda i: texts[i], reverse=True)
        return rows[np.array(order, np.int64)]
    if field not in METRIC_FIELDS:
        raise errors.ValueError(f"cannot sort by {sort_by!r}. Valid keys: {', '.join(SORT_KEYS)}.")
    return rows[np.argsort(-frame.metric(field)[rows], kind="stable")]


class TableLayout:
    """Columns, widths and totals of one table."""

    def __init__(self, frame: EventFrame, options: TableOptions) -> None:
        if options.time_unit is not None and options.time_unit not in TIME_UNITS:
            units = ", ".join(TIME_UNITS)
            raise errors.ValueError(f"unknown time_unit {options.time_unit!r}. Use one of {units}.")
        self.frame = frame
        self.options = options
        self.rows = sorted_rows(frame, options.sort_by)
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
        self.headers: list[tuple[str, ...]] = [(column.header,) for column in self.columns]

    def fit(self, max_width: int) -> list[str]:
        """Limit the table to `max_width` characters per line; return the headers of columns left out."""
        if sum(column.width + len(_GAP) for column in self.columns) - len(_GAP) <= max_width:
            return []
        rows = self.printed_rows()
        sort_field = device_metric_name(self.options.sort_by or "")
        measured = []
        for index, column in enumerate(self.columns):
            cells = [len(column.cell(row)) for row in rows]
            if index == self.source:
                cells += [min(len(e), column.width) for row in rows for e in self.stack_of(row)]
            stays = column.header in ("Name", "# of Calls")
            stays |= column.field != "" and column.field == sort_field
            measured.append(FitColumn(column.header, max(cells, default=0), column.is_text, stays))
        fitted = fit_columns(measured, max_width)
        left_out = {column.header for column in self.columns}
        chosen = []
        for index, width, _ in fitted:
            column = self.columns[index]
            left_out.discard(column.header)
            cut = _cut_left if index == self.source else _cut_right
            if column.is_text:
                column = column._replace(cell=_cut_cell(column.cell, cut, width))
            chosen.append(column._replace(width=width))
        kept = [column.column for column in fitted]
        self.source = kept.index(self.source) if self.source in kept else None
        gone = [c.header for c in self.columns if c.header in left_out and c.header != _BAR]
        self.columns, self.headers = chosen, [column.header for column in fitted]
        return gone

    def header_lines(self) -> list[str]:
        """Return the header lines: one, unless fit() wrapped headers; aligned to the bottom."""
        height = max(map(len, self.headers))
        padded = [("",) * (height - len(header)) + header for header in self.headers]
        lines = [self.line(words) for words in zip(*padded, strict=True)]
        style = self.options.style
        return lines if style is None else [style.paint(line.rstrip(), "head") for line in lines]

    # ---- rows and lines ------------------------------------------------------------------------

    def printed_rows(self) -> list[int]:
        rows = self.rows
        if self.options.top_level_events_only:
            rows = rows[~self.frame.has_parent[rows]]
        limit = self.options.row_limit
        if limit is not None and limit >= 0:
            rows = rows[:limit]
        return rows.tolist()  # type: ignore[no-any-return]

    def line(self, cells: Any) -> str:
        return "".join(
            f"{cell:{column.align}{column.width}}{_GAP}"
            for column, cell in zip(self.columns, cells, strict=True)
        )

    def row_line(self, row: int) -> str:
        """Return the line of a row, coloured by its share of the self time if there is a style."""
        style = self.options.style
        if style is None:
            return self.line(column.cell(row) for column in self.columns)
        role = share_role(self._self_share(row))
        return "".join(
            style.paint(
                _aligned(column, column.cell(row)),
                "bar" if column.header == _BAR else role if column.header in _BY_SHARE else "",
            )
            + _GAP
            for column in self.columns
        )

    def _self_share(self, row: int) -> float:
        own = self.frame.self_cpu_time_total[row].item() / self.frame.unit_per_us
        return own / self.cpu_sum if self.cpu_sum > 0 else 0.0

    def source_line(self, entry: str) -> str:
        cells = [""] * len(self.columns)
        if self.source is not None:
            cells[self.source] = _cut_left(entry, self.columns[self.source].width)
        return self.line(cells)

    def stack_of(self, row: int) -> list[str]:
        return list(self.frame.stack[row] or ()) if self.frame.stack is not None else []

    def footers(self) -> list[str]:
        lines = [f"Self CPU time total: {self._text(self.cpu_sum)}"]
        if self.has_device_time:
            device = (self.frame.use_device or "").upper()
            lines.append(f"Self {device} time total: {self._text(self.device_sum)}")
        return [*lines, *self.frame.notes]

    # ---- columns -------------------------------------------------------------------------------

    def _columns(self) -> list[_Column]:
        frame, options = self.frame, self.options
        cap = options.max_name_column_width
        width = 4 + max(map(len, _used(frame.key)))
        name_width = width if cap is None else min(width, cap)
        columns = [_Column("Name", name_width, lambda row: _cut(frame.key[row], cap), is_text=True)]
        overload = frame.overload_name
        if overload is not None and any(_used(overload)):
            columns.append(
                _Column(
                    "Overload Name",
                    name_width,
                    lambda row: _cut(overload[row] or "", cap),
                    is_text=True,
                )
            )
        columns += [
            _Column("Self CPU %", _WIDTH, self._share("self_cpu_time_total", self.cpu_sum)),
            _Column(
                "Self CPU", _WIDTH, self._times("self_cpu_time_total"), field="self_cpu_time_total"
            ),
            _Column("CPU total %", _WIDTH, self._total_share()),
            _Column("CPU total", _WIDTH, self._times("cpu_time_total"), field="cpu_time_total"),
            _Column(
                "CPU time avg",
                _WIDTH,
                self._times("cpu_time_total", average=True),
                field="cpu_time",
            ),
        ]
        style = options.style
        if style is not None:
            bar = _Column(_BAR, _WIDTH, lambda row: style.bar(self._self_share(row), _WIDTH), "<")
            columns.insert(1, bar)
        columns += self._device_columns()
        columns += self._memory_columns()
        count = frame.metric("count")
        columns.append(_Column("# of Calls", _WIDTH, lambda row: str(int(count[row]))))
        if bool((frame.node_id != -1).any()):
            columns.append(_Column("Node ID", _WIDTH, lambda row: str(int(frame.node_id[row]))))
        columns += self._shape_columns()
        columns += self._source_columns(len(columns))
        columns += self._flops_columns()
        return columns

    def _device_columns(self) -> list[_Column]:
        if not self.has_device_time:
            return []
        device = (self.frame.use_device or "").upper()
        return [
            _Column(
                f"Self {device}",
                _WIDTH,
                self._times("self_device_time_total"),
                field="self_device_time_total",
            ),
            _Column(
                f"Self {device} %", _WIDTH, self._share("self_device_time_total", self.device_sum)
            ),
            _Column(
                f"{device} total",
                _WIDTH,
                self._times("device_time_total"),
                field="device_time_total",
            ),
            _Column(
                f"{device} time avg",
                _WIDTH,
                self._times("device_time_total", average=True),
                field="device_time",
            ),
        ]

    def _memory_columns(self) -> list[_Column]:
        if not self.options.profile_memory:
            return []
        columns = [
            _Column("CPU Mem", _WIDTH, self._memory("cpu_memory_usage"), field="cpu_memory_usage"),
            _Column(
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
                _Column(
                    f"{device} Mem",
                    _WIDTH,
                    self._memory("device_memory_usage"),
                    field="device_memory_usage",
                ),
                _Column(
                    f"Self {device} Mem",
                    _WIDTH,
                    self._memory("self_device_memory_usage"),
                    field="self_device_memory_usage",
                ),
            ]
        return columns

    def _shape_columns(self) -> list[_Column]:
        shapes = self.frame.input_shapes
        if shapes is None or not any(
            value is not None and len(value) > 0 for value in _used(shapes)
        ):
            return []
        width = 4 + max(len(str(value)) for value in _used(shapes))
        cap = self.options.max_shapes_column_width
        width = width if cap is None else min(width, cap)
        return [_Column("Input Shapes", width, lambda row: str(shapes[row])[:width], is_text=True)]

    def _source_columns(self, position: int) -> list[_Column]:
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
            return _cut_left(entries[0], width) if entries else ""

        return [_Column("Source Location", width, cell, "<", is_text=True)]

    def _flops_columns(self) -> list[_Column]:
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
            columns.append(_Column(f"{before}{unit}{after}", _WIDTH, _scaled(values, scale)))
        return columns

    # ---- cells ---------------------------------------------------------------------------------

    def _text(self, time_us: float) -> str:
        return format_time(time_us, self.options.time_unit)

    def _times(self, field: str, average: bool = False) -> Callable[[int], str]:
        values = self.frame.metric(field)
        count = self.frame.metric("count")
        unit = self.frame.unit_per_us
        if not average:
            return lambda row: self._text(values[row].item() / unit)

        def cell(row: int) -> str:
            calls = int(count[row])
            return self._text(values[row].item() / unit / calls if calls else 0.0)

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


def _visible_frame(frame: EventFrame) -> EventFrame:
    """Return the frame with visible_text() of its texts."""

    def visible(column: CodedColumn | None) -> CodedColumn | None:
        return column and CodedColumn(column.codes, [_visible_value(v) for v in column.values])

    return replace(
        frame,
        key=CodedColumn(frame.key.codes, [visible_text(str(v)) for v in frame.key.values]),
        overload_name=visible(frame.overload_name),
        input_shapes=visible(frame.input_shapes),
        stack=visible(frame.stack),
    )


def _visible_value(value: Any) -> Any:
    if isinstance(value, str):
        return visible_text(value)
    return [_visible_value(part) for part in value] if isinstance(value, (list, tuple)) else value


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


def _aligned(column: _Column, text: str) -> str:
    """Return a cell as wide as its column in a terminal, where some characters take two columns."""
    if text.isascii():
        return f"{text:{column.align}{column.width}}"
    text = cut_to_width(text, column.width).rstrip()
    blank = " " * (column.width - text_width(text))
    return text + blank if column.align == "<" else blank + text


def _cut(text: str, cap: int | None) -> str:
    return text if cap is None or len(text) < cap - 3 else text[: cap - 3] + "..."


def _cut_right(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."[:width]


def _cut_cell(
    cell: Callable[[int], str], cut: Callable[[str, int], str], width: int
) -> Callable[[int], str]:
    return lambda row: cut(cell(row), width)


def _cut_left(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    text = text[len(text) - width :]
    return "..." + text[3:] if len(text) > 3 else text
