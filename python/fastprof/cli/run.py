# SPDX-License-Identifier: Apache-2.0
"""fastprof run: profile an unmodified script."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.base.short_paths import absolute_path, is_installed, working_folder
from fastprof.cli.calls_text import calls_lines
from fastprof.cli.formats import FORMATS, check_memory_path, default_trace, format_help, format_of
from fastprof.cli.html import add_html_options, html_path, open_report
from fastprof.cli.options import (
    Subparsers,
    add_table_options,
    check_sample,
    check_table_options,
    command_parser,
    table_text,
)
from fastprof.cli.outcome import keep, print_message
from fastprof.cli.outputs import check_outputs
from fastprof.cli.program_call import ProgramCall
from fastprof.cli.program_recording import record_program
from fastprof.cli.recording_options import (
    add_recording_options,
    memory_hint,
    recording_arguments,
)
from fastprof.cli.run_checks import check_run_options
from fastprof.cli.screen import Screen
from fastprof.cli.summary_lines import summary_lines

__all__ = ["add_parser"]

_EPILOG = f"""\
Options of fastprof come before the program; all later words, including "--", are the program's arguments.
Option names cannot be abbreviated. The program gets the argv, __main__, sys.path and working folder that
it has under python; its exit code, exceptions and Ctrl-C are passed on, and what was recorded until then
is written. If PATH cannot be written after the run, the trace is written to another folder, and its path
is printed. The table is printed to stderr, so that the program's output can be piped.

PROGRAM is a script, a folder or zip file with a __main__.py (such as .), -m MODULE, -c CODE, or -
(standard input).

What is recorded: the whole run as one range; every range, mark and counter of the program
(fastprof.record_function) and of annotated libraries; PyTorch's ops; calls of functions, those of very
frequent ones only with --calls; on all threads; with --follow, in the processes that the program starts,
too. If the program exits at once, as with its own --help, no trace is written.

examples:
  fastprof run train.py --epochs 3
  fastprof run -o trace.pftrace --sort-by cpu_time_total train.py
  fastprof run --no-trace -m package.module args...
  fastprof run --calls -o calls.pstats script.py
  fastprof run --html --open train.py
  fastprof run --follow train.py --workers 4
  fastprof run --backing-file /dev/shm/records train.py ; fastprof recover /dev/shm/records   # if killed
  fastprof run --nvtx train.py
  torchrun --nproc-per-node 8 --no-python fastprof run --ranks ranks train.py ; fastprof ranks ranks
  fastprof run -o run.fastprof --profile-memory train.py && fastprof report run.fastprof

