# SPDX-License-Identifier: Apache-2.0
"""render_html: the rows and columns of render_table as an HTML table, for notebooks."""

from __future__ import annotations

from fastprof.base.html_table import HtmlColumn, html_note, html_table
from fastprof.views.frame import EventFrame
from fastprof.views.render import TableLayout, TableOptions

__all__ = ["more_rows", "render_html"]


def render_html(frame: EventFrame, options: TableOptions) -> str:
    """Return the first rows as a sortable HTML table, with a line that says how many more there are.

    Formats only the rows that are shown; the other rows cost no more than sorting the frame. Any thread.
    """
    if frame.size == 0:
        return "".join(map(html_note, ("no events", *frame.notes)))
    layout = TableLayout(frame, options._replace(max_name_column_width=None))
    rows = layout.printed_rows()
    columns = [HtmlColumn(column.header, column.is_text) for column in layout.columns]
    cells = [[column.cell(row).strip() for column in layout.columns] for row in rows]
    notes = [*layout.footers()]
    if len(rows) < frame.size:
        notes.insert(0, more_rows(len(rows), frame.size, options.sort_by))
    return html_table(columns, cells, notes)


def more_rows(shown: int, size: int, sort_by: str | None) -> str:
    """Return the line about rows that are not shown, with the methods that show them."""
    by = f" by {sort_by}" if sort_by else ""
    return (
        f"first {shown:,} of {size:,} rows{by}; {size - shown:,} more are not shown: "
        "table(row_limit=...), to_pandas() and export_html() have them"
    )
