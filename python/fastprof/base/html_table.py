# SPDX-License-Identifier: Apache-2.0
"""html_table: a sortable table as a piece of HTML, for notebooks.

A click on a header sorts the rows; without scripts (an untrusted notebook, a static page) it is a plain table. Cells
show their text literally: HTML is escaped, control characters and bidi marks are shown as symbols, long texts are cut,
and cells are isolated, so that right-to-left names do not move their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fastprof.base.visible_text import shortened, visible_text

__all__ = ["MAX_CELL_CHARS", "HtmlColumn", "html_note", "html_table"]

MAX_CELL_CHARS = 300


class HtmlColumn(NamedTuple):
    """A column. is_text: align left and sort as text; else sort as numbers with units ("1.5ms", "3 KB", "40%")."""

    header: str
    is_text: bool = False


_STYLE = (
    ".fastprof-table{border-collapse:collapse;font-size:12px;font-variant-numeric:tabular-nums}"
    ".fastprof-table td,.fastprof-table th{padding:2px 8px;text-align:right;white-space:nowrap;unicode-bidi:isolate}"
    ".fastprof-table .text{text-align:left;max-width:60ch;overflow:hidden;text-overflow:ellipsis}"
    ".fastprof-table th{cursor:pointer;border-bottom:1px solid}"
    ".fastprof-table th[aria-sort=ascending]::after{content:' \\25B2'}"
    ".fastprof-table th[aria-sort=descending]::after{content:' \\25BC'}"
)

# Stable sort by the numbers in the cells; the first click sorts numbers descending and texts ascending.
# The script adds sorting to every table of the page that lacks it, so that a table needs no id.
_SCRIPT = """document.querySelectorAll("table.fastprof-table:not([data-sorts])").forEach((table) => {
  table.dataset.sorts = "";
  const scale = {ns: 1e-3, us: 1, ms: 1e3, s: 1e6, B: 1, KB: 1024, MB: 1048576, GB: 1073741824};
  const number = (text) => {
    const parts = /^\\s*(-?[0-9.]+)\\s*([A-Za-z]*)/.exec(text);
    return parts ? Number(parts[1]) * (scale[parts[2]] || 1) : -Infinity;
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const sort = () => {
      const text = head.classList.contains("text");
      const last = head.getAttribute("aria-sort");
      const down = last ? last === "ascending" : !text;
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [row.cells[column].textContent, row]);
      if (!text) rows.forEach((pair) => { pair[0] = number(pair[0]); });
      rows.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (down ? -1 : 1));
      body.append(...rows.map((pair) => pair[1]));
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    };
    head.tabIndex = 0;
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
});"""


def html_table(
    columns: Sequence[HtmlColumn], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()
) -> str:
    """Return the table as HTML.

    rows: the texts of each row's cells, one per column; a number that ends in "%" gets a bar in its cell.
    notes: lines of text below the table. Any thread.
    """
    head = "".join(
        f'<th scope="col"{_class_of(column)}>{_escaped(column.header)}</th>' for column in columns
    )
    body = "".join(
        "<tr>"
        + "".join(_cell(column, text) for column, text in zip(columns, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="fastprof"><style>{_STYLE}</style>'
        f'<table class="fastprof-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"{''.join(map(html_note, notes))}<script>{_SCRIPT}</script></div>"
    )


def html_note(text: str) -> str:
    """Return a line of text as a paragraph."""
    return f"<p>{_escaped(text)}</p>"


def _cell(column: HtmlColumn, text: str) -> str:
    if column.is_text:
        return f'<td class="text"><bdi>{_escaped(text)}</bdi></td>'
    return f"<td{_bar(text)}>{_escaped(text)}</td>"


def _bar(text: str) -> str:
    """Return a style attribute that shades the cell in proportion to its percentage; "" for other texts."""
    try:
        percent = float(text[:-1]) if text.endswith("%") else 0.0
    except ValueError:
        return ""
    if not percent > 0:
        return ""
    end = f"{min(percent, 100):.1f}%"
    shade = f"linear-gradient(90deg,rgba(80,140,255,.3) {end},transparent {end})"
    return f' style="background:{shade}"'


def _class_of(column: HtmlColumn) -> str:
    return ' class="text"' if column.is_text else ""


def _escaped(text: str) -> str:
    # html.escape without its module, which is slow to load.
    text = visible_text(shortened(str(text), MAX_CELL_CHARS))
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(character, entity)
    return text.replace("'", "&#x27;")
