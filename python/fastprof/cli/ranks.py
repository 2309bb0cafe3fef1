# SPDX-License-Identifier: Apache-2.0
"""fastprof ranks: one answer for all ranks of a job."""

from __future__ import annotations

import argparse
import json
import math
import sys
from contextlib import nullcontext, redirect_stdout
from typing import Any

from fastprof.base import errors
from fastprof.base.atomic_file import check_output
from fastprof.cli.formats import add_format_option, format_of, write_table
from fastprof.cli.options import Subparsers, command_parser

__all__ = ["add_parser"]

_EPILOG = """\
FOLDER has what each rank wrote: profile(on_trace_ready=fastprof.rank_trace_handler(FOLDER)), or
`torchrun ... --no-python fastprof run --ranks FOLDER train.py`. Ranks that are missing, short or damaged are named.
Needs pyarrow: pip install 'fastprof[ranks]'.

examples:
  fastprof ranks FOLDER
  fastprof ranks FOLDER --as-json | jq .stragglers
  fastprof ranks FOLDER --what-if aten::mm=2 --what-if all_reduce=1.5
  fastprof ranks FOLDER --strict
  fastprof ranks s3://bucket/run --engine ray
  fastprof ranks FOLDER --before OTHER --max-growth 3
  fastprof ranks FOLDER --html ranks.html
  fastprof ranks FOLDER -o all.json.gz --only 0,3-7
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(
        commands, "ranks", "say where the time of a job of many ranks went", _EPILOG
    )
    parser.add_argument(
        "folder", metavar="FOLDER", help="the folder that the ranks wrote: a path or a URL"
    )
    parser.add_argument("--as-json", action="store_true", help="all answers as JSON")
    parser.add_argument(
        "--strict", action="store_true", help="end if a rank is missing, short or damaged"
    )
    parser.add_argument(
        "--engine",
        metavar="ENGINE",
        help="who reads the ranks: ray, dask (a cluster of the environment, or processes), ray://HOST:PORT or "
        "dask://HOST:PORT (default: threads)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="write the events of all ranks to a trace, on the first rank's clock, instead of printing answers",
    )
    parser.add_argument(
        "--html",
        metavar="PATH",
        help="write a page with a heat map of ranks and steps, slow ranks, stages and collectives instead",
    )
    parser.add_argument(
        "--only", metavar="RANKS", help="ranks of the trace, such as 0,3-7 (default: all)"
    )
    add_format_option(parser)
    parser.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="NAME=K",
        help="how long the steps would be if what has this name (an op, kernel, range or kind of collective; * matches"
        " anything) were K times faster, with what it calls and launches; may be given several times",
    )
    parser.add_argument(
        "--before",
        metavar="FOLDER",
        help="compare with an earlier run: print what changed beyond noise",
    )
    parser.add_argument(
        "--max-growth",
        type=float,
        metavar="PERCENT",
        help="with --before: exit with 1 if steps are longer by more, beyond noise (for CI)",
    )
    parser.set_defaults(command=ranks)


def ranks(options: argparse.Namespace) -> int:
    """Print the answers; return the exit code."""
    kind = None
    _check(options)
    if options.output is not None:
        kind = format_of(options.output, options.to)
        check_output(options.output)
    if options.html is not None:
        from fastprof.report.export import check_html_path

        check_html_path(options.html)
        check_output(options.html)
    from fastprof.ranks.job import open_job
    from fastprof.ranks.path_text import parse_what_if, path_lines, path_values
    from fastprof.ranks.text import job_lines, job_values

    what_if = parse_what_if(options.what_if)
    for name in ("output", "before"):
        if what_if and getattr(options, name) is not None:
            raise errors.ValueError(
                f"--what-if is printed, or part of --as-json and --html. Leave out --{name}, or ask in two commands."
            )
    # Ray prints to stdout when a worker dies.
    with redirect_stdout(sys.stderr) if options.engine is not None else nullcontext():
        job: Any = open_job(options.folder, strict=options.strict, engine=options.engine)
    if options.before is not None:
        return _compare(job, options)
    if kind is not None:
        return _write(job, options, kind)
    if options.html is not None:
        from fastprof.base.visible_text import visible_text
        from fastprof.ranks.page import export_page

        export_page(job, options.html, what_if=what_if)
        for each in job.problems:
            print(f"problem: {visible_text(each)}")
        print(f"wrote {options.html}")
    elif options.as_json:
        print(json.dumps({**job_values(job), **path_values(job, what_if)}, indent=1))
    else:
        paths = path_lines(path_values(job, what_if))  # may find further problems
        print("\n".join(job_lines(job) + paths))
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raise errors.ValueError for options that would have no effect beside others."""
    for name, others in (
        ("before", ("output", "html")),
        ("output", ("html", "as_json")),
        ("html", ("as_json",)),
    ):
        for other in others:
            if getattr(options, name) is not None and getattr(options, other):
                raise errors.ValueError(
                    f"--{name} and --{other.replace('_', '-')} are two answers. Leave one out, or ask in two commands."
                )
    if options.only is not None and options.output is None:
        raise errors.ValueError("--only chooses ranks of the trace. Add -o PATH, or leave it out.")
    if options.max_growth is not None and options.before is None:
        raise errors.ValueError("--max-growth compares with an earlier run. Add --before FOLDER.")
    if options.max_growth is not None and not 0 <= options.max_growth < math.inf:
        raise errors.ValueError(
            f"invalid --max-growth {options.max_growth:g}. Use a number of percent, 0 or more."
        )


def _compare(job: Any, options: argparse.Namespace) -> int:
    from fastprof.ranks.job import open_job
    from fastprof.ranks.job_comparison import compare_jobs
    from fastprof.ranks.text import change_lines

    before = open_job(options.before, strict=options.strict, engine=options.engine)
    changes = compare_jobs(before, job)
    if options.as_json:
        print(json.dumps([each._asdict() for each in changes], indent=1))
    else:
        problems = [f"problem: {each.folder}: {p}" for each in (before, job) for p in each.problems]
        print("\n".join(problems + change_lines(changes)))
    if options.max_growth is None:
        return 0
    step = next(each for each in changes if each.what == "duration")
    grown = step.changed and step.low > 1 + options.max_growth / 100
    return int(grown)


def _write(job: Any, options: argparse.Namespace, kind: str) -> int:
    from fastprof.base.number_list import number_list
    from fastprof.ranks.job_timeline import timeline

    chosen = None if options.only is None else _numbers(options.only)
    write_table(timeline(job, chosen), options.output, kind)
    for each in job.problems:
        print(f"problem: {each}")
    if job.uncalibrated and chosen is None:
        print(f"problem: no clock for rank {number_list(job.uncalibrated)}: left out")
    return 0


def _numbers(text: str) -> list[int]:
    """Return the numbers of "0,3-7". Raises errors.ValueError for anything else."""
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not low.isdecimal() or not (high or low).isdecimal():
            raise errors.ValueError(
                f"invalid ranks {text!r}. Write numbers and ranges, such as 0,3-7."
            )
        found += range(int(low), int(high or low) + 1)
    return found
