# SPDX-License-Identifier: Apache-2.0
"""fastprof report: the table of a trace file."""

from __future__ import annotations

import argparse
import os

from fastprof.cli.options import Subparsers, add_table_options, command_parser, print_table

__all__ = ["add_parser"]

_EPILOG = """\
FILE is a trace of fastprof (.fastprof, Chrome JSON, .pftrace) or of torch.profiler, gzipped or
not; the content tells which.

examples:
  fastprof report train.trace.json
  fastprof report --sort-by cpu_time_total --row-limit 10 train.fastprof
  fastprof report --by-shape torch_trace.json.gz
  fastprof report --csv averages.csv train.fastprof     the same numbers for a spreadsheet
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand."""
    parser = command_parser(commands, "report", "print the table of a trace", _EPILOG)
    parser.add_argument("file", metavar="FILE")
    add_table_options(parser)
    parser.add_argument("--csv", metavar="PATH", help="also write the averages as CSV")
    parser.add_argument("--json", metavar="PATH", help="also write the averages as JSON")
    parser.set_defaults(command=report)


def report(options: argparse.Namespace) -> int:
    """Print; the exit code."""
    from fastprof.cli.event_lists import list_of
    from fastprof.importers import load

    table = load(options.file)
    events = list_of(table)
    averages = events.key_averages(
        group_by_input_shape=options.by_shape, group_by_stack_n=options.by_stack
    )
    text = print_table(events, options)
    kind = table.metadata.get("format", "fastprof")
    span_ms = (table.t1_ns - table.t0_ns) / 1e6
    name = table.process_name or "a process"
    print(f"{options.file} ({kind}, {os.path.getsize(options.file)} bytes)")
    print(
        f"{name}, pid {table.pid}: {len(table)} rows on {len(set(table.thread.tolist()))} threads "
        f"in {span_ms:.3f} ms"
    )
    print(text if text else "no ranges")
    if options.csv:
        averages.export_csv(options.csv)
    if options.json:
        averages.export_json(options.json)
    return 0
