# SPDX-License-Identifier: Apache-2.0
"""fastprof run: profile a script that knows nothing of it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from fastprof import errors
from fastprof.cli.formats import FORMATS, format_help, format_of, write_table
from fastprof.cli.options import (
    SORT_BY,
    Subparsers,
    add_table_options,
    command_parser,
    print_table,
)
from fastprof.cli.script import Program, leave_as, wait_for_threads

__all__ = ["add_parser"]

_EPILOG = f"""\
Options of fastprof come before the script; everything behind it is the script's own. The script
sees the argv, __main__, sys.path and working folder it would see under python. Its exit code, its
exceptions and Ctrl-C work as ever, and what was recorded until then is kept. The table goes to
stderr, so that the script's output can still be piped.

What is recorded: the whole run as one range, every range, mark and counter of the script
(fastprof.record_function) and of annotated libraries, and PyTorch's ops, on all threads. Processes
that the script starts are not.

examples:
  fastprof run train.py --epochs 3
  fastprof run -o trace.pftrace --sort-by cpu_time_total train.py
  fastprof run --no-trace -m package.module args...
  fastprof run -o run.fastprof --profile-memory train.py && fastprof report run.fastprof

{format_help()}"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand."""
    parser = command_parser(
        commands, "run", "profile a Python script, print a table and write a trace", _EPILOG
    )
    parser.usage = f"{parser.prog} [options] (SCRIPT | -m MODULE) [ARG ...]"
    parser.add_argument(
        "-m", dest="module", action="store_true", help="run a module, like python -m"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="the trace (default: NAME.trace.json, see formats)"
    )
    parser.add_argument("--to", choices=tuple(FORMATS), help="its format, whatever its suffix")
    parser.add_argument("--no-trace", action="store_true", help="write none")
    parser.add_argument("--no-table", action="store_true", help="print none")
    recording = parser.add_argument_group("recording")
    recording.add_argument("--record-shapes", action="store_true", help="shapes of inputs")
    recording.add_argument("--profile-memory", action="store_true", help="reported allocations")
    recording.add_argument("--with-stack", action="store_true", help="Python stack of each range")
    recording.add_argument("--with-flops", action="store_true", help="FLOPs, where known")
    recording.add_argument(
        "--counter",
        action="append",
        default=[],
        metavar="NAME",
        help="a perf counter around each range, such as instructions or page-faults, in the trace;"
        " may be given 4 times",
    )
    recording.add_argument(
        "--max-mb", type=int, default=0, metavar="MB", help="memory for records (0: automatic)"
    )
    recording.add_argument(
        "--overflow",
        choices=("drop_newest", "overwrite_oldest"),
        default="drop_newest",
        help="what goes when it is full; what was dropped is counted and shown",
    )
    add_table_options(parser)
    parser.add_argument("program", metavar="SCRIPT", help=argparse.SUPPRESS)
    parser.add_argument("args", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Run the program under a profile; leaves as the program does."""
    from fastprof import profile, record_function

    path = None
    if not options.no_trace:
        path = options.output or _default_path(options.program)
        kind = format_of(path, options.to)
        path = os.path.abspath(path)  # the program may change its folder
    profiler = profile(
        record_shapes=options.record_shapes,
        profile_memory=options.profile_memory,
        with_stack=options.with_stack,
        with_flops=options.with_flops,
        max_bytes=options.max_mb << 20,
        overflow=options.overflow,
        counters=options.counter,
    )
    pid = os.getpid()
    raised: BaseException | None = None
    try:
        program = Program(options.program, options.args, options.module)
    except SyntaxError as error:
        raised = error
    if raised is not None:
        leave_as(raised)
    profiler.start()
    whole = record_function(f"{'-m ' if options.module else ''}{options.program}")
    whole.__enter__()
    try:
        try:
            program.run()
        finally:
            wait_for_threads()
    except BaseException as error:
        raised = error
    if os.getpid() == pid:  # a child that the program forked has nothing to tell
        whole.__exit__(None, None, None)
        profiler.stop()
        failed = _tell(profiler, options, path, kind if path else "")
        if raised is None:
            return failed
    if raised is not None:
        leave_as(raised)
    return 0


def _default_path(program: str) -> str:
    name = os.path.basename(os.path.normpath(program))
    return f"{name.removesuffix('.py') or 'program'}.trace.json"


def _tell(profiler: Any, options: argparse.Namespace, path: str | None, kind: str) -> int:
    """Write and print; 1 when something could not be written."""
    failed = 0
    if path is not None:
        try:
            if kind == "chrome":
                profiler.export_chrome_trace(path)
            elif kind == "perfetto":
                profiler.export_perfetto_trace(path)
            else:
                write_table(profiler.event_table, path, kind)
        except errors.Error as error:
            print(f"fastprof: error: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
            failed = 1
    if not options.no_table:
        try:
            text = print_table(profiler.events(), options)
        except errors.Error as error:  # a wrong key: not a reason to lose the table of a long run
            options.sort_by = SORT_BY
            text = f"fastprof: error: {error}\n{print_table(profiler.events(), options)}"
            failed = 1
        print(text, file=sys.stderr)
    if path is not None and not failed:
        print(f"fastprof: wrote {path}{_how_to_open(kind)}", file=sys.stderr)
    return failed


def _how_to_open(kind: str) -> str:
    if kind in ("chrome", "perfetto"):
        return "; open it at https://ui.perfetto.dev"
    if kind in ("speedscope", "folded"):
        return "; open it at https://www.speedscope.app"
    return "; print it with: fastprof report" if kind == "native" else ""
