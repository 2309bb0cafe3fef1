# SPDX-License-Identifier: Apache-2.0
"""fastprof ranks: one answer for all ranks of a job."""

from __future__ import annotations

import argparse
import json
from typing import Any

from fastprof.cli.options import Subparsers, command_parser

__all__ = ["add_parser"]

_EPILOG = """\
FOLDER has what each rank wrote: profile(on_trace_ready=fastprof.rank_trace_handler(FOLDER)), or
`torchrun ... --no-python fastprof run --ranks FOLDER train.py`. Ranks that are missing, short or damaged are named.
Needs pyarrow: pip install 'fastprof[ranks]'.

examples:
  fastprof ranks FOLDER
  fastprof ranks FOLDER --as-json | jq .stragglers
  fastprof ranks FOLDER --strict
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(
        commands, "ranks", "say where the time of a job of many ranks went", _EPILOG
    )
    parser.add_argument("folder", metavar="FOLDER", help="the folder that the ranks wrote")
    parser.add_argument("--as-json", action="store_true", help="all answers as JSON")
    parser.add_argument(
        "--strict", action="store_true", help="end if a rank is missing, short or damaged"
    )
    parser.set_defaults(command=ranks)


def ranks(options: argparse.Namespace) -> int:
    """Print the answers; return the exit code."""
    from fastprof.ranks.job import open_job
    from fastprof.ranks.text import job_lines, job_values

    job: Any = open_job(options.folder, strict=options.strict)
    if options.as_json:
        print(json.dumps(job_values(job), indent=1))
    else:
        print("\n".join(job_lines(job)))
    return 0
