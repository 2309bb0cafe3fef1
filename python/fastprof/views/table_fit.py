# SPDX-License-Identifier: Apache-2.0
"""Column widths of a text table that must fit into a terminal.

Numbers are never cut. Steps, until the table fits: wrap headers and make columns as narrow as their
cells; cut texts (names, shapes, source locations); leave columns out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["FitColumn", "FittedColumn", "fit_columns", "wrap_header"]

_GAP = 2
_MIN_TEXT_WIDTH = 16
_MIN_NAME_WIDTH = 24
# Columns are left out in this order, then from the right. Name, sort key and number of calls always stay.
_LEAVE_OUT = (
    "Self CPU bar",
    "Overload Name",
    "Node ID",
    "CPU total %",
    "Self CPU %",
    "CPU time avg",
)


class FitColumn(NamedTuple):
    """A column: header, length of its longest cell, whether cells may be cut, whether it must stay."""

    header: str
    cell_width: int
    is_text: bool
    stays: bool


class FittedColumn(NamedTuple):
    """A column of the fitted table: its index in the input, its width, the lines of its header."""

    column: int
    width: int
    header: tuple[str, ...]


def wrap_header(header: str, width: int) -> tuple[str, ...]:
    """Return the words of a header, wrapped to lines of `width`; words are never cut."""
    lines: list[str] = []
    for word in header.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return tuple(lines)


def fit_columns(columns: Sequence[FitColumn], max_width: int) -> list[FittedColumn]:
    """Return the columns to print and their widths, in order, reduced by the steps above as needed.

    Columns that must stay are returned even if they are wider than max_width.
    """
    kept = list(range(len(columns)))
    while True:
        widths = _widths([columns[i] for i in kept], max_width)
        if sum(widths) + _GAP * (len(kept) - 1) <= max_width:
            break
        gone = _next_to_leave_out(columns, kept)
        if gone is None:
            break
        kept.remove(gone)
    return [
        FittedColumn(index, width, wrap_header(columns[index].header, width))
        for index, width in zip(kept, widths, strict=True)
    ]


def _widths(columns: Sequence[FitColumn], max_width: int) -> list[int]:
    widths = [
        max(column.cell_width, *(len(word) for word in column.header.split())) for column in columns
    ]
    texts = [i for i, column in enumerate(columns) if column.is_text]
    excess = sum(widths) + _GAP * (len(widths) - 1) - max_width
    while excess > 0:
        cuttable = [i for i in texts if widths[i] > _least(columns[i])]
        if not cuttable:
            break
        # Shrink the widest down to the next one, so that no text is cut more than necessary.
        widest = max(cuttable, key=lambda i: widths[i])
        others = [widths[i] for i in cuttable if i != widest]
        floor = max([_least(columns[widest]), *others])
        given = max(min(excess, widths[widest] - floor), 1)
        widths[widest] -= given
        excess -= given
    return widths


def _least(column: FitColumn) -> int:
    return _MIN_NAME_WIDTH if column.header == "Name" else _MIN_TEXT_WIDTH


def _next_to_leave_out(columns: Sequence[FitColumn], kept: Sequence[int]) -> int | None:
    free = [i for i in kept if not columns[i].stays]
    if len(kept) <= 1 or not free:
        return None
    for header in _LEAVE_OUT:
        for index in free:
            if columns[index].header == header:
                return index
    return free[-1]
