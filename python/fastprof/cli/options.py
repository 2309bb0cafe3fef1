# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and how they print."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Any, TextIO

from fastprof.base import errors
from fastprof.cli.parser import CommandParser, suggestion

__all__ = [
    "SORT_BY",
    "Subparsers",
    "add_reading_options",
    "add_table_options",
    "check_table_options",
    "command_parser",
    "counted",
    "load_trace",
    "print_table",
    "terminal_width",
]

Subparsers = Any  # argparse has no public name for what add_subparsers returns


def command_parser(commands: Subparsers, name: str, summary: str, epilog: str) -> CommandParser:
    """The parser of a subcommand, with examples behind its options."""
    parser: CommandParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


# Sort key of a table unless another is asked for.
SORT_BY = "self_cpu_time_total"


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """How the table of averages looks."""
    group = parser.add_argument_group("table")
    group.add_argument(
        "--sort-by",
        metavar="KEY",
        default=SORT_BY,
        help="column to sort by, descending (default: %(default)s; a wrong one lists all)",
    )
    group.add_argument(
        "--row-limit", type=int, default=30, metavar="N", help="rows to print, -1 for all (30)"
    )
    group.add_argument(
        "--by-shape", action="store_true", help="average by input shapes as well as by name"
    )
    group.add_argument(
        "--by-stack", type=int, default=0, metavar="N", help="average by the first N stack frames"
    )
    group.add_argument(
        "--top-level", action="store_true", help="only what has no range of the same thread around"
    )
    group.add_argument("--time-unit", choices=("s", "ms", "us"), help="one unit for all times")


def check_table_options(options: argparse.Namespace) -> None:
    """Raise errors.ValueError for a sort key or number that no table can be made with.

    Commands call it before they run a program or read a file.
    """
    from fastprof.views.frame import METRIC_FIELDS
    from fastprof.views.measures import device_metric_name
    from fastprof.views.render import SORT_KEYS

    key = options.sort_by
    if device_metric_name(key) not in (*METRIC_FIELDS, "key", "name"):
        raise errors.ValueError(
            f"cannot sort by {key!r}{suggestion(key, SORT_KEYS)}; "
            f"valid keys: {', '.join(SORT_KEYS)}"
        )
    if options.by_stack < 0:
        raise errors.ValueError(f"--by-stack {options.by_stack}: give 0 or more frames")
    if options.row_limit < -1:
        raise errors.ValueError(f"--row-limit {options.row_limit}: give -1 (all rows) or more")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """How much memory reading a trace may take."""
    parser.add_argument(
        "--max-memory-mb",
        type=_positive,
        default=0,
        metavar="MB",
        help="memory that reading may take (default: 4096); files are untrusted",
    )


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError(text)
    return value


def load_trace(path: str, options: argparse.Namespace) -> Any:
    """The table of a trace file; "-" is standard input."""
    from fastprof.importers import load
    from fastprof.importers.memory_budget import DEFAULT_MAX_MEMORY_BYTES

    source: Any = sys.stdin.buffer if path == "-" else path
    limit = options.max_memory_mb << 20 or DEFAULT_MAX_MEMORY_BYTES
    return load(source, max_memory_bytes=limit)


def counted(number: int, noun: str) -> str:
    """ "1 thread", "2 threads"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def print_table(events: Any, options: argparse.Namespace, stream: TextIO | None) -> str:
    """The averages of an EventList as text; on a terminal no wider than it is."""
    averages = events.key_averages(
        group_by_input_shape=options.by_shape,
        group_by_stack_n=options.by_stack,
        include_python_functions=True,
    )
    return str(
        averages.table(
            sort_by=options.sort_by,
            row_limit=options.row_limit,
            top_level_events_only=options.top_level,
            time_unit=options.time_unit,
            max_width=terminal_width(stream),
        )
    )


def terminal_width(stream: TextIO | None) -> int | None:
    """Columns of the terminal that a stream writes to; None when it is no terminal."""
    try:
        if stream is None or not stream.isatty():
            return None
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return None
    return columns or shutil.get_terminal_size().columns
