# SPDX-License-Identifier: Apache-2.0
"""The samples of followed processes, which lie beside their shards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fastprof.base import errors
from fastprof.decode.sample_file import read_sample_file
from fastprof.model.sampled_stacks import SampledStacks
from fastprof.profiler.shards import Shard, display_name
from fastprof.profiler.stack_sampling import FILE_BYTES, of_program
from fastprof.record.shard_folder import ShardFolder, samples_beside

__all__ = ["joined_samples", "read_shard_samples"]


def read_shard_samples(
    folder: ShardFolder, shards: Sequence[Shard], offset: int, problems: list[str]
) -> Iterator[tuple[int, SampledStacks]]:
    """Yield the pid and the samples of each process that has some, on the clock of `offset`.

    shards: what was read of the folder. offset: Unix time minus CLOCK_MONOTONIC. problems: sentences are added.
    """
    for shard in shards:
        pid, tracks = shard.capture.pid, shard.capture.tracks()
        found = _read(samples_beside(shard.path), pid, problems)
        if found is None:
            continue  # its note says why
        shift = offset - int(shard.facts["unix_offset_ns"])
        moved: dict[str, Any] = {
            "first_ns": found.first_ns + shift,
            "last_ns": found.last_ns + shift,
        }
        names = {tid: name for _, of, tid, name, _, task, _ in tracks if of == pid and task < 0}
        yield pid, _named(replace(found, **moved), pid, names, display_name(shard))
    for pid, name, path in folder.samples_alone():
        found = _read(path, pid, problems)
        if found is not None:
            yield pid, _named(found, pid, {}, name)


def _read(path: str, pid: int, problems: list[str]) -> SampledStacks | None:
    """Return the samples in a file; None if there is none, or a damaged one, which is added to the problems."""
    try:
        found = read_sample_file(path)
    except FileNotFoundError:
        return None
    except (OSError, errors.Error) as error:
        problems.append(f"the samples of process {pid} cannot be read: {error}")
        return None
    if lost := found.counts["overwritten_segments"]:
        lost_mb = lost * (FILE_BYTES // 2 >> 20)
        problems.append(f"process {pid}: {lost_mb} MB of its first samples are lost")
    if lost := found.counts["samples_without_room"]:
        problems.append(f"process {pid}: {os.path.dirname(path)} had no room for {lost} samples")
    return found


def _named(found: SampledStacks, pid: int, names: dict[int, str], process: str) -> SampledStacks:
    """Return the program's samples of a process. names: of its tracks, for threads that the sampler cannot name."""
    names[pid] = "MainThread"
    for tid, name in found.threads:
        if name != f"thread {tid}":
            names.pop(tid, None)
    threads = found.with_names(names).threads
    labelled = tuple((tid, f"{name} ({process} {pid})") for tid, name in threads)
    return of_program(replace(found, threads=labelled))


def joined_samples(
    folder: ShardFolder, shards: Sequence[Shard], offset: int, problems: list[str]
) -> SampledStacks | None:
    """Return the samples of all processes; None if there are none. Parameters: see read_shard_samples()."""
    joined: SampledStacks | None = None
    for pid, found in read_shard_samples(folder, shards, offset, problems):
        if joined is None:
            joined = replace(found, pids=(pid,) * len(found.threads))
        else:
            joined = joined.with_process(found, pid, 0)
    return joined
