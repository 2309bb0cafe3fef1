# SPDX-License-Identifier: Apache-2.0
"""table_html and table_text: the first rows of an EventTable, for notebooks and IPython's shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastprof.base.formatting import format_time
from fastprof.base.html_table import HtmlColumn, html_note, html_table
from fastprof.base.text_style import cut_to_width, text_width
from fastprof.base.visible_text import visible_text
from fastprof.model.columns import EventKind

if TYPE_CHECKING:
    from fastprof.model.table import EventTable

__all__ = ["MAX_ROWS", "table_html", "table_text"]

MAX_ROWS = 100
_TEXT_ROWS = 30
_TEXT_WIDTH = 50  # of a cell
# Not shown as they are: shown in a readable form, or meaningless to a reader.
_NOT_LISTED = ("start_ns", "end_ns", "site", "track", "kind", "flags", "payload", "parent", "id")


def table_html(table: EventTable, limit: int = MAX_ROWS) -> str:
    """Return the first `limit` rows as HTML: name, begin since t0, duration, track, and the other given columns."""
    size = len(table)
    title = f"EventTable: {size:,} rows, {len(table.sites):,} sites, {len(table.tracks):,} tracks"
    if size == 0:
        return html_note(title)
    shown = table[:limit]
    columns = _first_columns(shown, table.t0_ns)
    for name in shown.column_names:
        if name in _NOT_LISTED:
            continue
        if name in shown.coded:
            values = [shown.coded[name][row] for row in range(len(shown))]
            columns.append((HtmlColumn(name, True), ["" if v is None else str(v) for v in values]))
        else:
            values = shown.column(name).tolist()
            columns.append((HtmlColumn(name), [str(value) for value in values]))
    notes = [title]
    if len(shown) < size:
        notes.append(f"first {len(shown):,} rows; {size - len(shown):,} more are not shown")
    notes += [f"dropped: {cause} {count:,}" for cause, count in table.dropped.items()]
    cells = zip(*(texts for _, texts in columns), strict=True)
    return html_table([column for column, _ in columns], cells, notes)


def table_text(table: EventTable, limit: int = _TEXT_ROWS) -> str:
    """Return repr(), which names all columns, and the first `limit` rows as text, without the further columns."""
    size = len(table)
    if size == 0:
        return repr(table)
    parts = []
    for column, texts in _first_columns(table[:limit], table.t0_ns):
        cells = [visible_text(text) for text in (column.header, *texts)]
        width = min(max(map(text_width, cells)), _TEXT_WIDTH)
        cells = [cut_to_width(cell, width) for cell in cells]
        parts.append(cells if column.is_text else [cell.rstrip().rjust(width) for cell in cells])
    lines = [repr(table), *("  ".join(row).rstrip() for row in zip(*parts, strict=True))]
    if size > limit:
        lines.append(f"{size - limit:,} more rows: print(table.events().table(row_limit=...))")
    return "\n".join(lines)


def _first_columns(shown: EventTable, t0_ns: int) -> list[tuple[HtmlColumn, list[str]]]:
    """Return the columns that every table has, with the texts of their cells."""
    names = {track.id: track.name for track in shown.tracks}
    threads = [names.get(number) or str(number) for number in shown.thread.tolist()]
    start = ((shown.start_ns - t0_ns) / 1e3).tolist()
    duration = (shown.duration_ns / 1e3).tolist()
    columns = [
        (HtmlColumn("row"), [str(row) for row in range(len(shown))]),
        (HtmlColumn("name", True), [shown.name(row) for row in range(len(shown))]),
        (HtmlColumn("begin"), [format_time(time) for time in start]),
        (HtmlColumn("duration"), [format_time(time) for time in duration]),
        (HtmlColumn("track", True), threads),
    ]
    if shown.has("kind"):
        kinds = [_kind_name(kind) for kind in shown.column("kind").tolist()]
        columns.append((HtmlColumn("kind", True), kinds))
    return columns


def _kind_name(kind: int) -> str:
    try:
        return EventKind(kind).name.lower()
    except ValueError:
        return str(kind)
