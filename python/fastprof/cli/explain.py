# SPDX-License-Identifier: Apache-2.0
"""fastprof explain: report in words where the time of a step went, which steps were slow, and what to do first."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from fastprof.base import errors
from fastprof.cli.loading import load_traces
from fastprof.cli.options import Subparsers, add_reading_options, command_parser
from fastprof.cli.outcome import print_message
from fastprof.cli.outputs import check_outputs
from fastprof.cli.parser import OldSpelling
from fastprof.cli.program_call import ProgramCall
from fastprof.cli.program_recording import record_program
from fastprof.cli.recording_options import (
    add_recording_options,
    memory_hint,
    recording_arguments,
    recording_options_given,
)
from fastprof.cli.screen import Screen
from fastprof.cli.summary_lines import dump_lines, missing_lines

__all__ = ["add_parser"]

_EPILOG = """\
Steps are the ranges "ProfilerStep#N" that a schedule makes, or those of --step; without any, a step is
from one end of a step of torch's optimizer to the next. Nothing is said where nothing is wrong. Each
claim in the JSON has its figure (ns, or bytes for memory) and the rows of the events behind it.

--live runs a program, as `fastprof run` does, and explains it when it ends: PROGRAM is a script, a folder
or zip file with a __main__.py, -m MODULE, -c CODE or - (standard input); all later words are its arguments.
Calls and garbage collections are recorded, so that waits are seen (--no-calls: ranges and ops only);
no trace is written. The explanation goes to stderr, or to the file of --explanation. The exit code is
the program's.

examples:
  fastprof explain train.trace.json
  fastprof explain --step "train step" train.fastprof
  fastprof explain --as-json torch_trace.json.gz
  fastprof explain --live train.py --epochs 3
  fastprof explain --live --as-json --explanation why.json --profile-memory -m package.train
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "explain", "say where a step's time went and why", _EPILOG)
    parser.usage = (
        f"{parser.prog} [options] FILE\n"
        f"       {parser.prog} --live [options] (SCRIPT | -m MODULE | -c CODE | -) [ARG ...]"
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="the trace to read; - is standard input"
    )
    parser.add_argument(
        "more", metavar="MORE", nargs="*", help="traces of other processes, for one timeline of all"
    )
    parser.add_argument(
        "--live", action="store_true", help="run a program and explain it when it ends"
    )
    # For the help text only: program_call.py extracts these before argparse parses the line.
    parser.add_argument("-m", metavar="MODULE", help="with --live: run a module, like python -m")
    parser.add_argument("-c", metavar="CODE", help="with --live: run code, like python -c")
    parser.add_argument("--step", metavar="NAME", help="name of the ranges that are steps")
    as_json = parser.add_argument(
        "--as-json", action="store_true", help="print JSON instead of text"
    )
    file = parser.add_argument(
        "--explanation", metavar="PATH", help="write the explanation to a file instead"
    )
    parser.add_argument("--json", action=OldSpelling, now=as_json)
    parser.add_argument("-o", "--output", action=OldSpelling, now=file)
    parser.add_argument(
        "--my-code", action="store_true", help="list only calls of the program's own files"
    )
    add_reading_options(parser)
    add_recording_options(parser)
    parser.set_defaults(command=explain_command)


def explain_command(options: argparse.Namespace) -> int:
    """Explain a file, or a program that is run; return the exit code."""
    from fastprof.analysis.trace_checks import trace_problems

    call: ProgramCall | None = getattr(options, "program", None)
    if options.explanation is not None:
        inputs = [options.file, *options.more]
        check_outputs([options.explanation], [*inputs, None if call is None else call.file])
        options.explanation = os.path.abspath(
            options.explanation
        )  # the program may change its folder
    if options.live:
        if call is None:
            raise errors.ValueError("no program to run. Add a SCRIPT, -m MODULE or -c CODE.")
        return _explain_program(options, call)
    if options.file is None or options.m or options.c:
        raise errors.ValueError(
            "no file to explain. Add the path of a trace, or --live before a program."
        )
    if given := recording_options_given(options):
        raise errors.ValueError(
            f"{', '.join(given)}: of a recording, and {options.file} is one already. Leave it out, or record with"
            " --live before a program."
        )
    table = load_traces([options.file, *options.more], options)
    problems = trace_problems(table)
    text = _text(table, options, problems=problems)
    if not options.as_json:
        facts = [*dump_lines(table), *missing_lines(table)]
        facts += [f"problem: {problem}" for problem in problems]
        text = "\n".join([*facts, text])
    if options.explanation is not None:
        _write(options.explanation, text)
        return 0
    screen = Screen.of(sys.stdout)
    print("\n".join(screen.line(line) for line in text.splitlines()))
    return 0


def _explain_program(options: argparse.Namespace, call: ProgramCall) -> int:
    from fastprof import _ExperimentalConfig, profile

    arguments = recording_arguments(options, calls_by_default=True)
    file = arguments["backing_file"]
    profiler = profile(
        **arguments,
        keep_backing_file=file is not None,
        experimental_config=_ExperimentalConfig(record_python_gc_info=True),
    )

    def report(raised: BaseException | None) -> int:
        failed = 0
        try:
            text = _text(profiler, options)
        except errors.Error as error:
            print_message(f"fastprof: error: {error}")
            if options.step is None:
                return 2
            # A wrong name of a step must not cost the run: explain it without steps.
            options.step, failed = None, 2
            text = _text(profiler, options)
        if options.explanation is not None:
            _write(options.explanation, text)
            print_message(f"fastprof: wrote {options.explanation}")
            return failed
        screen = Screen.of(sys.stderr)
        text += "\n" * 2 + hint if (hint := memory_hint(options, profiler.event_table)) else ""
        print_message("\n".join(screen.line(line) for line in text.splitlines()))
        return failed

    return record_program(profiler, call, "the explanation", report, file)


def _text(source: Any, options: argparse.Namespace, **more: Any) -> str:
    """Return the explanation as text or JSON. more: further members of the JSON."""
    from fastprof.analysis.explanation import explain

    found = explain(source, step=options.step, my_code=options.my_code)
    return json.dumps({**found.to_dict(), **more}, indent=1) if options.as_json else found.text()


def _write(path: str, text: str) -> None:
    from fastprof.base.atomic_file import atomic_text

    with atomic_text(path) as file:
        file.write(text + "\n")
