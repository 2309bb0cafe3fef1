# SPDX-License-Identifier: Apache-2.0
"""Read the shards of followed processes, and merge all processes into one capture on one clock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fastprof import _core
from fastprof.base import errors
from fastprof.record.missing_counts import MISSING_COUNTS
from fastprof.record.shard_folder import ShardFolder, activities_of, process_start

__all__ = [
    "Shard",
    "display_name",
    "incomplete",
    "join_sentences",
    "merge_processes",
    "name_from",
    "process_of",
    "read_shards",
]


class Shard(NamedTuple):
    """The records of one process while it executed one program."""

    path: str
    capture: _core.Capture
    facts: dict[str, Any]
    alive: bool
    """Whether the process still ran after the shard was read."""


def read_shards(folder: ShardFolder, max_bytes: int = 0) -> tuple[list[Shard], list[str]]:
    """Return the shards in the order in which they were created, and sentences that say what could not be read.

    max_bytes: limit of each file's size; 0: 16 GB.
    """
    shards: list[Shard] = []
    problems = [f"process {pid}: {line}" for pid, line in folder.notes()]
    for path in folder.shards():
        try:
            beside = activities_of(path)
            capture, facts = _core.recover(
                os.fsencode(path),
                session_id=0,
                max_bytes=max_bytes,
                activities=os.fsencode(beside) if os.path.exists(beside) else b"",
            )
        except errors.Error as error:
            problems.append(f"the records in {os.path.basename(path)} cannot be read: {error}")
            continue
        alive = process_start(capture.pid) == facts["process_start"]
        shards.append(Shard(path, capture, facts, alive))
    shards.sort(key=lambda shard: (shard.facts["opened_monotonic_ns"], shard.path))
    for shard in shards:
        problems += incomplete(shard)
    return shards, problems


def incomplete(shard: Shard) -> list[str]:
    """Return a sentence that says what is missing from a shard; [] if nothing is."""
    facts = shard.facts
    lost = [f"{facts[key]} {what}" for key, what in MISSING_COUNTS.items() if facts[key]]
    if not lost:
        return []
    text = f"process {shard.capture.pid}: missing are {', '.join(lost)}"
    if facts["fallback_slabs"] or facts["names_lost"]:
        text += f" (free space in the file system of {os.path.dirname(shard.path)}, or record less)"
    return [text]


def merge_processes(
    shards: Sequence[Shard],
    *,
    first: _core.Capture | None = None,
    unix_offset_ns: int,
    now_ns: int | None = None,
) -> _core.Capture:
    """Return one capture of all processes.

    first: the capture of the process that followed them, if available. unix_offset_ns: Unix time minus
    CLOCK_MONOTONIC for the result. now_ns: Unix time at which open ranges of processes that still run end.
    """
    parts: list[tuple[Any, int, int | None, str]] = []
    if first is not None:
        parts.append((first, 0, None, ""))
    latest = {shard.capture.pid: shard for shard in shards}
    for shard in shards:
        runs = now_ns if shard.alive and latest[shard.capture.pid] is shard else None
        shift = unix_offset_ns - int(shard.facts["unix_offset_ns"])
        parts.append((shard.capture, shift, runs, display_name(shard)))
    return _core.merge_captures(parts)


def display_name(shard: Shard) -> str:
    """Return the name of multiprocessing's process object, else of the script, else the kernel's process name."""
    return name_from(shard.facts["metadata"], str(shard.capture.process_name))


def name_from(metadata: Mapping[str, Any], otherwise: str) -> str:
    """Return display_name() from a process's metadata; otherwise: the kernel's name."""
    if "name" in metadata and metadata["name"] != "MainProcess":
        return str(metadata["name"])
    program = str(metadata.get("argv", "")).split(" ")[0]
    if program.endswith(".py"):
        return os.path.basename(program)
    return otherwise


def process_of(shard: Shard, shift_ns: int = 0) -> dict[str, Any]:
    """Return the description of a process for metadata["processes"] of a table.

    shift_ns: added to start_ns, to convert it to the clock of the merged capture.
    """
    facts = shard.facts
    process = {
        "pid": shard.capture.pid,
        "parent_pid": facts["parent_pid"],
        "name": display_name(shard),
        "start_ns": shard.capture.t0_ns + shift_ns,
        "rows": len(shard.capture),
        "open_ranges": facts["open_ranges"],
        "alive": shard.alive,
        **{key: value for key, value in facts["metadata"].items() if key != "name"},
    }
    process.update((key, facts[key]) for key in MISSING_COUNTS if facts[key])
    return process


def join_sentences(sentences: Iterable[str], most: int = 8) -> str:
    """Return the distinct sentences as one text: the first `most` of them, and the number of the others."""
    distinct = list(dict.fromkeys(sentences))
    more = f"; and {len(distinct) - most} more" if len(distinct) > most else ""
    return "; ".join(distinct[:most]) + more