{format_help()}"""


# A program that exits within this time without having entered a range gets no table if it exits in a library or
# with an error: it printed its help. Within the second one, if it exits in its parser of options.
_AT_ONCE_S, _USAGE_S = 0.05, 2.0


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(
        commands, "run", "profile a Python script, print a table and write a trace", _EPILOG
    )
    parser.usage = f"{parser.prog} [options] (SCRIPT | -m MODULE | -c CODE | -) [ARG ...]"
    # For the help text only: program_call.py extracts these before argparse parses the line.
    parser.add_argument("-m", metavar="MODULE", help="run a module, like python -m")
    parser.add_argument("-c", metavar="CODE", help="run code, like python -c")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="file of the trace (default: NAME.trace.json, or the suffix of --to; formats are listed below)",
    )
    parser.add_argument(
        "--to",
        choices=tuple(FORMATS),
        metavar="FORMAT",
        help="trace format (default: by the suffix of PATH)",
    )
    parser.add_argument("--no-trace", action="store_true", help="do not write a trace")
    parser.add_argument("--no-table", action="store_true", help="do not print the table")
    parser.add_argument(
        "--sample-mode",
        type=_sample_mode,
        metavar="MODE",
        help="which samples the table of samples counts: wall (all; the default of --sample), cpu, off_cpu, gil,"
        " gil_wait, exception, or awaits (implies --sample-tasks); implies --sample",
    )
    recording = add_recording_options(parser)
    recording.add_argument(
        "--this-thread",
        action="store_true",
        help="record only the program's main thread and work propagated from it to other threads",
    )
    recording.add_argument(
        "--calibrate",
        action="store_true",
        help="first measure what recording an event costs here, for fastprof report --subtract-overhead",
    )
    recording.add_argument(
        "--nvtx",
        action="store_true",
        help="record the ranges that the program and what it starts report through NVTX, too",
    )
    recording.add_argument(
        "--itt", action="store_true", help="the same for tasks reported through ITT"
    )
    recording.add_argument(
        "--ranks",
        metavar="FOLDER",
        help="write what this rank of a job did to a folder that all ranks share, instead of a trace, and print no"
        " table: see fastprof ranks",
    )
    recording.add_argument(
        "--no-keep-records",
        action="store_true",
        help="with --ranks: keep nothing of a rank that is killed, so that the program can use a backing file or a"
        " flight recorder of its own",
    )
    recording.add_argument(
        "--flight-recorder",
        nargs="?",
        const="1",
        metavar="NAME=VALUE,...",
        help="keep the last seconds in memory that outlives the program, instead of writing a trace at its end: "
        "see fastprof ps and fastprof dump. =NAME=VALUE,...: options of flight_recorder.start(), such as hang_s=60",
    )
    add_table_options(parser)
    add_html_options(parser, "; written in the place of the trace, unless -o is given")
    parser.set_defaults(command=run, parser=parser)


def _sample_mode(text: str) -> str:
    from fastprof.model.sampled_stacks import MODES

    if text not in MODES:
        raise argparse.ArgumentTypeError(f"unknown mode {text!r}. Use one of {', '.join(MODES)}.")
    return text


def run(options: argparse.Namespace) -> int:
    """Run the program under a profile; exit the way the program does."""
    from fastprof import profile, receive_itt, receive_nvtx

    call: ProgramCall | None = getattr(options, "program", None)
    if call is None:
        raise errors.ValueError("no program to run. Add a SCRIPT, -m MODULE or -c CODE.")
    check_run_options(options)
    if options.sample_mode is not None:
        options.sample = 1000.0 if options.sample is None else options.sample
        options.sample_tasks |= options.sample_mode == "awaits"
    if options.flight_recorder is not None:
        from fastprof.cli.flight_run import run_under_recorder

        check_sample(options.sample)
        return run_under_recorder(call, options.flight_recorder or "1", options.sample)
    start_folder = working_folder()
    write_rank = None
    if options.ranks is not None:
        from fastprof.ranks.handler import RankTraceHandler

        write_rank = RankTraceHandler(
            options.ranks, keep_records=not options.no_keep_records, deferred=True
        )
        options.no_trace = options.no_trace or options.output is None
        options.no_table = True
    arguments = recording_arguments(options, calls_by_default=True)
    outputs = _outputs(options, call, arguments)
    if not options.no_table:
        check_table_options(options)
    file = arguments["backing_file"]
    profiler = profile(
        **arguments,
        keep_backing_file=file is not None,
        all_threads=not options.this_thread,
        on_trace_ready=write_rank,
    )
    if options.calibrate:
        profiler.calibrate()
    if options.nvtx:
        receive_nvtx()
    if options.itt:
        receive_itt()
    try:
        return record_program(
            profiler,
            call,
            "writing the trace",
            lambda raised: _report(profiler, options, outputs, start_folder, raised, write_rank),
            file,
        )
    finally:  # the program did not start, or printed its --help
        if write_rank is not None and not write_rank.failed:
            write_rank.forget()


def _outputs(
    options: argparse.Namespace, call: ProgramCall, arguments: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return (absolute path, format) of each file to write, validated before the program runs.

    arguments: those of profile().
    """
    found: list[tuple[str, str]] = []
    wants_html = _wants_html(options)
    if not options.no_trace and (options.output is not None or not wants_html):
        path = options.output or default_trace(call.file_stem, options.to)
        kind = format_of(path, options.to)
        if kind == "memory":
            if not arguments["profile_memory"]:
                raise errors.ValueError(
                    f"cannot write {path}: this format shows memory over time. Add --profile-memory."
                )
            check_memory_path(path)
        if kind == "pstats" and arguments["python_calls"] is False:
            raise errors.ValueError(
                f"cannot write {path}: this format shows calls of functions. Add --calls."
            )
        found.append((path, kind))
    if wants_html and (options.html or all(kind != "html" for _, kind in found)):
        found.append((str(html_path(options, call.file_stem)), "html"))
    check_outputs([path for path, _ in found], [call.file, arguments["backing_file"]])
    # Absolute paths, because the program may change its working folder.
    return [(absolute_path(path), kind) for path, kind in found]


