# SPDX-License-Identifier: Apache-2.0
"""Options that several subcommands share, and a function that prints tables."""

from __future__ import annotations

import argparse
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import suggestion
from fastprof.base.sample_rate import MAX_SAMPLE_HZ, is_sample_rate
from fastprof.cli.calls_text import add_call_options
from fastprof.cli.parser import CommandParser
from fastprof.cli.screen import Screen

__all__ = [
    "SORT_BY",
    "Subparsers",
    "add_reading_options",
    "add_table_options",
    "check_sample",
    "check_seconds",
    "check_table_options",
    "command_parser",
    "table_text",
]

Subparsers = Any  # argparse has no public name for the type that add_subparsers returns


def command_parser(commands: Subparsers, name: str, summary: str, epilog: str) -> CommandParser:
    """Add and return the parser of a subcommand. epilog: examples printed after the options."""
    parser: CommandParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


_MAX_NAME = 200  # characters of a name in a pipe or file
_MOST_SECONDS = 1_000_000
# Default sort key of tables.
SORT_BY = "self_cpu_time_total"


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the table of averages."""
    group = parser.add_argument_group("table")
    group.add_argument(
        "--sort-by",
        metavar="KEY",
        default=SORT_BY,
        help="column to sort by, descending (default: %(default)s; an invalid KEY prints the valid ones)",
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
        "--top-level",
        action="store_true",
        help="only ranges that no range of their thread encloses",
    )
    group.add_argument(
        "--time-unit", choices=("s", "ms", "us"), help="unit of all times (default: by magnitude)"
    )
    add_call_options(group)


def check_table_options(options: argparse.Namespace) -> None:
    """Raise errors.ValueError for an invalid sort key or number.

    Commands call this before they run a program or read a file.
    """
    from fastprof.views.frame import METRIC_FIELDS
    from fastprof.views.measures import device_metric_name
    from fastprof.views.render import SORT_KEYS

    key = options.sort_by
    if device_metric_name(key) not in (*METRIC_FIELDS, "key", "name"):
        raise errors.ValueError(
            f"cannot sort by {key!r}{suggestion(key, SORT_KEYS, '.')} "
            f"Valid keys: {', '.join(SORT_KEYS)}."
        )
    if options.by_stack < 0:
        raise errors.ValueError(
            f"invalid --by-stack {options.by_stack}. Use the number of frames, 0 or more."
        )
    if options.row_limit < -1:
        raise errors.ValueError(
            f"invalid --row-limit {options.row_limit}. Use -1 (all rows), or 0 or more."
        )


def check_seconds(seconds: float) -> None:
    """Raise errors.ValueError for a value of --seconds that is no length of time, or too long to wait for."""
    if not 0 < seconds <= _MOST_SECONDS:  # false for nan, too
        raise errors.ValueError(
            f"invalid --seconds {seconds:g}. Use a number above 0, up to {_MOST_SECONDS}."
        )


def check_sample(rate_hz: float | None) -> None:
    """Raise errors.ValueError for a value of --sample that is no rate at which can be sampled."""
    if rate_hz is not None and not is_sample_rate(rate_hz):
        raise errors.ValueError(
            f"invalid --sample={rate_hz:g}. Use a number of samples a second above 0, up to {MAX_SAMPLE_HZ}."
        )


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading a trace: its limit of memory, and what to do if it is damaged."""
    parser.add_argument(
        "--max-memory-mb",
        type=_positive,
        default=0,
        metavar="MB",
        help="stop with an error if reading needs more memory (default: 4096); guards against damaged files",
    )
    parser.add_argument(
        "--salvage",
        action="store_true",
        help="read all events of a damaged Chrome or Perfetto trace before the damage, and print where it is",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"invalid number {text!r}. Use a whole number above 0.")
    return int(text)


def table_text(
    events: Any, options: argparse.Namespace, screen: Screen, *, calls: bool = True
) -> str:
    """Return the averages of an EventList as a table of text: on a terminal with its width, bars and colours.

    calls: include calls of Python functions.
    """
    from fastprof.views.render import TableOptions, render_table

    averages = events.key_averages(
        group_by_input_shape=options.by_shape,
        group_by_stack_n=options.by_stack,
        include_python_functions=calls,
    )
    return render_table(
        averages._frame(),
        TableOptions(
            sort_by=options.sort_by,
            row_limit=options.row_limit,
            top_level_events_only=options.top_level,
            time_unit=options.time_unit,
            profile_memory=averages._profile_memory,
            with_flops=averages._with_flops,
            # A terminal's width cuts names in the middle; their ends differ more than their begins.
            max_name_column_width=None if screen.width is not None else _MAX_NAME,
            max_width=screen.width,
            visible=screen.width is not None or screen.style is not None,
            style=screen.style,
            waits_last=True,
        ),
    )
