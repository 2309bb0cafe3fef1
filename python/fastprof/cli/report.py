# SPDX-License-Identifier: Apache-2.0
"""fastprof report: the table of a trace file."""

from __future__ import annotations

import argparse
import os
import sys

from fastprof.cli.options import (
    Subparsers,
    add_reading_options,
    add_table_options,
    check_table_options,
    command_parser,
    counted,
    load_trace,
    print_table,
)
from fastprof.cli.outcome import check_output

__all__ = ["add_parser"]

_EPILOG = """\
FILE is a trace of fastprof (.fastprof, Chrome JSON, .pftrace) or of torch.profiler, gzipped or
not; the content tells which. - is standard input. On a terminal the table is no wider than it is;
into a pipe or file all columns are printed in full.

examples:
  fastprof report train.trace.json
  fastprof report --sort-by cpu_time_total --row-limit 10 train.fastprof
  fastprof report --by-shape torch_trace.json.gz
  ssh server cat train.fastprof | fastprof report -
  fastprof report --csv averages.csv train.fastprof     the same numbers for a spreadsheet
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand."""
    parser = command_parser(commands, "report", "print the table of a trace", _EPILOG)
    parser.add_argument("file", metavar="FILE")
    add_table_options(parser)
    add_reading_options(parser)
    parser.add_argument("--csv", metavar="PATH", help="also write the averages as CSV")
    parser.add_argument("--json", metavar="PATH", help="also write the averages as JSON")
    parser.set_defaults(command=report)


def report(options: argparse.Namespace) -> int:
    """Print; the exit code."""
    from fastprof.cli.event_lists import list_of

    check_table_options(options)
    for path in (options.csv, options.json):
        if path:
            check_output(path)
    table = load_trace(options.file, options)
    events = list_of(table)
    averages = events.key_averages(
        group_by_input_shape=options.by_shape,
        group_by_stack_n=options.by_stack,
        include_python_functions=True,
    )
    text = print_table(events, options, sys.stdout)
    kind = table.metadata.get("format", "fastprof")
    span_ms = (table.t1_ns - table.t0_ns) / 1e6
    name = table.process_name or "a process"
    if options.file == "-":
        print(f"standard input ({kind})")
    else:
        print(f"{options.file} ({kind}, {counted(os.path.getsize(options.file), 'byte')})")
    threads = len(set(table.thread.tolist()))
    print(
        f"{name}, pid {table.pid}: {counted(len(table), 'row')} on {counted(threads, 'thread')} "
        f"in {span_ms:.3f} ms"
    )
    print(text if text else "no ranges")
    if options.csv:
        averages.export_csv(options.csv)
    if options.json:
        averages.export_json(options.json)
    return 0
