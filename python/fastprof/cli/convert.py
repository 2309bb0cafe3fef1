# SPDX-License-Identifier: Apache-2.0
"""fastprof convert: write a trace in another format."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile

from fastprof.cli.formats import FORMATS, add_format_option, format_help, format_of, write_table
from fastprof.cli.loading import load_traces
from fastprof.cli.options import Subparsers, add_reading_options, command_parser
from fastprof.cli.outputs import check_outputs

__all__ = ["add_parser"]

_EPILOG = f"""\
IN is any trace that `fastprof report` reads; - is standard input. OUT is created when it is complete, so
a failed conversion leaves no file; - is standard output.

examples:
  fastprof convert train.fastprof train.json.gz
  fastprof convert torch_trace.json torch_trace.pftrace
  fastprof convert run.fastprof run.speedscope.json
  fastprof convert --to folded run.json - | flamegraph.pl > run.svg

{format_help()}"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "convert", "convert a trace to another format", _EPILOG)
    parser.add_argument(
        "input", metavar="IN", nargs="+", help="the trace to read; several are merged"
    )
    parser.add_argument("output", metavar="OUT", help="the file to write")
    add_format_option(parser)
    add_reading_options(parser)
    parser.set_defaults(command=convert)


def convert(options: argparse.Namespace) -> int:
    """Convert the trace; return the exit code."""
    kind = format_of(options.output, options.to)
    if options.output != "-":
        check_outputs([options.output], options.input)
        write_table(load_traces(options.input, options), options.output, kind)
        return 0
    with tempfile.TemporaryDirectory(prefix="fastprof-") as folder:
        path = os.path.join(folder, "stdout" + FORMATS[kind][0][0])
        write_table(load_traces(options.input, options), path, kind)
        with open(path, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
    return 0
