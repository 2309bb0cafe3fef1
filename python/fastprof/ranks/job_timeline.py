# SPDX-License-Identifier: Apache-2.0
"""timeline: the events of several ranks as one table, on the first rank's clock, for any trace format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.device_type import DeviceType
from fastprof.base.number_list import number_list
from fastprof.importers.chrome_args import DEVICE_CATEGORIES
from fastprof.model.columns import NO_PAYLOAD, CodedColumn, EventKind
from fastprof.model.merge import merge_tables
from fastprof.model.sites import Site, Track
from fastprof.model.table import EventTable
from fastprof.ranks.arrows import ArrowEnds, collective_arrows
from fastprof.ranks.job import Job
from fastprof.ranks.manifest import Shard
from fastprof.ranks.matching import Matched
from fastprof.ranks.shard_columns import ShardColumns, read_columns

__all__ = ["timeline"]

Array: TypeAlias = NDArray[Any]
_READ = (
    *("start_ns", "duration_ns", "name", "category", "thread", "correlation"),
    *("collective", "group", "sequence"),
)


def timeline(job: Job, ranks: Sequence[int] | None = None) -> EventTable:
    """Return the events of ranks on one clock, each rank a process. ranks: default all whose clock is known.

    Times are those of the first rank's clock. An arrow goes from the rank that came last to a collective to each that
    waited for it. metadata["merged"] has by rank the bound of the clock's error
    (clock_error_ns). Raises errors.ValueError for ranks that were not read or whose clock cannot be compared
    (Job.uncalibrated): they are never merged as if it were known. Damaged shards are named in job.problems and left
    out; errors.FormatError: all are damaged, or the job was opened with strict.

        fastprof.ranks.timeline(job, [0, 3]).export("ranks.json.gz")
    """
    wanted = [rank for rank in job.ranks if rank in job.clocks] if ranks is None else list(ranks)
    absent = [rank for rank in wanted if rank not in job.ranks]
    unknown = [rank for rank in wanted if rank in job.ranks and rank not in job.clocks]
    if absent or unknown or not wanted:
        what = f"rank {number_list(absent)} was not read" if absent else "no rank is named"
        if unknown:
            what = f"the clock of rank {number_list(unknown)} cannot be compared with rank {job.ranks[0]}'s"
        raise errors.ValueError(f"no timeline: {what}. Name ranks of {number_list(job.ranks)}.")
    arrows = collective_arrows(job.collectives, job.clocks, wanted)
    tables, titles = [], []
    for shard in job.shards:
        if shard.rank in wanted:
            columns = job.read_later(partial(read_columns, names=_READ), shard, "the timeline")
            if columns is not None:
                tables.append(_table(job, shard, columns, arrows[shard.rank]))
                titles.append(f"rank {shard.rank}")
    if not tables:
        raise errors.FormatError(f"no timeline: {'; '.join(job.problems)}.")
    return merge_tables(tables, titles)


def _table(job: Job, shard: Shard, columns_: ShardColumns, arrows: ArrowEnds) -> EventTable:
    data, texts = columns_
    clock = job.clocks[shard.rank]
    start = data["start_ns"]
    end = start + data["duration_ns"]
    category, categories, names = data["category"], texts["category"], texts["name"]
    name = data["name"].astype(np.int64)
    pairs, site = np.unique(name * len(categories) + category, return_inverse=True)
    kinds = [divmod(pair, len(categories)) for pair in pairs.tolist()]
    types = np.array([int(DEVICE_CATEGORIES.get(categories[c], DeviceType.CPU)) for _, c in kinds])
    site = site.reshape(-1)
    on_device = types[site] != int(DeviceType.CPU) if len(site) else np.zeros(0, np.bool_)
    correlation = data["correlation"]
    least, most = clock.bounds_ns(start[:1])
    manifest = shard.manifest
    calls = np.flatnonzero(data["collective"] >= 0)
    groups = [texts["group"][code] for code in data["group"][calls].tolist()]
    keys = list(zip(groups, data["sequence"][calls].tolist(), strict=True))
    ends, track = _in_shard(
        dict(zip(keys, data["thread"][calls].tolist(), strict=True)), job.collectives, arrows
    )
    kind_of = [texts["collective"][code] for code in data["collective"][calls].tolist()]
    codes = np.full(len(start) + len(track), -1, np.int32)
    codes[calls] = np.arange(len(calls))
    arguments = [
        json.dumps({"Collective name": kind, "Process Group Name": group, "Seq": number})
        for kind, (group, number) in zip(kind_of, keys, strict=True)
    ]
    size, count = len(start), len(ends.row)
    sites = [Site(names[n], category=categories[c]) for n, c in kinds]
    time = ends.time_ns
    columns = {
        "start_ns": (clock.to_reference(start), time),
        "end_ns": (clock.to_reference(end), time),
        "site": (site, np.full(count, len(sites))),
        "track": (data["thread"], track),
        "device_type": (types[site] if size else site, np.zeros(count, np.int64)),
        "device_index": (np.zeros(size, np.int32), np.zeros(count, np.int32)),
        "external_id": (np.where(on_device, 0, correlation), np.zeros(count, np.int64)),
        "linked_correlation_id": (np.where(on_device, correlation, 0), np.zeros(count, np.int64)),
        "kind": (
            np.full(size, int(EventKind.RANGE)),
            np.where(ends.begins, int(EventKind.FLOW_BEGIN), int(EventKind.FLOW_END)),
        ),
        "payload": (np.full(size, NO_PAYLOAD), np.arange(count)),
    }
    return EventTable(
        {name: np.concatenate(parts) for name, parts in columns.items()},
        sites=[*sites, Site("collective", category="collective")],
        tracks=_tracks(manifest, data["thread"]),
        coded={"metadata_json": CodedColumn(codes, arguments)},
        payload_words=ends.arrow.astype(np.uint64),
        pid=int(manifest["pid"]),
        process_name=str(manifest.get("host", "")) or "process",
        t0_ns=int(clock.to_reference(int(manifest["t0_ns"]))),
        clock_error_ns=int((most - least).max(initial=0)) // 2
        + int(manifest.get("clock_error_ns", 0)),
        metadata={"distributedInfo": {"rank": shard.rank, "world_size": job.world_size}},
    )


def _tracks(manifest: dict[str, Any], threads: Array) -> list[Track]:
    pid = int(manifest["pid"])
    known = manifest.get("threads") or []
    found = [
        Track(n + 1, pid=pid, tid=int(tid), name=str(name)) for n, (tid, name) in enumerate(known)
    ]
    return found + [
        Track(n + 1, pid=pid, tid=n + 1, name=f"thread {n}")
        for n in range(len(found), int(threads.max(initial=-1)) + 1)
    ]


def _in_shard(
    threads_of: dict[tuple[str, int], int], matched: Matched, ends: ArrowEnds
) -> tuple[ArrowEnds, Array]:
    """Return the arrows' ends whose calls are in a shard, which may be one of several of its rank, and their tracks."""
    named = [matched.groups[code] for code in matched.group[ends.row].tolist()]
    wanted = zip(named, matched.sequence[ends.row].tolist(), strict=True)
    track = np.array([threads_of.get(key, -1) for key in wanted], np.int64)
    return ends.chosen(track >= 0), track[track >= 0]
