# SPDX-License-Identifier: Apache-2.0
"""render_table: an EventFrame as a text table; for the same numbers, the text is PyTorch 2.13's.

Only printed rows are formatted, and rows are not modified. Differences from PyTorch
(docs/differences.md): FLOPs and source location have headers of their own when both are shown, shares
of a zero total print "NaN", and footer lines report unfinished and dropped events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from numpy.typing import NDArray

from fastprof.base.short_paths import shorten_paths
from fastprof.base.text_style import cut_to_width, share_role, text_width
from fastprof.base.visible_text import visible_text
from fastprof.model.table import CodedColumn
from fastprof.views.frame import EventFrame
from fastprof.views.measures import device_metric_name
from fastprof.views.table_columns import (
    BAR,
    SORT_KEYS,
    Column,
    TableColumns,
    TableOptions,
    cut_left,
    sorted_rows,
)
from fastprof.views.table_fit import FitColumn, fit_columns

__all__ = ["SORT_KEYS", "TableLayout", "TableOptions", "render_table", "sorted_rows"]

Array: TypeAlias = NDArray[Any]

_BY_SHARE = ("Name", "Self CPU %", "Self CPU")  # columns coloured by the row's share of self time
_GAP = "  "


def render_table(frame: EventFrame, options: TableOptions) -> str:
    """Return the table as text, ending in a newline; "" without rows. Any thread."""
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
        lines.append(f"Not shown: {', '.join(left_out)}")
    if options.max_width is not None:
        lines = [line.rstrip() for line in lines]
    return "\n".join(lines) + "\n"


class TableLayout(TableColumns):
    """The lines of one table: column widths, header, rows and footers."""

    def __init__(self, frame: EventFrame, options: TableOptions) -> None:
        super().__init__(frame, options)
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
            cut = cut_left if index == self.source else _cut_middle
            if column.is_text:
                column = column._replace(cell=_cut_cell(column.cell, cut, width))
            chosen.append(column._replace(width=width))
        kept = [column.column for column in fitted]
        self.source = kept.index(self.source) if self.source in kept else None
        gone = [c.header for c in self.columns if c.header in left_out and c.header != BAR]
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
        """Return the frame rows to print, in order."""
        rows = self.rows
        if self.options.top_level_events_only:
            rows = rows[~self.frame.has_parent[rows]]
        limit = self.options.row_limit
        if limit is not None and limit >= 0:
            rows = rows[:limit]
        return rows.tolist()  # type: ignore[no-any-return]

    def line(self, cells: Any) -> str:
        """Return a line with one text per column, aligned."""
        return "".join(
            f"{cell:{column.align}{column.width}}{_GAP}"
            for column, cell in zip(self.columns, cells, strict=True)
        )

    def row_line(self, row: int) -> str:
        """Return the line of a row, coloured by its share of the self time if there is a style."""
        style = self.options.style
        if style is None:
            return self.line(column.cell(row) for column in self.columns)
        role = share_role(self.self_share(row))
        return "".join(
            style.paint(
                _aligned(column, column.cell(row)),
                "bar" if column.header == BAR else role if column.header in _BY_SHARE else "",
            )
            + _GAP
            for column in self.columns
        )

    def source_line(self, entry: str) -> str:
        """Return a line that has only a further stack entry, in the column "Source Location"."""
        cells = [""] * len(self.columns)
        if self.source is not None:
            cells[self.source] = cut_left(entry, self.columns[self.source].width)
        return self.line(cells)

    def footers(self) -> list[str]:
        """Return the lines below the table: total self times and the frame's notes."""
        lines = [f"Self CPU time total: {self.time_text(self.cpu_sum)}"]
        if self.has_device_time:
            device = (self.frame.use_device or "").upper()
            lines.append(f"Self {device} time total: {self.time_text(self.device_sum)}")
        return [*lines, *self.frame.notes]


def _visible_frame(frame: EventFrame) -> EventFrame:
    """Return the frame with visible_text() of its texts."""

    def visible(column: CodedColumn | None) -> CodedColumn | None:
        return column and CodedColumn(column.codes, [_visible_value(v) for v in column.values])

    return replace(
        frame,
        key=CodedColumn(
            frame.key.codes, [shorten_paths(visible_text(str(v))) for v in frame.key.values]
        ),
        overload_name=visible(frame.overload_name),
        input_shapes=visible(frame.input_shapes),
        stack=visible(frame.stack),
    )


def _visible_value(value: Any) -> Any:
    if isinstance(value, str):
        return visible_text(value)
    return [_visible_value(part) for part in value] if isinstance(value, (list, tuple)) else value


def _aligned(column: Column, text: str) -> str:
    """Return a cell padded to its column's width in a terminal, where some characters take two columns."""
    if text.isascii():
        return f"{text:{column.align}{column.width}}"
    text = cut_to_width(text, column.width).rstrip()
    blank = " " * (column.width - text_width(text))
    return text + blank if column.align == "<" else blank + text


def _cut_middle(text: str, width: int) -> str:
    return text if len(text) <= width else cut_to_width(text, width).rstrip()


def _cut_cell(
    cell: Callable[[int], str], cut: Callable[[str, int], str], width: int
) -> Callable[[int], str]:
    return lambda row: cut(cell(row), width)
