# SPDX-License-Identifier: Apache-2.0
"""fastprof explain: say in words where the time of a step went, which steps were slow, and what to do first."""

from __future__ import annotations

import argparse
import json
import sys

from fastprof.cli.options import Subparsers, add_reading_options, command_parser, load_trace
from fastprof.cli.screen import Screen

__all__ = ["add_parser"]

_EPILOG = """\
Steps are the ranges "ProfilerStep#N" that a schedule makes, or those of --step. Nothing is said where
nothing is wrong. Each claim in the JSON has its figure in ns and the rows of the events behind it.

examples:
  fastprof explain train.trace.json
  fastprof explain --step "train step" train.fastprof
  fastprof explain --json torch_trace.json.gz
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "explain", "say where a step's time went and why", _EPILOG)
    parser.add_argument("file", metavar="FILE", help="the trace to read; - is standard input")
    parser.add_argument("--step", metavar="NAME", help="name of the ranges that are steps")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_reading_options(parser)
    parser.set_defaults(command=explain_file)


def explain_file(options: argparse.Namespace) -> int:
    """Print the explanation of a trace; return the exit code."""
    from fastprof.analysis.explain import explain

    found = explain(load_trace(options.file, options), step=options.step)
    if options.json:
        print(json.dumps(found.to_dict(), indent=1))
    else:
        screen = Screen.of(sys.stdout)
        print("\n".join(screen.line(line) for line in found.text().splitlines()))
    return 0
