# SPDX-License-Identifier: Apache-2.0
"""Run a program with profile(follow_children=True) in a process of its own, and read what it reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastprof.model.table import EventKind

# Writes the report: events as (name, pid, start, end, finished, kind), and the processes.
REPORT = """
import json, os, signal, subprocess, sys, time
import fastprof
from fastprof import record_function

def report(prof, **more):
    table = prof.event_table
    track = table.column("track").tolist()
    more["events"] = [
        (table.name(i), table.tracks[track[i]].pid, int(table.start_ns[i]), int(table.end_ns[i]),
         bool(table.column("flags")[i] & 1), int(table.column("kind")[i]))
        for i in range(len(table))
    ]
    more["processes"] = table.metadata["processes"]
    more["threads"] = [t.id for t in table.tracks]
    more["missing"] = prof.missing
    more["window"] = [table.t0_ns, table.t1_ns]
    more["pid"] = os.getpid()
    with open(sys.argv[1], "w") as file:
        json.dump(more, file)
"""
TIMEOUT_S = 180
# Warnings are errors, except CPython 3.15's of a fork while there is another thread: it also counts
# the thread that faults in memory (fastprof-fault).
STRICT = ("-W", "error")
if sys.version_info >= (3, 15):
    STRICT += ("-W", "ignore:This process:DeprecationWarning")


def left_over(folder: Path) -> list[Path]:
    """Return the files that profiles have left in the folder for shards after the program's end."""
    return list((folder / "shards").iterdir())


def with_shards(folder: Path) -> Iterator[Path]:
    """Body of a fixture: yield a folder for shards and scripts; fail if a profile leaves files in it."""
    # Under a short path: multiprocessing puts sockets into TMPDIR, whose paths may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="fp") as short:
        (folder / "shards").symlink_to(short, target_is_directory=True)
        yield folder
        assert left_over(folder) == []


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment in which shards lie in folder/shards."""
    return {**os.environ, "TMPDIR": os.path.realpath(folder / "shards"), **more}


def program_of(folder: Path, body: str) -> list[str]:
    """Write the program into a script, and return the command that runs it."""
    (folder / "shards").mkdir(exist_ok=True)
    # Shards go to TMPDIR: in /dev/shm, those of other tests would be found.
    script = folder / "program.py"
    nowhere = "import fastprof.record.shard_folder as _f\n_f._shared_memory = lambda: None\n"
    script.write_text(REPORT + nowhere + textwrap.dedent(body))
    return [sys.executable, *STRICT, str(script), str(folder / "result.json")]


def followed(folder: Path, body: str, *, expect: int = 0, **more: str) -> dict[str, Any]:
    """Run a program and return its report."""
    done = subprocess.run(
        program_of(folder, body),
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == expect, done.stderr
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    result["stderr"] = done.stderr
    return result


def ranges(result: dict[str, Any], name: str) -> list[Any]:
    """Return the ranges of a name: (name, pid, start, end, finished, kind)."""
    return [event for event in result["events"] if event[0] == name and event[5] == EventKind.RANGE]


def pids_of(result: dict[str, Any], name: str) -> set[int]:
    """Return the processes that have a range of a name."""
    return {event[1] for event in ranges(result, name)}


def check_links(result: dict[str, Any]) -> None:
    """Check that each process but the first has an arrow from its parent, within the parent's time."""
    ends = [event for event in result["events"] if event[5] == EventKind.FLOW_END]
    children = {process["pid"] for process in result["processes"]} - {result["pid"]}
    assert {event[1] for event in ends if event[0] == "child process"} == children
    begins = [event for event in result["events"] if event[5] == EventKind.FLOW_BEGIN]
    known = {process["pid"] for process in result["processes"]}
    for process in result["processes"][1:]:
        assert process["parent_pid"] in known
        assert any(event[1] == process["parent_pid"] for event in begins)


def check_order(result: dict[str, Any]) -> None:
    """Check that events of children lie within the parent's enclosing range."""
    (around,) = ranges(result, "around")
    for name, pid, start, end, *_ in result["events"]:
        if pid != result["pid"]:
            assert around[2] <= start <= end <= around[3], name
    assert len(result["threads"]) == len(set(result["threads"]))
