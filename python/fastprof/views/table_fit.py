# SPDX-License-Identifier: Apache-2.0
"""Column widths of a text table that must not be wider than a terminal.

Numbers are never cut. What is done, in this order, until the table fits: headers are broken over
lines and columns made as narrow as their cells; texts (names, shapes, source locations) are cut;
columns are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["FitColumn", "FittedColumn", "fit_columns", "wrap_header"]

_GAP = 2
_MIN_TEXT_WIDTH = 16
# Left out first to last; then from the right. A name, the sort key and the calls always stay.
_LEAVE_OUT = ("Overload Name", "Node ID", "CPU total %", "Self CPU %", "CPU time avg")


class FitColumn(NamedTuple):
    """A column: its header, the longest of its cells, whether they may be cut, whether it stays."""

    header: str
    cell_width: int
    is_text: bool
    stays: bool


class FittedColumn(NamedTuple):
    """A column of the fitted table: its number among those given, its width, its header's lines."""

    column: int
    width: int
    header: tuple[str, ...]


def wrap_header(header: str, width: int) -> tuple[str, ...]:
    """The words of a header over as many lines as they take; no word is cut."""
    lines: list[str] = []
    for word in header.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return tuple(lines)


def fit_columns(columns: Sequence[FitColumn], max_width: int) -> list[FittedColumn]:
    """The columns to print and their widths, in order; as narrow as the rules above allow.

    A terminal that is too narrow for the columns that stay gets them anyway.
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
        cuttable = [i for i in texts if widths[i] > _MIN_TEXT_WIDTH]
        if not cuttable:
            break
        # The widest gives first, down to the next one, so that none is cut more than it must be.
        widest = max(cuttable, key=lambda i: widths[i])
        others = [widths[i] for i in cuttable if i != widest]
        floor = max([_MIN_TEXT_WIDTH, *(w for w in others if w < widths[widest])])
        given = max(min(excess, widths[widest] - floor), 1)
        widths[widest] -= given
        excess -= given
    return widths


def _next_to_leave_out(columns: Sequence[FitColumn], kept: Sequence[int]) -> int | None:
    free = [i for i in kept if not columns[i].stays]
    if len(kept) <= 1 or not free:
        return None
    for header in _LEAVE_OUT:
        for index in free:
            if columns[index].header == header:
                return index
    return free[-1]
