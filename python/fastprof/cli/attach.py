# SPDX-License-Identifier: Apache-2.0
"""fastprof attach: a profile of a running Python process that never imported fastprof."""

from __future__ import annotations

import argparse
import sys

from fastprof.base import errors
from fastprof.base.atomic_file import check_output
from fastprof.cli.ask import ask, find_alive
from fastprof.cli.formats import format_help, format_of, write_table
from fastprof.cli.options import Subparsers, check_seconds, command_parser
from fastprof.cli.outcome import print_message
from fastprof.cli.profile import (
    INTERRUPTED,
    add_output_options,
    add_profile_options,
    output_path,
    print_written,
    profile_options,
    wait_for_profiles,
)

__all__ = ["add_parser"]

_SAMPLES_HZ = 1000.0
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
        return INTERRUPTED


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
        "format": options.to,
        "leave": True,
    }
    process = find_alive(options.pid)
    if process is None or process.socket is None:
        from fastprof.attach import connection

        process = connection.attach(options.pid)
    found = process

    def written() -> int:
        print_written(ask(found, request, 600.0 + options.seconds))
        return 0

    return wait_for_profiles([found], written)


def _sample(options: argparse.Namespace, path: str) -> int:
    """Sample from outside, write the trace, print the shares; return the exit code."""
    if set(profile_options(options)) != {"sample_hz"}:
        raise errors.ValueError("--outside samples stacks only. Use it with --sample alone.")
    from fastprof.attach.outside import sample_from_outside
    from fastprof.views.samples import Samples

    kind = format_of(path, options.to)
    if kind == "pstats":
        raise errors.ValueError(
            f"cannot write {path}: this format shows calls of functions, which --outside does not see. Use"
            " --calls without --outside."
        )
    check_output(path)
    found = sample_from_outside(options.pid, options.sample, options.seconds)
    write_table(found.table, path, kind)
    if found.stacks is not None:
        print(Samples(found.stacks).table())
    for note in found.notes:
        print(f"fastprof: {note}", file=sys.stderr)
    print_written({"path": path, "rows": len(found.table), "missing": {}})
    return 0
