# SPDX-License-Identifier: Apache-2.0
"""recover: read the records of a killed process from the backing file of its profile."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastprof import _core
from fastprof.base import errors
from fastprof.base.visible_text import encodable_text

if TYPE_CHECKING:
    from fastprof.model.sampled_stacks import SampledStacks
    from fastprof.model.table import EventTable

__all__ = [
    "SAMPLES_FACT",
    "SAMPLE_HZ_FACT",
    "WHEN_FACT",
    "is_running",
    "process_facts",
    "process_name",
    "program_name",
    "recover",
]

# Members of the metadata of a flight recorder's dump: its samples as text, and its time, which only dumps have.
SAMPLES_FACT, WHEN_FACT = "samples", "dumped_unix_ns"
SAMPLE_HZ_FACT = "sample_hz"  # of a profile whose samples are not in files


def recover(path: str | os.PathLike[str], *, session: int = 0, max_bytes: int = 0) -> EventTable:
    """Read the backing file of a profile (`profile(backing_file=...)`) or of a C++ session.

    path: the file. Its process may have been killed, may have ended without stop(), or may still run.
    Or the shard folder of a profile with follow_children=True whose process was killed (docs/children.md):
    the followed processes become one table on one clock. metadata["processes"] describes each process,
    metadata["problems"] lists what cannot be read. Samples of followed processes (sample_hz) are rows, unless calls
    are. The folder is not removed.
    The backing file of a profile with follow_children=True leads to that folder: if it is still there, the
    processes are read, too, and the profile's own is the first.
    Or a dump of a flight recorder, whose samples are rows; if they are damaged, metadata["missing"] says so.
    session: id of the session to read; 0: the one that asked for the file.
    max_bytes: limit of the file's size; 0: 16 GB.

    Returns an EventTable like that of a finished profile, with FLOPs if shapes were recorded. Ranges that were
    open at the end lack EventFlag.FINISHED and end at t1_ns, the last stamp in the file. metadata["recovered"] holds
    facts of the process (parent_pid, process_start in 1/100 s since boot, boot_id, metadata) and counts of
    what is missing: open_ranges, unread_chunks, unknown_texts, python_stacks, damaged, names_lost,
    fallback_slabs, threads_outside; docs/backing_file.md explains each. In the tables of several
    processes of one boot, `start_ns - recovered["unix_offset_ns"]` is CLOCK_MONOTONIC and comparable.
    On the host and boot of its process, each call reads the clock once more, to convert the last records' stamps:
    the times that two calls return may differ by twice clock_error_ns.

    Raises errors.IoError if the file cannot be read, errors.FormatError if it is not a backing file or
    is too damaged to read, errors.ValueError if it has no such session. The file is untrusted: nothing
    in it is executed. Any thread.

        table = fastprof.recover("/dev/shm/run/records")
        print(table.key_averages().table())
    """
    from fastprof.decode.consolidate import table_of
    from fastprof.record.shard_folder import FOLDER_FACT

    metadata: dict[str, Any]
    capture: _core.Capture | None
    samples: SampledStacks | None = None
    if os.path.isdir(path):
        capture, metadata, samples = _folder(path, max_bytes)
    else:
        capture, facts = _core.recover(os.fsencode(path), session_id=session, max_bytes=max_bytes)
        metadata = {"format": "backing file"}
        if WHEN_FACT in facts["metadata"] and (text := facts["metadata"].pop(SAMPLES_FACT, "")):
            try:
                samples = _of_dump(text)
            except errors.FormatError as error:  # the records may be whole
                metadata["missing"] = {"samples": str(error)}
        if SAMPLE_HZ_FACT in facts["metadata"]:
            metadata["missing"] = {"samples": "they are in the process's memory until stop()"}
        folder = "" if session else str(facts["metadata"].get(FOLDER_FACT, ""))
        if os.path.isdir(folder):
            own = (os.fspath(path), capture, facts)
            capture, metadata, samples = _folder(folder, max_bytes, own)
        metadata["recovered"] = facts
    if samples is not None:
        metadata["sampling"] = {"hz": samples.hz, **samples.counts}
    if capture is not None:
        table = table_of(capture, keeps_frame=_keeps_frame, metadata=metadata)
    elif samples is not None:
        table = _without_records(samples, metadata)
    if samples is None:
        return table
    from fastprof.decode.sample_rows import with_samples

    table = with_samples(table, samples)
    table.t1_ns = max(table.t1_ns, int(samples.last_ns.max(initial=0)))
    return table


def _of_dump(text: str) -> SampledStacks:
    from fastprof.decode.sample_file import read_samples
    from fastprof.profiler.stack_sampling import of_program

    return of_program(read_samples(text))


def _keeps_frame(entry: str) -> bool:
    from fastprof.views.names import keeps_stack_entry  # 50 ms, for recordings with stacks

    return keeps_stack_entry(entry)


def is_running(table: EventTable) -> bool:
    """Return whether the process of a recovered table, which must be of this host, still runs. Any thread."""
    from fastprof.record.shard_folder import process_start

    start = process_start(table.pid)
    return start is not None and start == table.metadata["recovered"]["process_start"]


def _folder(
    path: str | os.PathLike[str],
    max_bytes: int,
    own: tuple[str, _core.Capture, dict[str, Any]] | None = None,
) -> tuple[_core.Capture | None, dict[str, Any], SampledStacks | None]:
    """Return the merged capture of a shard folder, its metadata, and the samples that are rows of its table.

    None for the capture: its processes have left samples only, because their flight recorders have the records.
    own: path, capture and facts of the backing file of the profile's own process.
    """
    from fastprof.profiler.shard_samples import joined_samples
    from fastprof.profiler.shards import Shard, incomplete, merge_processes, process_of, read_shards
    from fastprof.record.shard_folder import ShardFolder, process_start

    folder = ShardFolder(os.fspath(path))
    shards, problems = read_shards(folder, max_bytes)
    if own is not None:
        alive = process_start(own[1].pid) == own[2]["process_start"]
        shards.insert(0, Shard(*own, alive))
        problems += incomplete(shards[0])
    offset = int(shards[0].facts["unix_offset_ns"]) if shards else _core.unix_offset_ns()
    options = folder.options() or {}
    samples: SampledStacks | None = None
    if options.get("recording", {}).get("sample_hz") and options.get("python_calls") is None:
        samples = joined_samples(folder, shards, offset, problems)
        if own is not None:
            problems.append(f"the samples of process {own[1].pid} were in its memory")
    if not shards and samples is None:
        said = f" ({problems[0]})" if problems else ""
        remedy = "Use the folder fastprof-children-... of a profile with follow_children=True, or a backing file."
        if any(name.startswith(("rank-", "records-")) for name in os.listdir(path)):
            remedy = f"It has ranks of a job: use `fastprof ranks {os.fspath(path)}`."
        raise errors.FormatError(
            f"{os.fspath(path)}: this folder contains no records of a process{said}. {remedy}"
        )
    processes = [process_of(shard, offset - int(shard.facts["unix_offset_ns"])) for shard in shards]
    metadata = {"format": "backing files", "processes": processes, "problems": problems}
    capture = merge_processes(shards, unix_offset_ns=offset) if shards else None
    return capture, metadata, samples


def _without_records(samples: SampledStacks, metadata: Mapping[str, Any]) -> EventTable:
    from fastprof.model.table import EventTable

    columns = {name: list[int]() for name in ("start_ns", "end_ns", "site", "parent")}
    t0_ns = int(samples.first_ns.min()) if len(samples.first_ns) else 0
    pid = samples.pids[0] if samples.pids else 0
    return EventTable(columns, sites=(), metadata=metadata, t0_ns=t0_ns, pid=pid)


def program_name() -> str:
    """Return the name of the program that Python runs: its file's, or that of its folder; "" if unknown."""
    argv = getattr(sys, "argv", None)
    path = str(argv[0]) if argv else ""
    folder, name = os.path.split(path)
    return os.path.basename(folder) or name if name == "__main__.py" else name


def process_name() -> str | None:
    """Return the name of multiprocessing's process object; None without one, or if the program's class raises."""
    process: Any = sys.modules.get("multiprocessing.process")
    if process is None:
        return None
    try:
        return str(process.current_process().name)
    except Exception:
        return None


def process_facts() -> list[tuple[str, str]]:
    """Return the metadata of this process for a backing file, as (key, value) pairs.

    name: name of multiprocessing's process object. rank: the environment variable RANK. argv: sys.argv as one
    text. min_op_us: duration below which ops are left out. Each is left out where it does not exist.
    """
    facts = []
    if (name := process_name()) is not None:
        facts.append(("name", name))
    if rank := os.environ.get("RANK"):
        facts.append(("rank", rank))
    if argv := getattr(sys, "argv", None):
        facts.append(("argv", " ".join(map(str, argv))))
    if shortest_ns := _core.torch_shortest_op_ns():
        facts.append(("min_op_us", f"{shortest_ns / 1000:g}"))
    return [(key, encodable_text(value)) for key, value in facts]
