# SPDX-License-Identifier: Apache-2.0
"""converted: a folder of traces as a folder of shards, in parallel processes, each trace once.

Shards lie in the folder ".fastprof-ranks" beside the traces, or, where that cannot be written, in a temporary one. A
trace is converted again when its size or time changes. Run as a program, this module converts some traces.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.exporters.progress import terminal_progress
from fastprof.importers.any_format import load
from fastprof.importers.memory_budget import DEFAULT_MAX_MEMORY_BYTES
from fastprof.ranks.engines import map_over
from fastprof.ranks.environment import RankFacts, groups_of
from fastprof.ranks.shard import shard_stem, write_shard

__all__ = ["CACHE", "converted", "source_stamp", "traces_among"]

CACHE = ".fastprof-ranks"
_TRACES = re.compile(r".+\.(json|json\.gz|pftrace|pftrace\.gz|perfetto-trace|fastprof|sqlite)$")
_RANK = re.compile(r"rank[-_. ]?(\d+)", re.I)
_NUMBER = re.compile(r"(\d+)")
_BATCH = 4  # traces of one process: its start takes as long as reading a small trace


def traces_among(names: Sequence[str]) -> list[str]:
    """Return those of the names of files that are traces."""
    return [name for name in names if _TRACES.match(name)]


def source_stamp(path: str) -> list[int]:
    """Return what changes when a file does: its size and time."""
    facts = os.stat(path)
    return [facts.st_size, facts.st_mtime_ns]


def converted(
    folder: str, names: Sequence[str], engine: str | None = None
) -> tuple[str, list[str], Any]:
    """Convert the traces of a folder that have no current shard.

    engine: of map_over(), whose workers read the traces and write beside them; default: processes of this machine, as
    they are where only a temporary folder can be written. Returns the folder of the shards, a sentence for each trace
    that could not be read, and an object that keeps a temporary folder. Raises errors.IoError if there is no folder to
    write to, and what map_over() raises.
    """
    keeper = None
    target = os.path.join(folder, CACHE)
    try:
        os.makedirs(target, exist_ok=True)
        if not os.access(target, os.W_OK | os.X_OK):
            raise PermissionError(target)
    except OSError:
        try:
            keeper = tempfile.TemporaryDirectory(prefix="fastprof-ranks-")
        except OSError as error:
            raise errors.IoError(
                f"no folder for the converted traces of {folder}: {error}. Make it writable, or set TMPDIR."
            ) from error
        target = keeper.name
    known = _current(target)
    numbers = _ranks_of(names)
    jobs = [
        {"path": os.path.join(folder, name), "rank": number, "world_size": len(names)}
        for name, number in zip(names, numbers, strict=True)
        if known.get(name) != source_stamp(os.path.join(folder, name))
    ]
    if engine is None or keeper is not None:
        return target, _run(jobs, target), keeper
    failed = list(map_over(convert_job, [{**job, "target": target} for job in jobs], engine))
    return target, sorted(filter(None, failed)), keeper


def _current(target: str) -> dict[str, list[int]]:
    """Return the stamps of the traces that have a shard, by name."""
    found = {}
    for name in os.listdir(target):
        if name.startswith("rank-") and name.endswith(".json"):
            try:
                with open(os.path.join(target, name), encoding="utf-8") as file:
                    manifest = json.load(file)
                if os.path.isfile(os.path.join(target, os.path.basename(manifest["shard"]))):
                    found[manifest["source"]] = manifest["source_stamp"]
            except (OSError, ValueError, KeyError, TypeError):
                continue  # it is written again
    return found


def _ranks_of(names: Sequence[str]) -> list[int]:
    """Return the rank that each name says, for traces that do not: "rank3.json"; else their place in the order."""
    said = [_RANK.search(name) for name in names]
    found = [int(match[1]) for match in said if match is not None]
    if len(set(found)) == len(names):
        return found
    numbers = [_NUMBER.findall(name) for name in names]
    last = [int(each[-1]) for each in numbers if each]
    if sorted(last) == list(range(len(names))):
        return last
    return list(range(len(names)))


def _run(jobs: list[dict[str, Any]], target: str) -> list[str]:
    if not jobs:
        return []
    workers = max(min(os.cpu_count() or 1, len(jobs)), 1)
    size = max(min(_BATCH, len(jobs) // workers), 1)
    batches = [jobs[at : at + size] for at in range(0, len(jobs), size)]
    failed: list[str] = []
    running: list[subprocess.Popen[str]] = []

    def convert(batch: list[dict[str, Any]]) -> list[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, target],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        out, err = process.communicate(json.dumps(batch))
        lines = [line for line in out.splitlines() if line]
        if process.returncode:
            last = err.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
            names = ", ".join(os.path.basename(job["path"]) for job in batch)
            lines.append(f"{names}: reading failed: {last[0]}: left out")
        return lines

    with (
        terminal_progress(f"converting {counted(len(jobs), 'trace')}") as progress,
        ThreadPoolExecutor(workers) as pool,
    ):
        tasks = [pool.submit(convert, batch) for batch in batches]
        try:
            for number, task in enumerate(as_completed(tasks)):
                failed += task.result()
                if progress is not None:
                    progress(number + 1, len(batches))
        except BaseException:  # Ctrl-C
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.kill()
            raise
    return sorted(failed)


def convert_trace(path: str, target: str, rank: int, world_size: int) -> None:
    """Write the shard of one trace. rank, world_size: for a trace that does not say them.

    Raises errors.FormatError and errors.IoError for a trace that cannot be read.
    """
    table = load(path, salvage=True, max_memory_bytes=4 * DEFAULT_MAX_MEMORY_BYTES)
    described = table.metadata.get("distributedInfo")
    facts = RankFacts(rank, world_size, -1, [], "the name of the trace")
    if isinstance(described, dict) and type(described.get("rank")) is int:
        size = described.get("world_size")
        size = size if type(size) is int else world_size
        facts = RankFacts(described["rank"], size, -1, groups_of(described), "the trace")
    name = os.path.basename(path)
    details: dict[str, Any] = {"source": name, "source_stamp": source_stamp(path)}
    details["host"] = str(table.metadata.get("host_name", ""))
    if table.metadata.get("damage"):
        details["damage"] = str(table.metadata["damage"])
    stem = f"{shard_stem(facts.rank)}.{zlib.crc32(name.encode('utf-8', 'surrogateescape')):08x}"
    write_shard(table, target, facts, stem=stem, details=details)


def convert_job(job: dict[str, Any]) -> str:
    """Call convert_trace() with the values of a job; return why its trace cannot be read, or ""."""
    try:
        convert_trace(job["path"], job["target"], job["rank"], job["world_size"])
    except errors.Error as error:
        text = str(error).replace("\n", " ")
        return f"{os.path.basename(job['path'])}: {text}: left out"
    return ""


def main() -> int:
    """Convert the traces that standard input lists; print a sentence for each that cannot be read."""
    for job in json.load(sys.stdin):
        if failed := convert_job({**job, "target": sys.argv[1]}):
            print(failed, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
