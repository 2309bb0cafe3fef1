# SPDX-License-Identifier: Apache-2.0
"""fastprof merge: write the traces of several processes as one."""

from __future__ import annotations

import argparse
from typing import Any

from fastprof.base.formatting import counted, format_time
from fastprof.cli.formats import add_format_option, format_of, write_table
from fastprof.cli.loading import load_traces
from fastprof.cli.options import Subparsers, add_reading_options, command_parser
from fastprof.cli.outputs import check_outputs

__all__ = ["add_parser", "merge_lines"]

_EPILOG = """\
The traces may be of any formats that `fastprof report` reads. Times are Unix times, so that the processes of
one machine agree; those of several agree as well as their clocks do. A trace without Unix times begins with the
first other. A pid, a GPU and an "External id" that occur again get numbers of their own.

examples:
  fastprof merge rank0.json rank1.json -o all.json
  fastprof merge server.pftrace client.fastprof -o both.fastprof
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "merge", "put traces of several processes into one", _EPILOG)
    parser.add_argument("files", metavar="FILE", nargs="+", help="the traces to read")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="the file to write")
    add_format_option(parser)
    add_reading_options(parser)
    parser.set_defaults(command=merge)


def merge(options: argparse.Namespace) -> int:
    """Merge the traces; return the exit code."""
    kind = format_of(options.output, options.to)
    check_outputs([options.output], options.files)
    table = load_traces(options.files, options)
    write_table(table, options.output, kind)
    lines = merge_lines(table) if len(options.files) > 1 else []
    print("\n".join(lines or [f"wrote {options.output}: {counted(len(table), 'event')}"]))
    return 0


def merge_lines(table: Any) -> list[str]:
    """Return a line for each trace of a merged table: when it begins, and what is known of its clock."""
    lines: list[str] = []
    if not len(table):  # the first of empty tables, with the metadata of its file
        return lines
    names = {each["pid"]: each["name"] for each in table.metadata["processes"]}
    for each in table.metadata["merged"]:
        error = each["clock_error_ns"]
        clock = (
            f"clock within {format_time(error / 1000)}" if error else "error of its clock unknown"
        )
        if each["shift_ns"]:
            clock = "no Unix times: begins with the first other"
        pids = [pid for pid in each["pids"].values() if pid in names]
        shown = ", ".join(f"{names[pid]} (pid {pid})" for pid in pids)
        lines.append(f"{each['file']}: {shown or 'no process'}; {clock}")
    return lines
