# SPDX-License-Identifier: Apache-2.0
"""fastprof recover: read what a killed process had recorded."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastprof.base.formatting import counted
from fastprof.cli.formats import add_outputs_option, format_help, format_of, write_table
from fastprof.cli.options import Subparsers, command_parser
from fastprof.cli.report import add_report_options, check_report_options, report_table
from fastprof.cli.summary_lines import missing_lines
from fastprof.record.missing_counts import MISSING_COUNTS

if TYPE_CHECKING:
    from fastprof.model.table import EventTable

__all__ = ["add_parser"]

_EPILOG = f"""\
FILE is the backing file of a profile: `fastprof run --backing-file`, profile(backing_file=...) in Python,
SessionOptions::backing_file in C++; or the folder of profile(follow_children=True), whose processes
are merged. Its process may have been killed, or still run. The file stays. With --follow, the processes that
the program started are merged with it, if their folder is still there.
Prints what `fastprof report` prints, and what is missing: ranges that were open at the end are
listed, unfinished, up to the last time in the file.

examples:
  fastprof recover /dev/shm/run/records
  fastprof recover -o trace.json -o all.fastprof /dev/shm/run/records
  fastprof recover -o trace.json /dev/shm/fastprof-children-x8f_2k1q

{format_help()}"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "recover", "read what a killed process had recorded", _EPILOG)
    parser.add_argument("file", metavar="FILE")
    add_outputs_option(parser, "also write a trace (see formats)")
    parser.add_argument(
        "--session", type=int, default=0, metavar="ID", help="another session than the file's own"
    )
    add_report_options(parser)
    parser.set_defaults(command=recover)


def recover(options: argparse.Namespace) -> int:
    """Print the report and write the traces; return the exit code."""
    from fastprof import recover as read_backing_file

    kinds = [format_of(path, options.to) for path in options.output]
    check_report_options(options, [options.file], options.output)
    table = read_backing_file(options.file, session=options.session)
    # Before anything is printed: whoever reads stdout may leave before the end (`| head`).
    for path, kind in zip(options.output, kinds, strict=True):
        write_table(table, path, kind)
    if "processes" in table.metadata:
        _report_folder(options, table)
    else:
        _report_file(options, table)
    for path in options.output:
        print(f"wrote {path}")
    return 0


def _report_file(options: argparse.Namespace, table: EventTable) -> None:
    facts = table.metadata["recovered"]
    heading = f"{options.file} (backing file, {counted(os.path.getsize(options.file), 'byte')})"
    if not facts["session"]:
        state = "the process ended before its session had started"
    elif facts["ended"]:
        state = "the session was stopped"
    else:
        state = f"the session was not stopped: {counted(facts['open_ranges'], 'range')} open"
    notes = [*_metadata(facts), state, *_missing(facts), *missing_lines(table)]
    report_table(table, options, heading, notes)


def _report_folder(options: argparse.Namespace, table: EventTable) -> None:
    processes = table.metadata["processes"]
    sampled = {track.pid for track in table.tracks} - {each["pid"] for each in processes}
    count = len(processes) + len(sampled)
    facts = table.metadata.get("recovered")
    kind = "folder" if facts is None else "backing file"
    heading = f"{options.file} ({kind} of {counted(count, 'process', 'processes')})"
    notes: list[str] = []
    if facts is not None:
        from fastprof.record.shard_folder import FOLDER_FACT

        notes = [
            *_metadata(facts),
            f"remove {facts['metadata'][FOLDER_FACT]} when you have a trace",
        ]
    for process in processes:
        state = ", still running" if process["alive"] else ""
        notes.append(
            f"pid {process['pid']}, child of {process['parent_pid']}: {process['name']},"
            f" {counted(process['rows'], 'row')}, {process['open_ranges']} open{state}"
        )
    notes += [f"pid {pid}: samples; its flight recorder has the records" for pid in sorted(sampled)]
    notes += [f"missing: {problem}" for problem in table.metadata["problems"]]
    report_table(table, options, heading, notes)


def _metadata(facts: Mapping[str, Any]) -> list[str]:
    return [f"{key}: {value}" for key, value in facts["metadata"].items()]


def _missing(facts: Mapping[str, Any]) -> list[str]:
    return [f"missing: {facts[key]} {what}" for key, what in MISSING_COUNTS.items() if facts[key]]
