# SPDX-License-Identifier: Apache-2.0
"""fastprof ps: list the processes of this user that have a flight recorder, or all that run Python."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from fastprof.base import errors
from fastprof.cli.ask import ask, command_of
from fastprof.cli.options import Subparsers, command_parser

__all__ = ["add_parser"]

_EPILOG = """\
A process has one if it was started by `fastprof run --flight-recorder`, with FASTPROF_FLIGHT_RECORDER=1 in its
environment (and imports fastprof), or calls flight_recorder.start(). Processes that have been killed are listed with
what they left: `fastprof dump PID` shows their last seconds.

With --all, Python processes without a recorder are listed, too, with the version of their interpreter as the state:
`fastprof attach PID` profiles one of them.

examples:
  fastprof ps
  fastprof ps --all
  fastprof ps --as-json
"""


def add_parser(commands: Subparsers) -> None:
    """Add the subcommand's parser."""
    parser = command_parser(commands, "ps", "list processes with a flight recorder", _EPILOG)
    parser.add_argument(
        "--all", action="store_true", help="also Python processes without a recorder (Linux)"
    )
    parser.add_argument("--as-json", action="store_true", help="one JSON object a line")
    parser.set_defaults(command=ps)


def ps(options: argparse.Namespace) -> int:
    """Print the list; return the exit code."""
    from fastprof.record.process_folder import find_processes

    rows = [_row(each) for each in find_processes() if each.alive or each.records]
    if options.all:
        known = {row["pid"] for row in rows if row["state"] != "ended"}
        rows = sorted([*rows, *_others(known)], key=lambda row: int(row["pid"]))
    if options.as_json:
        for row in rows:
            print(json.dumps(row))
        return 0
    if not rows:
        what = "runs Python" if options.all else "has a flight recorder"
        print(f"no process of this user {what} (fastprof ps --help)")
        return 0
    print(f"{'PID':>8} {'STATE':<10} {'SINCE':<8} {'MEMORY':>9} {'STEPS':>8}  COMMAND")
    for row in rows:
        since = time.strftime("%H:%M:%S", time.localtime(row["since_unix_s"]))
        memory = f"{row['memory_bytes'] / 2**20:.0f} MiB" if row["records"] else ""
        steps = "" if row["steps"] is None else row["steps"]
        words = " ".join(row["command"].split())
        print(f"{row['pid']:>8} {row['state']:<10} {since:<8} {memory:>9} {steps:>8}  {words}")
    return 0


def _others(known: set[int]) -> Iterator[dict[str, Any]]:
    """Yield the rows of Python processes that are not in `known`."""
    from fastprof.attach.processes import python_processes, started_unix_s

    for each in python_processes() if sys.platform == "linux" else ():
        if each.pid not in known:
            yield {
                "pid": each.pid,
                "state": f"python{each.version}",
                "since_unix_s": started_unix_s(each.pid),
                "memory_bytes": 0,
                "steps": None,
                "records": [],
                "command": command_of(each.pid),
            }


def _row(process: Any) -> dict[str, Any]:
    from fastprof.flight_recorder.dumps import command_of_records

    row: dict[str, Any] = {
        "pid": process.pid,
        "state": "ended",
        "since_unix_s": 0.0,
        "memory_bytes": 0,
        "steps": None,
        "records": process.records,
        "command": command_of(process.pid)
        if process.alive
        else command_of_records(process.records[-1]),
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
    idle = "recording" if answer.get("recorder") else "attached"
    row["state"] = "profiling" if answer.get("profile") else idle
    row["since_unix_s"] = answer.get("since_unix_s", 0.0)
    row["steps"] = (answer.get("recorder") or {}).get("steps")
    row["recorder"] = answer.get("recorder")
    return row