def _wants_html(options: argparse.Namespace) -> bool:
    return options.html is not None or bool(options.open)


def _report(
    profiler: Any,
    options: argparse.Namespace,
    outputs: list[tuple[str, str]],
    start_folder: str,
    raised: BaseException | None,
    write_rank: Any = None,
) -> int:
    """Write the files and print the table; return 1 if something could not be written.

    write_rank: handler that writes this rank's shard, with --ranks.
    """
    has_calls = _has_calls(profiler)
    only_the_run = _only_the_run(profiler)
    exited = isinstance(raised, SystemExit)
    if only_the_run and _run_time_s(profiler) < _help_s(raised, has_calls):
        # The program printed its --help or a usage error: print nothing else.
        return 0
    nothing = only_the_run and not has_calls and not _has_samples(profiler)
    failed = 0
    if write_rank is not None:
        try:
            write_rank.write(profiler)
        except errors.Error as error:
            print_message(f"fastprof: error: {error}")
            failed = 1
    wrote: list[str] = []
    pages: list[str] = []
    if not (nothing and (exited or (options.output is None and not _wants_html(options)))):
        for wanted, asked in outputs:
            details = {"title": options.program.label, "sources": not options.no_source}
            details["my_code"] = options.my_code
            path, kind, problem = keep(profiler, wanted, asked, start_folder, details)
            failed = failed or problem
            if path:
                what = "kept the recording in" if problem else "wrote"
                wrote.append(f"fastprof: {what} {path}{_how_to_open(kind)}")
            if path and kind == "html":
                pages.append(path)
    if not options.no_table:
        try:
            _print_tables(profiler, options, has_calls)
        except Exception as error:
            print_message(f"fastprof: error: cannot print the table: {error!r}")
            failed = 1
    if options.follow:
        _report_processes(profiler)
    if hint := _hint(profiler, options):
        print_message(hint)
    if nothing:
        print_message(_why_nothing(profiler, options, bool(wrote)))
    for line in wrote:
        print_message(line)
    if options.open:
        for page in pages:
            open_report(page)
    return failed


def _report_processes(profiler: Any) -> None:
    processes = profiler.event_table.metadata.get("processes", ())
    print_message(f"fastprof: {counted(len(processes), 'process', 'processes')}")
    if "follow_children" in profiler.missing:
        print_message(f"Not recorded: {profiler.missing['follow_children']}")


def _print_tables(profiler: Any, options: argparse.Namespace, has_calls: bool) -> None:
    from fastprof.model.own_cost import own_use_text

    screen = Screen.of(sys.stderr)
    if not ((has_calls or _has_samples(profiler)) and _one_row(profiler)):  # one line, 100 %
        print_message(table_text(_events(profiler), options, screen, calls=False))
    table = profiler.event_table
    if has_calls:
        print_message("\n".join(calls_lines(table, options, screen)))
    if _has_samples(profiler):
        modes = [options.sample_mode or "wall"]
        if options.sample_tasks and options.sample_mode is None:
            modes.append("awaits")
        for mode in modes:
            samples = profiler.samples().table(
                mode=mode, row_limit=options.row_limit, max_width=screen.width or 0
            )
            print_message("\n".join(map(screen.line, samples.split("\n"))))
    elif options.sample is not None and "sample_hz" not in profiler.missing:
        print_message(
            "no samples: the program ended before the first one (--sample=HZ: more often)"
        )
    for line in () if _only_the_run(profiler) and not has_calls else summary_lines(table):
        print_message(screen.line(line))
    if own_use := own_use_text(table.metadata):
        print_message(screen.line(f"CPU time of fastprof itself: {own_use}"))


