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
from fastprof.record.shard_folder import samples_beside

__all__ = ["joined_samples", "read_shard_samples"]


def read_shard_samples(
    shards: Sequence[Shard], offset: int, problems: list[str]
) -> Iterator[tuple[int, SampledStacks]]:
    """Yield the pid and the samples of each process that has some, on the clock of `offset`.

    offset: Unix time minus CLOCK_MONOTONIC. problems: sentences are added.
    """
    for shard in shards:
        path, pid = samples_beside(shard.path), shard.capture.pid
        try:
            found = read_sample_file(path)
        except FileNotFoundError:
            continue  # its note says why
        except (OSError, errors.Error) as error:
            problems.append(f"the samples of process {pid} cannot be read: {error}")
            continue
        if lost := found.counts["overwritten_segments"]:
            lost_mb = lost * (FILE_BYTES // 2 >> 20)
            problems.append(f"process {pid}: {lost_mb} MB of its first samples are lost")
        if lost := found.counts["samples_without_room"]:
            problems.append(
                f"process {pid}: {os.path.dirname(path)} had no room for {lost} samples"
            )
        shift = offset - int(shard.facts["unix_offset_ns"])
        moved: dict[str, Any] = {
            "first_ns": found.first_ns + shift,
            "last_ns": found.last_ns + shift,
        }
        names = {
            tid: name
            for _, of, tid, name, _, task, _ in shard.capture.tracks()
            if of == pid and task < 0
        }
        names[pid] = "MainThread"
        for tid, name in found.threads:
            if name != f"thread {tid}":  # the sampler knew it
                names.pop(tid, None)
        found = replace(found, **moved).with_names(names)
        label = f"{display_name(shard)} {pid}"
        threads = tuple((tid, f"{name} ({label})") for tid, name in found.threads)
        yield pid, of_program(replace(found, threads=threads))


def joined_samples(
    shards: Sequence[Shard], offset: int, problems: list[str]
) -> SampledStacks | None:
    """Return the samples of all processes; None if there are none. Parameters: see read_shard_samples()."""
    joined: SampledStacks | None = None
    for pid, found in read_shard_samples(shards, offset, problems):
        if joined is None:
            joined = replace(found, pids=(pid,) * len(found.threads))
        else:
            joined = joined.with_process(found, pid, 0)
    return joined
