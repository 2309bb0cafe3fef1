# SPDX-License-Identifier: Apache-2.0
"""fastprof report: print the table of a trace file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.base.short_paths import shorten_paths
from fastprof.cli.aggregates import are_aggregates, report_aggregates
from fastprof.cli.calls_text import notes_on_calls, shown_calls
from fastprof.cli.html import add_html_options, html_path, print_written, write_report
from fastprof.cli.loading import load_traces
from fastprof.cli.merge import merge_lines
from fastprof.cli.options import (
    Subparsers,
    add_reading_options,
    add_table_options,
    check_table_options,
    command_parser,
    table_text,
)
from fastprof.cli.outputs import check_outputs
from fastprof.cli.screen import Screen, paged
from fastprof.cli.summary_lines import dump_lines, missing_lines, summary_lines

__all__ = [
    "add_parser",
    "add_report_options",
    "check_report_options",
    "report_table",
    "trace_notes",
]

_EPILOG = """\
FILE is a trace of fastprof (.fastprof, Chrome JSON, .pftrace) or of torch.profiler, gzipped or not; the
format is detected from the content. - is standard input. Aggregates of a flight recorder are printed with
their quantiles (docs/always_on.md); those of several processes or ranks are added up. On a terminal the table
is cut to its width, with colours and bars (NO_COLOR, FORCE_COLOR and TERM=dumb are honoured); in a pipe or
file all columns are printed in full, plain.

examples:
  fastprof report train.trace.json
  fastprof report --sort-by cpu_time_total --row-limit 10 train.fastprof
  fastprof report --by-shape torch_trace.json.gz
  ssh server cat train.fastprof | fastprof report -
  fastprof report --csv averages.csv train.fastprof
  fastprof report train.trace.json --html --open
  fastprof report --tree --depth 4 --min-percent 2 torch_trace.json.gz
  fastprof report --flame --pager train.fastprof
  fastprof report rank0.json rank1.json --html all.html
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "report", "print the table of a trace", _EPILOG)
    parser.add_argument("file", metavar="FILE", nargs="?", help="the trace to read")
    parser.add_argument(
        "more", metavar="MORE", nargs="*", help="traces of other processes, for one timeline of all"
    )
    add_report_options(parser)
    add_reading_options(parser)
    parser.set_defaults(command=report)


def report(options: argparse.Namespace) -> int:
    """Print the report; return the exit code."""
    _take_file(options)
    files = [options.file, *options.more]
    if are_aggregates(files):
        return report_aggregates(files, options)
    check_report_options(options, files)
    table = load_traces(files, options)
    kind = table.metadata.get("format", "fastprof")
    notes = trace_notes(table)
    if options.subtract_overhead:
        table = table.without_overhead()
        notes.append("what recording cost is taken out of the times")
    if options.more:
        heading = f"{', '.join(files)} ({kind})"
        notes = [*notes, *merge_lines(table)]
    elif options.file == "-":
        heading = f"standard input ({kind})"
    else:
        heading = f"{options.file} ({kind}, {counted(os.path.getsize(options.file), 'byte')})"
    report_table(table, options, heading, notes)
    return 0


def trace_notes(table: Any) -> list[str]:
    """Return lines about what is wrong with a trace, and what of its file was not read."""
    from fastprof.analysis.trace_checks import trace_problems, unread_text

    unread = unread_text(table.metadata)
    problems = [*dump_lines(table), *missing_lines(table)]
    problems += [f"problem: {text}" for text in trace_problems(table)]
    samples = table.metadata.get("stack_samples")
    if type(samples) is int:
        note = (
            "times are estimates, and calls are runs of samples in which a function is on the stack"
        )
        problems.append(f"{counted(samples, 'sample')}: {note}")
    sampling = table.metadata.get("sampling")
    missed = sampling.get("missed_ticks") if isinstance(sampling, Mapping) else None
    if type(missed) is int and missed > 0:
        problems.append(f"{counted(missed, 'tick')} missed: the sampler waited for a CPU")
    return [*problems, f"not read: {unread}"] if unread else problems


