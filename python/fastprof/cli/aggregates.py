# SPDX-License-Identifier: Apache-2.0
"""Files of aggregates in `fastprof report` and `fastprof diff`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.base.short_paths import shorten_paths
from fastprof.cli.outputs import check_outputs
from fastprof.cli.screen import Screen, paged

__all__ = ["are_aggregates", "diff_aggregates", "report_aggregates"]

# Sort keys of other tables, in their meaning here.
_KEYS = {"self_cpu_time_total": "self", "cpu_time_total": "total", "cpu_time": "mean"}


def are_aggregates(paths: Sequence[str]) -> bool:
    """Return whether all files are aggregates. Raises errors.ValueError if some are."""
    from fastprof.model.aggregates import is_aggregate_file

    found = [path for path in paths if path != "-" and is_aggregate_file(path)]
    if found and len(found) != len(paths):
        other = next(path for path in paths if path not in found)
        raise errors.ValueError(
            f"{found[0]} is a file of aggregates, and {other} is not. Give files of one kind."
        )
    return bool(found)


def report_aggregates(paths: Sequence[str], options: argparse.Namespace) -> int:
    """Print the table of a file of aggregates, or of several together; return the exit code."""
    from fastprof.model.aggregate_table import aggregate_notes, aggregate_rows, aggregate_table
    from fastprof.model.aggregates import Aggregates

    _refuse(
        options, ("html", "csv", "tree", "flame", "memory", "by_shape", "by_stack", "top_level")
    )
    check_outputs([options.json], paths)
    aggregates = Aggregates.merged([Aggregates.load(path) for path in paths])
    sort_by = _KEYS.get(options.sort_by, options.sort_by)
    # Files first: whoever reads stdout may leave before the end (`| head`).
    if options.json:
        _write(
            options.json, {"facts": aggregates.facts, "names": aggregate_rows(aggregates, sort_by)}
        )
    screen = Screen.of(sys.stdout)
    table = aggregate_table(aggregates, sort_by, options.row_limit, screen.width, options.time_unit)
    with paged(options.pager):
        size = counted(sum(os.path.getsize(path) for path in paths), "byte")
        print(f"{', '.join(paths)} (aggregates, {size})")
        for line in (*aggregate_notes(aggregates), *table.split("\n")):
            print(screen.line(shorten_paths(line)))
    return 0


def diff_aggregates(options: argparse.Namespace) -> int:
    """Print the comparison of two files of aggregates; return the exit code: 1 if --max-growth is exceeded."""
    from fastprof.model.aggregate_comparison import compare_aggregates
    from fastprof.model.aggregate_table import comparison_table
    from fastprof.model.aggregates import Aggregates

    _refuse(options, ("html", "max_total_growth"))
    check_outputs([options.json], [options.before, options.after])
    rows = compare_aggregates(Aggregates.load(options.before), Aggregates.load(options.after))
    orders: dict[str, Any] = {
        "growth": lambda row: (row.total_ns[0] - row.total_ns[1], row.name),
        "percent": lambda row: (-row.growth_percent if all(row.count) else 0.0, row.name),
        "name": lambda row: row.name,
        "count": lambda row: (-abs(row.count[1] - row.count[0]), row.name),
    }
    if options.sort_by in orders:
        rows.sort(key=orders[options.sort_by])
    if options.json:
        names = [
            {key: None if value != value else value for key, value in row.__dict__.items()}
            for row in rows
        ]
        _write(options.json, {"before": options.before, "after": options.after, "names": names})
    screen = Screen.of(sys.stdout)
    print(f"A: {options.before}\nB: {options.after}\n")
    for line in comparison_table(rows, options.row_limit, screen.width).split("\n"):
        print(screen.line(shorten_paths(line)))
    exceeded = [
        row
        for row in rows
        if options.max_growth is not None
        and row.is_significant
        and row.growth_percent > options.max_growth
        and max(row.total_ns) >= options.min_ms * 1e6
    ]
    for row in exceeded:
        text = (
            f"EXCEEDED: {row.name}: {row.growth_percent:+.1f} %, more than {options.max_growth:g} %"
        )
        print(screen.line(text))
    return 1 if exceeded else 0


def _refuse(options: argparse.Namespace, names: Sequence[str]) -> None:
    for name in names:
        if getattr(options, name, None):
            raise errors.ValueError(
                f"--{name.replace('_', '-')} needs the events of a trace, which aggregates do not keep. Leave it out."
            )


def _write(path: str, document: dict[str, Any]) -> None:
    from fastprof.base.atomic_file import atomic_text

    with atomic_text(path) as file:
        json.dump(document, file, indent=1, allow_nan=False)
        file.write("\n")
