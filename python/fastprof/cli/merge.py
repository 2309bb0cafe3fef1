# SPDX-License-Identifier: Apache-2.0
"""fastprof merge: write the traces of several processes as one."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from fastprof.base.formatting import format_time
from fastprof.cli.formats import add_format_option, format_of, write_table
from fastprof.cli.options import Subparsers, add_reading_options, command_parser, load_trace
from fastprof.cli.outcome import check_output

__all__ = ["add_parser", "load_traces", "merge_lines"]

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
    check_output(options.output)
    table = load_traces(options.files, options)
    write_table(table, options.output, kind)
    print("\n".join(merge_lines(table)))
    return 0


def load_traces(paths: Sequence[str], options: argparse.Namespace) -> Any:
    """Return the table of a trace, or of several on one timeline. Raises the exceptions of load_trace()."""
    from fastprof.model.merge import merge_tables

    tables = [load_trace(path, options) for path in paths]
    if len(tables) == 1:
        return tables[0]
    return merge_tables([_of_file(table, options) for table in tables], paths)


def _of_file(table: Any, options: argparse.Namespace) -> Any:
    """Return a table whose arguments are columns: tables of recordings are written as Chrome traces and read again."""
    if not len(table.strings):
        return table
    from fastprof.exporters.trace_writers import write_chrome_trace

    with tempfile.TemporaryDirectory(prefix="fastprof-") as folder:
        path = os.path.join(folder, "trace.json")
        write_chrome_trace(table, path)
        return load_trace(path, options)


def merge_lines(table: Any) -> list[str]:
    """Return a line for each trace of a merged table: when it begins, and what is known of its clock."""
    lines = []
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
