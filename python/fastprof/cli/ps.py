# SPDX-License-Identifier: Apache-2.0
"""fastprof ps: list the processes of this user that have a flight recorder."""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

from fastprof.base import errors
from fastprof.cli.ask import ask, command_of
from fastprof.cli.options import Subparsers, command_parser

__all__ = ["add_parser"]

_EPILOG = """\
A process has one if it was started by `fastprof run --flight-recorder`, with FASTPROF_FLIGHT_RECORDER=1 in its
environment (and imports fastprof), or calls flight_recorder.start(). Processes that have been killed are listed with
what they left: `fastprof dump PID` shows their last seconds.

examples:
  fastprof ps
  fastprof ps --as-json
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "ps", "list processes with a flight recorder", _EPILOG)
    parser.add_argument("--as-json", action="store_true", help="one JSON object a line")
    parser.set_defaults(command=ps)


def ps(options: argparse.Namespace) -> int:
    """Print the list; return the exit code."""
    from fastprof.record.process_folder import find_processes

    rows = [_row(each) for each in find_processes()]
    if options.as_json:
        for row in rows:
            print(json.dumps(row))
        return 0
    if not rows:
        print("no process has a flight recorder (fastprof ps --help)")
        return 0
    print(f"{'PID':>8} {'STATE':<10} {'SINCE':<8} {'MEMORY':>9} {'STEPS':>8}  COMMAND")
    for row in rows:
        since = time.strftime("%H:%M:%S", time.localtime(row["since_unix_s"]))
        memory = f"{row['memory_bytes'] / 2**20:.0f} MiB"
        steps = "" if row["steps"] is None else row["steps"]
        print(
            f"{row['pid']:>8} {row['state']:<10} {since:<8} {memory:>9} {steps:>8}  {row['command']}"
        )
    return 0


def _command_then(records: list[str]) -> str:
    from fastprof import recover

    try:
        facts = recover(records[-1]).metadata["recovered"]["metadata"]
    except (errors.Error, LookupError):
        return ""
    return str(facts.get("argv", ""))


def _row(process: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "pid": process.pid,
        "state": "ended",
        "since_unix_s": 0.0,
        "memory_bytes": 0,
        "steps": None,
        "records": process.records,
        "command": command_of(process.pid) if process.alive else _command_then(process.records),
    }
    for path in process.records:
        try:
            facts = os.stat(path)
        except OSError:
            continue
        row["memory_bytes"] += facts.st_blocks * 512
        row["since_unix_s"] = row["since_unix_s"] or facts.st_ctime
    if not process.alive:
        return row
    if process.socket is None:  # of C++, or FASTPROF_CONTROL=0
        row["state"] = "recording"
        return row
    try:
        answer = ask(process, {"do": "status"}, 1.0)
    except errors.UnavailableError:
        row["state"] = "silent"
        return row
    row["state"] = "profiling" if answer.get("profile") else "recording"
    row["since_unix_s"] = answer.get("since_unix_s", 0.0)
    row["steps"] = (answer.get("recorder") or {}).get("steps")
    row["recorder"] = answer.get("recorder")
    return row
