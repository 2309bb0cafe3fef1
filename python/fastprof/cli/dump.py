# SPDX-License-Identifier: Apache-2.0
"""fastprof dump: read the last seconds of a process with a flight recorder, running or killed."""

from __future__ import annotations

import argparse
import contextlib
import os

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.cli.ask import PROCESSES, choose, default_stem
from fastprof.cli.formats import add_outputs_option, format_help, format_of, write_table
from fastprof.cli.options import Subparsers, check_seconds, command_parser
from fastprof.cli.outputs import check_outputs
from fastprof.formats.backing_file import BACKING_MAGIC

__all__ = ["add_parser"]

_EPILOG = f"""\
PROCESS is {PROCESSES}; or the file of a recorder. The process is neither stopped nor asked: its memory is
copied from a file. So this works while it hangs, while another thread holds the GIL, and after it was killed.
Without -o, the copy is PROGRAM-PID.flight in this folder: `fastprof report` and all commands that read traces
read it.

examples:
  fastprof dump 4711
  fastprof dump -o last.pftrace train.py
  fastprof dump --seconds 2 -o last.html 4711

{format_help()}"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(
        commands, "dump", "write the last seconds of a process, running or killed", _EPILOG
    )
    parser.add_argument("process", metavar="PROCESS")
    add_outputs_option(parser, "a new .flight file, or a trace (see formats)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=30.0,
        metavar="N",
        help="the last so many seconds (default: %(default)g)",
    )
    parser.set_defaults(command=dump)


def dump(options: argparse.Namespace) -> int:
    """Write the files; return the exit code."""
    from fastprof.flight_recorder.dumps import SUFFIX, lost_records, read_dump, write_dump

    check_seconds(options.seconds)
    records, stem = _records_of(options.process)
    outputs = options.output or [stem + SUFFIX]
    copies = [path for path in outputs if path.endswith(SUFFIX) and options.to is None]
    traces = [(path, format_of(path, options.to)) for path in outputs if path not in copies]
    check_outputs([path for path, _ in traces], [records])
    copy = copies[0] if copies else f"{records}.{os.urandom(4).hex()}.part"
    try:
        if os.path.lexists(copy):
            raise errors.IoError(f"{copy} exists: choose another name with -o")
        write_dump(records, copy, "fastprof dump", seconds=options.seconds)
        for path in copies[1:]:
            write_dump(copy, path, "fastprof dump", seconds=options.seconds)
        table = read_dump(copy)
        for path, kind in traces:
            write_table(table, path, kind)
    finally:
        if not copies:
            with contextlib.suppress(OSError):
                os.unlink(copy)
    span_s = (table.t1_ns - table.t0_ns) / 1e9
    what = f"{counted(len(table), 'event')} of the last {span_s:.3f} s, {table.unfinished} open"
    for path in outputs:
        print(f"wrote {path}: {what}")
    for line in lost_records(table):
        print(line)
    return 0


def _records_of(wanted: str) -> tuple[str, str]:
    """Return the file to read, and the default stem of what is written."""
    of_file = wanted, os.path.splitext(os.path.basename(wanted))[0]
    if _is_records(wanted):
        return of_file
    try:
        process = choose(wanted, dead=True)[0]
    except errors.ValueError:
        if os.path.isfile(wanted):  # reading says what is wrong with it
            return of_file
        raise
    if not process.records:
        raise errors.UnavailableError(
            f"process {process.pid} has no records yet; `fastprof profile {process.pid}` makes a profile"
        )
    return process.records[-1], default_stem(process.pid)


def _is_records(path: str) -> bool:
    """Return whether a path is a backing file, and not the script of a program that runs here."""
    try:
        with open(path, "rb") as file:
            return file.read(len(BACKING_MAGIC)) == BACKING_MAGIC
    except (OSError, ValueError):
        return False
