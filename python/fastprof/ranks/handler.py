# SPDX-License-Identifier: Apache-2.0
"""rank_trace_handler, write_rank: write one rank's shard of a job, of a profile or of any table."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

from fastprof.base import errors
from fastprof.exporters.tabular import optional_package
from fastprof.model.table import EventTable
from fastprof.ranks.environment import RankFacts, rank_facts
from fastprof.ranks.places import absolute, make_place
from fastprof.ranks.shard import clock_pair, shard_stem, write_shard

__all__ = ["rank_trace_handler", "write_rank"]


def rank_trace_handler(folder: str | os.PathLike[str]) -> Callable[[Any], None]:
    """Return a handler that writes each finished recording of this rank to a folder that all ranks share.

    folder: a path or a URL of fsspec, such as "s3://bucket/run"; created if missing. `fastprof ranks FOLDER` and
    fastprof.ranks.open() read it. A rank writes rank-00003.parquet with its events and then rank-00003.json, which says
    who recorded them; both appear complete or not at all. Later recordings of the process have a number more:
    rank-00003.2.parquet. No rank waits for another one. Rank and world size are those of torch.distributed when the
    recording ends, else of the launcher's environment: torchrun, accelerate, mpirun, srun, Ray Train.

    Raises errors.UnavailableError without pyarrow. The handler raises errors.IoError if the folder or a file cannot be
    written.

        prof = fastprof.profile(
            schedule=fastprof.schedule(wait=1, warmup=1, active=50),
            on_trace_ready=fastprof.rank_trace_handler("ranks"),
        )

    The handler runs on the thread that ends the recording.
    """
    optional_package("pyarrow.parquet", "ranks")  # at the begin of a job, not at its end
    path = absolute(os.fsdecode(folder))  # the program may change its working folder
    start = clock_pair()
    parts = itertools.count()

    def handler(prof: Any) -> None:
        _make(path)
        facts = rank_facts()
        write_shard(
            prof.event_table,
            path,
            facts,
            stem=shard_stem(facts.rank, next(parts)),
            clock={"start": start, "end": clock_pair()},
            missing=dict(prof.missing),
        )

    return handler


def _make(folder: str) -> None:
    try:
        make_place(folder)
    except OSError as error:
        raise errors.IoError(
            f"cannot create the folder {folder!r} for ranks: {error}. Choose another folder."
        ) from error


def write_rank(
    table: EventTable,
    folder: str | os.PathLike[str],
    *,
    rank: int,
    world_size: int,
    groups: Sequence[dict[str, Any]] = (),
) -> str:
    """Write a table as the shard of a rank, as rank_trace_handler() does; return the path of its manifest.

    For traces whose rank fastprof cannot know. folder: a path or a URL of fsspec; created if missing. groups: process
    groups that the rank is in, {"name": ..., "ranks": [...]} each. Raises errors.ValueError for a rank that the job
    does not have, errors.UnavailableError without pyarrow, and errors.IoError if a file cannot be written. Any thread.

        fastprof.ranks.write(fastprof.load("trace.json"), "ranks", rank=0, world_size=8)
    """
    if not 0 <= rank < world_size:
        raise errors.ValueError(
            f"rank {rank} of a job of {world_size} ranks. Count ranks from 0, below world_size."
        )
    path = os.fsdecode(folder)
    _make(path)
    return write_shard(table, path, RankFacts(rank, world_size, -1, list(groups), "the caller"))