def _events(profiler: Any) -> Any:
    """Return the events; the outermost imports are not calls, so that their time is apart from the program's."""
    from fastprof.model.imports import Imports

    table = profiler.event_table
    imports = Imports(table)
    if not imports:
        return profiler.events()
    calls = table.column("is_python_function") & ~imports.rows
    return table.with_columns({"is_python_function": calls}).events()


def _has_calls(profiler: Any) -> bool:
    try:
        table = profiler.event_table
        calls = table.sites.column("is_python_function")
        return bool(calls[table.column("site")].any())
    except Exception:
        return False


def _has_samples(profiler: Any) -> bool:
    try:
        return len(profiler.samples()) > 0
    except Exception:
        return False


def _help_s(raised: BaseException | None, has_calls: bool) -> float:
    """Return the time within which a program that ended with `raised` only printed its help; 0.0 if it did not."""
    if not isinstance(raised, SystemExit):
        return 0.0
    at = raised.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    file = "" if at is None else at.tb_frame.f_code.co_filename
    if not has_calls or os.path.basename(file) in ("argparse.py", "optparse.py"):
        return _USAGE_S
    return _AT_ONCE_S if is_installed(file) or raised.code not in (None, 0) else 0.0


def _only_the_run(profiler: Any) -> bool:
    """Return whether nothing but the range around the whole run was recorded, apart from calls."""
    try:
        table = profiler.event_table
        calls = table.column("is_python_function")
        return int((~calls).sum()) <= 1 and not table.dropped
    except Exception:
        return False  # keep() then writes what it can


def _one_row(profiler: Any) -> bool:
    """Return whether the table of ranges has one row, that of the whole run: tasks are rows of no table."""
    import numpy as np

    from fastprof.model.sites import TASK_CATEGORIES

    if _only_the_run(profiler):
        return True
    table = profiler.event_table
    tasks = [category in TASK_CATEGORIES for category in table.sites.field("category")]
    shown = ~table.column("is_python_function") & ~np.array(tasks, np.bool_)[table.column("site")]
    return int(shown.sum()) <= 1 and not table.dropped


def _hint(profiler: Any, options: argparse.Namespace) -> str:
    try:
        return memory_hint(options, profiler.event_table)
    except Exception:
        return ""  # keep() has reported why there is no table


def _run_time_s(profiler: Any) -> float:
    table = profiler.event_table
    return float(table.t1_ns - table.t0_ns) / 1e9


def _why_nothing(profiler: Any, options: argparse.Namespace, wrote: bool) -> str:
    lines = [
        "fastprof: the program entered no range"
        + ("" if wrote or options.no_trace else ", so no trace was written")
        + ". fastprof records the ranges of the program and of annotated C++ libraries, and torch ops;"
        " without --no-calls, calls of functions, too. To add a range:",
        "    from fastprof import record_function",
        '    with record_function("load data"): ...',
    ]
    if options.this_thread:
        lines.append("--this-thread excluded all other threads.")
    for what, reason in profiler.missing.items():
        lines.append(f"Not recorded: {what}: {reason}")
    if "torch" in sys.modules and "torch_ops" in profiler.missing:
        lines.append("`fastprof doctor` lists what is unavailable here, and why.")
    return "\n".join(lines)


def _how_to_open(kind: str) -> str:
    if kind in ("chrome", "perfetto"):
        return "; open it at https://ui.perfetto.dev"
    if kind in ("speedscope", "folded"):
        return "; open it at https://www.speedscope.app"
    if kind == "gecko":
        return "; open it at https://profiler.firefox.com"
    if kind == "pprof":
        return "; open it with: go tool pprof -http=: FILE"
    if kind == "html":
        return "; open it in a browser"
    return "; print it with: fastprof report" if kind == "native" else ""
