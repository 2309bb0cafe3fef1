# SPDX-License-Identifier: Apache-2.0
"""The calls of a recording as the commands print them: --my-code, imports apart, and calls that were only counted."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, Any

from fastprof.base.formatting import counted, format_time
from fastprof.base.short_paths import shorten_paths
from fastprof.cli.screen import Screen

if TYPE_CHECKING:
    from fastprof.model.table import EventTable

__all__ = ["add_call_options", "calls_lines", "notes_on_calls", "shown_calls"]

_SHOWN = 4


def add_call_options(group: Any) -> None:
    """Add --my-code and --imports."""
    group.add_argument(
        "--my-code",
        action="store_true",
        help="show only calls of the program's own files; the time of other calls is their callers'",
    )
    group.add_argument(
        "--imports",
        action="store_true",
        help="also show what ran inside of imports (default: an import is one call)",
    )


def shown_calls(table: EventTable, options: argparse.Namespace) -> EventTable:
    """Return the table with the rows that the options of add_call_options() select."""
    from fastprof.model.imports import Imports, own_code

    if options.my_code:
        return own_code(table)
    return table if options.imports else Imports(table).folded()


def calls_lines(table: EventTable, options: argparse.Namespace, screen: Screen) -> list[str]:
    """Return the calls by function as lines of text, with notes_on_calls() below, which contain the imports."""
    from fastprof.views.python_calls import PythonCallStats

    stats = PythonCallStats(shown_calls(table, options))
    text = stats.table(
        row_limit=options.row_limit,
        imports=options.imports,
        waits=False,
        max_width=screen.width,
        all_rows="--row-limit -1",
    )
    lines = [screen.line(line) for line in text.split("\n")]
    notes = notes_on_calls(table)
    if screen.width is None:
        return lines + [screen.line(line) for line in notes]
    return lines + [
        part for note in notes for part in textwrap.wrap(screen.line(note), screen.width)
    ]


def notes_on_calls(table: EventTable) -> list[str]:
    """Return lines on imports, waits, and calls that were counted instead of recorded; [] for none of them."""
    from fastprof.model.imports import Imports
    from fastprof.model.thread_waits import ThreadWaits

    lines = []
    if imports := Imports(table):
        lines.append(f"Imports took {imports.text()}")
    waits = ThreadWaits(table)
    if text := waits.text():
        lines.append(f"Threads waited for {text}")
    if waits.idle_ns:
        lines.append(f"Idle workers waited {format_time(waits.idle_ns / 1000)} for work")
    summed = table.metadata.get("summed_calls")
    if isinstance(summed, dict) and summed:  # the metadata of a file may contain any value here
        numbers = {str(name): n for name, n in summed.items() if isinstance(n, int)}
        most = sorted(numbers, key=lambda name: -numbers[name])[:_SHOWN]
        names = ", ".join(f"{numbers[name]:,} of {name}" for name in most)
        more = (
            f", of {counted(len(numbers) - _SHOWN, 'more function')}"
            if len(numbers) > _SHOWN
            else ""
        )
        lines.append(
            f"Not recorded, for their number: {sum(numbers.values()):,} calls ({names}{more}). Their "
            "time is their callers'; --calls records every call."
        )
    return [shorten_paths(line) for line in lines]
