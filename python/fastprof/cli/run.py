# SPDX-License-Identifier: Apache-2.0
"""fastprof run: profile a script that knows nothing of it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from fastprof.base import errors
from fastprof.cli.formats import FORMATS, check_memory_path, format_help, format_of
from fastprof.cli.options import (
    Subparsers,
    add_table_options,
    check_table_options,
    command_parser,
    print_table,
)
from fastprof.cli.outcome import check_output, keep, patient_with_ctrl_c, tell
from fastprof.cli.program_call import ProgramCall
from fastprof.cli.script import Program, leave_as, wait_for_threads

__all__ = ["add_parser"]

_EPILOG = f"""\
Options of fastprof come before the program; everything behind it is the program's own, "--"
included. Options are given in full. The program sees the argv, __main__, sys.path and working
folder it would see under python. Its exit code, its exceptions and Ctrl-C work as ever, and what was
recorded until then is kept: where PATH cannot be written after the run, in another place, which is
printed. The table goes to stderr, so that the program's output can still be piped.

PROGRAM is a script, a folder or zip file with a __main__.py (such as .), -m MODULE, -c CODE, or -
(standard input).

What is recorded: the whole run as one range, every range, mark and counter of the program
(fastprof.record_function) and of annotated libraries, and PyTorch's ops, on all threads. Processes
that the program starts are not. A program that exits (sys.exit) without having entered a range, as
with its own --help, leaves no trace.

examples:
  fastprof run train.py --epochs 3
  fastprof run -o trace.pftrace --sort-by cpu_time_total train.py
  fastprof run --no-trace -m package.module args...
  fastprof run -o run.fastprof --profile-memory train.py && fastprof report run.fastprof

