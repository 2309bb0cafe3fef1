# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and how they print."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["SORT_BY", "Subparsers", "add_table_options", "command_parser", "print_table"]

Subparsers = Any  # argparse has no public name for what add_subparsers returns


def command_parser(
    commands: Subparsers, name: str, summary: str, epilog: str
) -> argparse.ArgumentParser:
    """The parser of a subcommand, with examples behind its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
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


def print_table(events: Any, options: argparse.Namespace) -> str:
    """The averages of an EventList as text."""
    averages = events.key_averages(
        group_by_input_shape=options.by_shape, group_by_stack_n=options.by_stack
    )
    return str(
        averages.table(
            sort_by=options.sort_by,
            row_limit=options.row_limit,
            top_level_events_only=options.top_level,
            time_unit=options.time_unit,
        )
    )
