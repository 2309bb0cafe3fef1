# SPDX-License-Identifier: Apache-2.0
"""Text of aggregates: the table of one, and that of a comparison of two."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import counted, first_rows, format_share, format_time, suggestion
from fastprof.base.text_style import cut_to_width, text_width
from fastprof.model.aggregate_comparison import SIGNIFICANT_P, Comparison
from fastprof.model.aggregates import Aggregates

__all__ = ["SORT_KEYS", "aggregate_notes", "aggregate_rows", "aggregate_table", "comparison_table"]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
SORT_KEYS = ("self", "total", "count", "mean", "max", "name")


def aggregate_rows(aggregates: Aggregates, sort_by: str = "self") -> list[dict[str, Any]]:
    """Return a dict per name, as JSON can represent it; times are in ns. errors.ValueError: invalid sort_by."""
    if sort_by not in SORT_KEYS:
        raise errors.ValueError(
            f"cannot sort aggregates by {sort_by!r}{suggestion(sort_by, SORT_KEYS, '.')} "
            f"Valid keys: {', '.join(SORT_KEYS)}."
        )
    rows = []
    for row, name in enumerate(aggregates.names):
        count, total_ns = int(aggregates.count[row]), int(aggregates.total_ns[row])
        rows.append(
            {
                "name": name,
                "category": aggregates.categories[row],
                "count": count,
                "self_ns": int(aggregates.self_ns[row]),
                "total_ns": total_ns,
                "mean_ns": total_ns / count,
                "min_ns": int(aggregates.min_ns[row]),
                **{f"{key}_ns": aggregates.quantile_ns(row, q) for key, q in QUANTILES.items()},
                "max_ns": int(aggregates.max_ns[row]),
                "collapsed": int(aggregates.collapsed[row]),
            }
        )
    field = sort_by if sort_by in ("name", "count") else f"{sort_by}_ns"
    return sorted(rows, key=lambda each: each[field] if field == "name" else -each[field])


def aggregate_table(
    aggregates: Aggregates,
    sort_by: str = "self",
    row_limit: int = 30,
    width: int | None = None,
    time_unit: str | None = None,
) -> str:
    """Return a table of text with a line per name. row_limit: -1 for all. width: characters of a line; None: any."""
    rows = aggregate_rows(aggregates, sort_by)
    whole_ns = sum(row["self_ns"] for row in rows)
    shown = first_rows(rows, row_limit)
    times = ["self_ns", "total_ns", "mean_ns", "min_ns", *(f"{key}_ns" for key in QUANTILES)]
    cells = [["Name", "Self %", "Self", "Total", "Mean", "Min", *QUANTILES, "Max", "Count"]]
    for row in shown:
        texts = [format_time(row[key] / 1e3, time_unit) for key in (*times, "max_ns")]
        cells.append(
            [row["name"], format_share(row["self_ns"], whole_ns), *texts, str(row["count"])]
        )
    lines = _lines(cells, width)
    if len(shown) < len(rows):
        lines.append(f"{counted(len(rows) - len(shown), 'more name')}; --row-limit -1 prints all")
    return "\n".join(lines)


def aggregate_notes(aggregates: Aggregates) -> list[str]:
    """Return lines about the process, the time, and what the aggregates lack."""
    facts = aggregates.facts
    stamp = [
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(facts.get(name, 0)) / 1e9))
        for name in ("from_unix_ns", "to_unix_ns")
    ]
    seconds = (int(facts.get("to_unix_ns", 0)) - int(facts.get("from_unix_ns", 0))) / 1e9
    number = int(aggregates.count.sum())
    parts = [str(facts.get("program") or "a process")]
    parts += [f"{name} {facts[name]}" for name in ("pid", "rank") if facts.get(name) is not None]
    if int(facts.get("files", 1)) > 1:
        parts = [f"{facts['files']} files"]
    lines = [
        f"{', '.join(parts)}: {counted(number, 'range')} of {counted(len(aggregates), 'name')}, window "
        f"{facts.get('window', 'of each')}: {stamp[0]} to {stamp[1]}, {seconds:.1f} s"
    ]
    if dropped := int(facts.get("dropped", 0)):
        lines.append(
            f"missed since the start: {counted(dropped, 'range')}, recorded faster than they were read: raise max_bytes"
        )
    if collapsed := int(aggregates.collapsed.sum()):
        lines.append(f"quantiles leave out the bin of {counted(collapsed, 'rare duration')}")
    return lines


def comparison_table(
    rows: Sequence[Comparison], row_limit: int = 30, width: int | None = None
) -> str:
    """Return a table of text with a line per name, in the order of `rows`. row_limit: -1 for all."""
    shown = first_rows(rows, row_limit)
    cells = [
        ["name", "count A", "count B", "mean A", "mean B", "change", "p50", "p99", "B longer", "p"]
    ]
    for row in shown:
        in_both = all(row.count)
        cells.append(
            [
                row.name,
                *(str(count) for count in row.count),
                *(format_time(ns / 1e3) if ns else "-" for ns in row.mean_ns),
                _growth(row.mean_ns) if in_both else ("gone" if row.count[0] else "new"),
                *(_growth(pair) if in_both else "-" for pair in (row.p50_ns, row.p99_ns)),
                f"{100 * row.longer:.0f} %" if in_both else "-",
                (f"{row.p:.2g}" + (" *" if row.is_significant else "  ")) if in_both else "-  ",
            ]
        )
    lines = _lines(cells, width)
    if len(shown) < len(rows):
        lines.append(f"{counted(len(rows) - len(shown), 'more name')}; --row-limit -1 prints all")
    lines.append(
        f"*: p < {SIGNIFICANT_P:g}: rank-sum test (Mann-Whitney) of the durations, adjusted for the number of names"
        " (Holm). B longer: in so many of all pairs of a range of A and one of B."
    )
    return "\n".join(lines)


def _growth(pair: tuple[float, float]) -> str:
    return f"{100 * (pair[1] - pair[0]) / pair[0]:+.1f} %" if pair[0] > 0 else "-"


def _lines(cells: list[list[str]], width: int | None) -> list[str]:
    widths = [max(text_width(row[i]) for row in cells) for i in range(len(cells[0]))]
    room = 55 if width is None else width - sum(widths[1:]) - 2 * (len(widths) - 1)
    widths[0] = min(widths[0], max(min(room, 55), 12))
    lines = []
    for number, row in enumerate(cells):
        name = cut_to_width(row[0], widths[0])
        texts = [name + " " * (widths[0] - text_width(name))]
        texts += [
            " " * (size - text_width(text)) + text
            for text, size in zip(row[1:], widths[1:], strict=True)
        ]
        lines.append("  ".join(texts).rstrip())
        if number == 0:
            lines.append("-" * (sum(widths) + 2 * (len(widths) - 1)))
    return lines