{format_help()}"""


# A program that exits within this time without a range gets no table either.
_AT_ONCE_S = 2.0


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand."""
    parser = command_parser(
        commands, "run", "profile a Python script, print a table and write a trace", _EPILOG
    )
    parser.usage = f"{parser.prog} [options] (SCRIPT | -m MODULE | -c CODE | -) [ARG ...]"
    # Found before argparse sees the line (program_call.py); here for the help only.
    parser.add_argument("-m", metavar="MODULE", help="run a module, like python -m")
    parser.add_argument("-c", metavar="CODE", help="run code, like python -c")
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
        "--with-modules", action="store_true", help="TorchScript modules that ops run in"
    )
    recording.add_argument(
        "--this-thread",
        action="store_true",
        help="only the thread that runs the program and what is propagated from it",
    )
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
        choices=("drop_newest", "overwrite_oldest", "spill"),
        default="drop_newest",
        help="what goes when it is full, or spill: move records to a file; what was dropped is"
        " counted and shown",
    )
    recording.add_argument(
        "--spill-folder",
        metavar="DIR",
        help="where the file of --overflow spill lies (default: the folder for temporary files)",
    )
    add_table_options(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Run the program under a profile; leaves as the program does."""
    from fastprof import profile, record_function

    call: ProgramCall | None = getattr(options, "program", None)
    if call is None:
        raise errors.ValueError("there is nothing to run: give a SCRIPT, -m MODULE or -c CODE")
    start_folder = os.getcwd()
    path, kind = _output(options, call)
    if not options.no_table:
        check_table_options(options)
    if options.max_mb < 0:
        raise errors.ValueError(f"--max-mb {options.max_mb}: give 0 (automatic) or more")
    profiler = profile(
        record_shapes=options.record_shapes,
        profile_memory=options.profile_memory,
        with_stack=options.with_stack,
        with_flops=options.with_flops,
        with_modules=options.with_modules,
        all_threads=not options.this_thread,
        max_bytes=options.max_mb << 20,
        overflow=options.overflow,
        spill_folder=options.spill_folder,
        counters=options.counter,
    )
    pid = os.getpid()
    raised: BaseException | None = None
    try:
        program = Program(call)
    except SyntaxError as error:
        raised = error
    if raised is not None:
        leave_as(raised)
    profiler.start()
    whole = record_function(call.label)
    whole.__enter__()
    try:
        try:
            program.run()
        finally:
            wait_for_threads()
    except BaseException as error:
        raised = error
    if os.getpid() == pid:  # the parent of a forked child reports the result
        with patient_with_ctrl_c("writing the trace"):
            whole.__exit__(None, None, None)
            profiler.stop()
            failed = _report(profiler, options, (path, kind), start_folder, raised)
        if raised is None:
            return failed
    if raised is not None:
        leave_as(raised)
    return 0


def _output(options: argparse.Namespace, call: ProgramCall) -> tuple[str | None, str]:
    """(absolute path of the trace, its format), checked before the program runs."""
    if options.no_trace:
        return None, ""
    path = options.output or f"{call.file_stem}.trace.json"
    kind = format_of(path, options.to)
    if kind == "memory":
        if not options.profile_memory:
            raise errors.ValueError(f"{path} is memory over time: add --profile-memory")
        check_memory_path(path)
    check_output(path)
    return os.path.abspath(path), kind  # the program may change its folder


def _report(
    profiler: Any,
    options: argparse.Namespace,
    output: tuple[str | None, str],
    start_folder: str,
    raised: BaseException | None,
) -> int:
    """Write and print; 1 when something could not be written."""
    path, kind = output
    nothing = _only_the_run(profiler)
    exited = isinstance(raised, SystemExit)
    if nothing and exited and _run_time_s(profiler) < _AT_ONCE_S:
        # Its own --help or wrong arguments: the user wants to see that alone.
        return 0
    failed = 0
    wrote = ""
    if path is not None and not (nothing and (exited or options.output is None)):
        path, kind, failed = keep(profiler, path, kind, start_folder)
        if path:
            what = "kept the recording in" if failed else "wrote"
            wrote = f"fastprof: {what} {path}{_how_to_open(kind)}"
    if not options.no_table:
        try:
            tell(print_table(profiler.events(), options, sys.stderr))
        except Exception as error:
            tell(f"fastprof: error: the table could not be made: {error!r}")
            failed = 1
    if nothing:
        tell(_why_nothing(profiler, options, bool(wrote)))
    if wrote:
        tell(wrote)
    return failed


def _only_the_run(profiler: Any) -> bool:
    """Whether the range around the whole run is all that was recorded."""
    try:
        table = profiler.event_table
        return len(table) <= 1 and not table.dropped
    except Exception:
        return False  # keep() tries what can be had


def _run_time_s(profiler: Any) -> float:
    table = profiler.event_table
    return float(table.t1_ns - table.t0_ns) / 1e9


def _why_nothing(profiler: Any, options: argparse.Namespace, wrote: bool) -> str:
    lines = [
        "fastprof: only the run as a whole was recorded"
        + ("" if wrote or options.no_trace else ", so no trace was written")
        + ": the program entered no range."
        " fastprof records ranges that the program marks, annotated C++ libraries, and torch ops;"
        " it does not trace every Python call. Mark what you want to see:",
        "    from fastprof import record_function",
        '    with record_function("load data"): ...',
    ]
    if options.this_thread:
        lines.append("Other threads were left out by --this-thread.")
    for what, reason in profiler.missing.items():
        lines.append(f"Not recorded: {what}: {reason}")
    if "torch" in sys.modules and "torch_ops" in profiler.missing:
        lines.append("`fastprof doctor` lists what this machine lacks.")
    return "\n".join(lines)


def _how_to_open(kind: str) -> str:
    if kind in ("chrome", "perfetto"):
        return "; open it at https://ui.perfetto.dev"
    if kind in ("speedscope", "folded"):
        return "; open it at https://www.speedscope.app"
    return "; print it with: fastprof report" if kind == "native" else ""