def _take_file(options: argparse.Namespace) -> None:
    """Set options.file for `fastprof report --html FILE`, where argparse takes FILE as the path of the report."""
    if options.file is not None:
        return
    if not options.html or options.html.removesuffix(".gz").endswith((".html", ".htm")):
        raise errors.ValueError("no trace to read. Add FILE, or - for standard input.")
    options.file, options.html = options.html, ""


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of report_table()."""
    add_table_options(parser)
    group = parser.add_argument_group("other forms of text")
    group.add_argument(
        "--tree", action="store_true", help="print the tree of ranges, merged by name, instead"
    )
    group.add_argument("--flame", action="store_true", help="print a flame graph of text instead")
    group.add_argument("--depth", type=int, metavar="N", help="levels of the tree or flame graph")
    group.add_argument(
        "--min-percent",
        type=float,
        default=0.5,
        metavar="P",
        help="leave out branches of the tree with less of the total time (%(default)s)",
    )
    group.add_argument(
        "--subtract-overhead",
        action="store_true",
        help="take what recording cost out of the times (of a trace by `fastprof run --calibrate`)",
    )
    group.add_argument(
        "--pager",
        action="store_true",
        help="on a terminal, show the text in $PAGER (default: less)",
    )
    group.add_argument(
        "--memory",
        action="store_true",
        help="print what memory was in use, instead: sums, the peak and what it consists of, long-lived "
        "temporaries, requests that failed",
    )
    parser.add_argument("--csv", metavar="PATH", help="also write the averages as CSV")
    parser.add_argument("--json", metavar="PATH", help="also write the averages as JSON")
    add_html_options(parser)


def check_report_options(
    options: argparse.Namespace, inputs: Sequence[str], outputs: Sequence[str] = ()
) -> None:
    """Raise errors.Error for invalid options of report_table() and for files that cannot be written.

    inputs: the files that the command reads. outputs: those that it writes itself.
    """
    check_table_options(options)
    if options.depth is not None and options.depth < 1:
        raise errors.ValueError(f"invalid --depth {options.depth}. Use 1 or more levels.")
    if not 0 <= options.min_percent <= 100:
        raise errors.ValueError(f"invalid --min-percent {options.min_percent}. Use 0 to 100.")
    options.html = html_path(options, options.file)
    check_outputs([*outputs, options.csv, options.json, options.html], inputs)


def report_table(table: Any, options: argparse.Namespace, heading: str, notes: list[str]) -> None:
    """Write the files that the options name; print the heading, a line about the process, the notes, and the averages.

    The files come first: whoever reads stdout may leave before the end (`| head`).
    """
    screen = Screen.of(sys.stdout)
    events = shown_calls(table, options).events()
    _write_files(table, events, options, notes)
    with paged(options.pager):
        print(heading)
        _print_report(table, events, options, notes, screen)
        if options.html:
            print_written(options.html, options)


def _print_report(
    table: Any, events: Any, options: argparse.Namespace, notes: list[str], screen: Screen
) -> None:
    from fastprof.model.own_cost import own_use_text

    text = _text(events, options, screen)
    span_ms = (table.t1_ns - table.t0_ns) / 1e6
    name = table.process_name or "a process"
    pid = f", pid {table.pid}" if table.pid else ""  # 0: a file that does not say
    threads = len(set(table.recording_thread.tolist()))
    head = (
        f"{name}{pid}: {counted(len(table), 'row')} on {counted(threads, 'thread')} "
        f"in {span_ms:.3f} ms"
    )
    for line in (head, *notes):
        print(screen.line(line))
    print(text if text else "the trace contains no ranges")
    if not (options.tree or options.flame or options.memory):
        for line in (*notes_on_calls(table), *summary_lines(table)):
            print(screen.line(line))
        if own_use := own_use_text(table.metadata):
            print(screen.line(f"CPU time of fastprof itself: {own_use}"))


def _write_files(table: Any, events: Any, options: argparse.Namespace, notes: list[str]) -> None:
    if options.html:
        from fastprof.model.imports import own_code

        shown = own_code(table) if options.my_code else table
        write_report(shown, options.html, options, notes)
    if not (options.csv or options.json):
        return
    averages = events.key_averages(
        group_by_input_shape=options.by_shape,
        group_by_stack_n=options.by_stack,
        include_python_functions=True,
    )
    if options.csv:
        averages.export_csv(options.csv)
    if options.json:
        averages.export_json(options.json)


def _text(events: Any, options: argparse.Namespace, screen: Screen) -> str:
    """Return the table, or those of memory, tree and flame graph that the options select."""
    from fastprof.views.flame_text import flame_text
    from fastprof.views.tree_text import TreeOptions, tree_text

    if not (options.tree or options.flame or options.memory):
        return table_text(events, options, screen)
    parts = []
    if options.memory:
        from fastprof.analysis.memory_summary import memory_report

        text = memory_report(events.to_table()).text(
            options.row_limit if options.row_limit >= 0 else 1 << 30
        )
        parts.append("\n".join(screen.line(shorten_paths(line)) for line in text.split("\n")))
    if options.tree:
        limits = TreeOptions(
            options.depth, options.min_percent, options.time_unit, screen.width, screen.style
        )
        parts.append(tree_text(events, limits))
    if options.flame:
        parts.append(
            flame_text(events, screen.width_or_default, max_depth=options.depth, style=screen.style)
        )
    return "\n".join(part for part in parts if part)
