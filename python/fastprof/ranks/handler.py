# SPDX-License-Identifier: Apache-2.0
"""rank_trace_handler, write_rank: write one rank's shard of a job, of a profile or of any table."""

from __future__ import annotations

import itertools
import json
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np

from fastprof.base import errors
from fastprof.base.native_numbers import OverflowPolicy
from fastprof.base.optional_package import optional_package
from fastprof.model.table import EventTable
from fastprof.profiler import recording
from fastprof.profiler.options import Options
from fastprof.profiler.results import ProfileResults
from fastprof.ranks.call_snapshots import CallSnapshots
from fastprof.ranks.environment import RankFacts, check_variables, rank_facts
from fastprof.ranks.event_names import is_host_collective
from fastprof.ranks.host_groups import recorded_calls
from fastprof.ranks.killed import FACT
from fastprof.ranks.manifest import RECORDS
from fastprof.ranks.places import absolute, is_url, join, make_place
from fastprof.ranks.shard import clock_pair, process_token, shard_stem, versions, write_shard

__all__ = ["RankTraceHandler", "rank_trace_handler", "write_rank"]


class RankTraceHandler:
    """Writes recordings of this rank to a folder. See rank_trace_handler(), which makes one.

    Called with a finished profile. deferred: a call does nothing; the owner calls write() and forget() itself. failed:
    whether the last shard could not be written.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, keep_records: bool = True, deferred: bool = False
    ) -> None:
        optional_package("pyarrow.parquet", "ranks")  # at the begin of a job, not at its end
        check_variables(os.environ)
        self.folder = absolute(os.fsdecode(folder))  # the program may change its working folder
        self._keep_records = keep_records and not is_url(self.folder)
        self._deferred = deferred
        self.failed = False
        self._start = clock_pair()
        self._parts = itertools.count()
        self._begun = itertools.count()
        self._files: dict[str, int] = {}  # backing files that lie in the folder -> pid
        self._snapshots: dict[str, CallSnapshots] = {}  # by backing file

    def __call__(self, prof: Any) -> None:
        """Write the recording of a profile, unless this is left to the owner."""
        if not self._deferred:
            self.write(prof)

    def write(self, prof: Any) -> None:
        """Write the shard of a profile's last recording, then remove its backing file. Raises errors.IoError."""
        self.failed = True
        _make(self.folder)
        facts = rank_facts()
        records = prof.records_file
        write_shard(
            prof.event_table,
            self.folder,
            facts,
            stem=shard_stem(facts.rank, next(self._parts)),
            clock={"start": self._start, "end": clock_pair()},
            missing={**prof.missing, **_of_several_ranks(prof.event_table)},
            recorded=recorded_calls(),
            details={"records": os.path.basename(records)} if records in self._files else None,
        )
        self.failed = False
        if records in self._files:
            self._remove(records)

    def forget(self) -> None:
        """Remove the backing files that this process has made: there is nothing to read in them."""
        for path in list(self._files):
            self._remove(path)

    def _remove(self, path: str) -> None:
        self._snapshots.pop(path).stop()
        if self._files.pop(path) == os.getpid():
            with suppress(OSError):
                os.unlink(path)

    def records_of(self, options: Options) -> tuple[Options, list[tuple[str, str]]] | None:
        """Return the options of the next recording with a new backing file in the folder, and facts to put there.

        None: the recording cannot have one. profile() calls this when it prepares a recording.
        """
        if (
            not self._keep_records
            or options.backing_file
            or recording.flight_file
            or options.overflow == OverflowPolicy.SPILL_TO_FILE
        ):
            return None
        with suppress(errors.Error):  # the handler reports it
            _make(self.folder)
        part = next(self._begun)
        path = join(self.folder, f"{RECORDS}{process_token()}.{part + 1}")
        self._files[path] = os.getpid()
        self._snapshots[path] = CallSnapshots(path)
        facts = {
            **rank_facts()._asdict(),
            "host": platform.node(),
            "process": process_token(),
            "pid": os.getpid(),
            "part": part,
            "clock": self._start,
            "versions": versions(),
        }
        return replace(options, backing_file=path), [(FACT, json.dumps(facts))]


