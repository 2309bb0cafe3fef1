# SPDX-License-Identifier: Apache-2.0
"""fastprof attach: a profile of a running Python process that never imported fastprof."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fastprof.base import errors
from fastprof.cli.ask import ask, find_alive
from fastprof.cli.formats import format_help, format_of, write_table
from fastprof.cli.options import Subparsers, check_seconds, command_parser
from fastprof.cli.outcome import check_output, patient_with_ctrl_c, print_message
from fastprof.cli.profile import (
    add_output_options,
    add_profile_options,
    output_path,
    print_written,
    profile_options,
)

if TYPE_CHECKING:
    from fastprof.record.process_folder import FoundProcess

__all__ = ["add_parser"]

_SAMPLES_HZ = 1000.0
_INTERRUPTED = 130  # exit status, as of shells
_EPILOG = f"""\
PID is that of a Python process of this user, which need not know fastprof: `fastprof ps --all` lists them. It must
run the same version of CPython as this command. Up to 3.13 its main thread is stopped for some milliseconds
(ptrace); from 3.14 on the interpreter itself is asked. It then loads fastprof on a thread, records, writes the trace,
and closes what it has opened. It is not restarted, and goes on if this command is killed. Ctrl-C ends the recording
early; the trace is written.

Without --sample or --calls, stacks are sampled at {_SAMPLES_HZ:g} Hz. With --outside, they are read from here, of this
version of CPython and of 3.13 to 3.15; of others by py-spy, if it is installed.

examples:
  fastprof attach 4711
  fastprof attach 4711 --seconds 30 --sample=100 -o slow.html
  fastprof attach 4711 --outside
  fastprof attach 4711 --calls --with-stack -o calls.pftrace

{format_help()}"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(
        commands, "attach", "profile a running Python process that never imported fastprof", _EPILOG
    )
    parser.add_argument("pid", type=int, metavar="PID")
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="N",
        help="for so long (default: %(default)g)",
    )
    parser.add_argument(
        "--outside",
        action="store_true",
        help="sample by reading its memory: nothing is put into it, and it is not stopped",
    )
    add_output_options(parser)
    add_profile_options(parser)
    parser.set_defaults(command=attach)


def attach(options: argparse.Namespace) -> int:
    """Attach, profile, and detach; return the exit code."""
    try:
        return _attach(options)
    except KeyboardInterrupt:
        print_message(f"fastprof: interrupted; process {options.pid} goes on")
        return _INTERRUPTED


def _attach(options: argparse.Namespace) -> int:
    check_seconds(options.seconds)
    path = output_path(options, options.pid, several=False)
    if options.sample is None and not options.calls:
        options.sample = _SAMPLES_HZ
    if options.outside:
        return _sample(options, path)
    request = {
        "do": "profile",
        "options": profile_options(options),
        "seconds": options.seconds,
        "path": path,
        "leave": True,
    }
    process = find_alive(options.pid)
    if process is None or process.socket is None:
        from fastprof.attach import connection

        process = connection.attach(options.pid)
    return _profile(process, request)


def _profile(process: FoundProcess, request: dict[str, Any]) -> int:
    """Have the process profile itself, until Ctrl-C at the latest; return the exit code."""
    interrupted = False

    def end() -> None:
        nonlocal interrupted
        interrupted = True
        try:
            ask(process, {"do": "end"}, 5.0)
        except errors.UnavailableError as error:
            print_message(f"fastprof: {error}")

    with patient_with_ctrl_c("ending the recording", end):
        print_written(ask(process, request, 600.0 + request["seconds"]))
    return _INTERRUPTED if interrupted else 0


def _sample(options: argparse.Namespace, path: str) -> int:
    """Sample from outside, write the trace, print the shares; return the exit code."""
    if set(profile_options(options)) != {"sample_hz"}:
        raise errors.ValueError("--outside samples stacks only. Use it with --sample alone.")
    from fastprof.attach.outside import sample_from_outside
    from fastprof.views.samples import Samples

    kind = format_of(path, options.to)
    check_output(path)
    found = sample_from_outside(options.pid, options.sample, options.seconds)
    write_table(found.table, path, kind)
    if found.stacks is not None:
        print(Samples(found.stacks).table())
    for note in found.notes:
        print(f"fastprof: {note}", file=sys.stderr)
    print_written({"path": path, "rows": len(found.table), "missing": {}})
    return 0