def rank_trace_handler(
    folder: str | os.PathLike[str], *, keep_records: bool = True
) -> RankTraceHandler:
    """Return a handler that writes each finished recording of this rank to a folder that all ranks share.

    folder: a path or a URL of fsspec, such as "s3://bucket/run"; created if missing. `fastprof ranks FOLDER` and
    fastprof.ranks.open() read it. A rank writes rank-00003.parquet with its events and then rank-00003.json, which says
    who recorded them; both appear complete or not at all. Later recordings of the process have a number more:
    rank-00003.2.parquet. No rank waits for another one. Rank and world size are those of torch.distributed when the
    recording ends, else of the launcher's environment: torchrun, accelerate, mpirun, srun, Ray Train.

    keep_records: while a recording runs, its records lie in a backing file of the folder (docs/backing_file.md), which
    is removed once the shard is complete, so that a rank that is killed keeps what it had recorded. Not for a URL,
    with overflow="spill", with a backing_file of the program's own, or while the flight recorder runs. Put the folder
    into /dev/shm, or pass False, where the folder's disk is slow.

    Raises errors.UnavailableError without pyarrow, errors.ValueError if RANK and WORLD_SIZE name no rank. The handler
    raises errors.IoError if the folder or a file cannot be written.

        prof = fastprof.profile(
            schedule=fastprof.schedule(wait=1, warmup=1, active=50),
            on_trace_ready=fastprof.rank_trace_handler("ranks"),
        )

    The handler runs on the thread that ends the recording.
    """
    return RankTraceHandler(folder, keep_records=keep_records)


def _make(folder: str) -> None:
    try:
        make_place(folder)
    except OSError as error:
        raise errors.IoError(
            f"cannot create the folder {folder!r} for ranks: {error}. Choose another folder."
        ) from error


def _of_several_ranks(table: EventTable) -> dict[str, str]:
    """Return {"processes": a sentence} if collectives ran in several processes, which are ranks of their own."""
    of_sites = np.array([is_host_collective(name) for name in table.sites.names], np.bool_)
    tracks = np.unique(table.column("track")[of_sites[table.column("site")]])
    pids = {table.tracks[track].pid for track in tracks.tolist()}
    if len(pids) < 2:
        return {}
    return {
        "processes": f"{len(pids)} processes ran collectives, which are ranks of their own. Record each by itself, as "
        "`torchrun --no-python fastprof run --ranks` does, or with rank_trace_handler() in each."
    }


def write_rank(
    recorded: ProfileResults | EventTable,
    folder: str | os.PathLike[str],
    *,
    rank: int,
    world_size: int,
    groups: Sequence[dict[str, Any]] = (),
) -> str:
    """Write a recording as the shard of a rank, as rank_trace_handler() does; return the path of its manifest.

    For recordings whose rank fastprof cannot know. recorded: a finished profile() of this process, whose clock is
    known to be that of this host, or a table; the clock of a table is found by its collectives. folder: a path or a
    URL of fsspec; created if missing. groups: process groups that the rank is in, {"name": ..., "ranks": [...]} each.
    Raises errors.ValueError for a rank that the job does not have, errors.StateError for a profile that has not ended,
    errors.UnavailableError without pyarrow, and errors.IoError if a file cannot be written. Any thread.

        fastprof.ranks.write(fastprof.load("trace.json"), "ranks", rank=0, world_size=8)
    """
    clock, missing, table = None, None, recorded
    if isinstance(recorded, ProfileResults):
        clock, missing, table = clock_pair(), recorded.missing, recorded.event_table
    if not isinstance(table, EventTable):
        raise errors.ValueError(
            f"a shard is made of a profile or a table, not of {type(table).__name__}. Pass prof or prof.event_table."
        )
    try:
        wrong = not 0 <= index(rank) < index(world_size)
    except TypeError:  # no whole numbers
        wrong = True
    if wrong:
        raise errors.ValueError(
            f"rank {rank!r} of a job of {world_size!r} ranks. Count ranks from 0, below world_size."
        )
    path = os.fsdecode(folder)
    _make(path)
    return write_shard(
        table,
        path,
        RankFacts(index(rank), index(world_size), -1, list(groups), "the caller"),
        clock={"end": clock} if clock else None,  # a "start" would say that the process began then
        missing=missing,
    )
