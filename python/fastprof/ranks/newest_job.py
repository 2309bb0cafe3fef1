# SPDX-License-Identifier: Apache-2.0
"""newest_job: the shards of the newest job in a folder, and a sentence for each earlier one.

Shards are of one job if their world size and launcher's job id agree and their processes ran at the same time. A
process runs from the first to the last reading of its clock; without these (written by the caller, converted) only
world size and id count. A rank is one process: shards of its earlier ones are left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fastprof.base.formatting import counted
from fastprof.base.number_list import number_list

__all__ = ["newest_job"]

_CLOCKS_NS = 30 * 10**9  # by which the clocks of two hosts may differ
_Manifest = dict[str, Any]
_Process = tuple[str, str]  # host, and what names the process on it


def newest_job(manifests: Sequence[_Manifest]) -> tuple[list[int], list[str]]:
    """Return the places of the newest job's manifests, ascending, and sentences on what is left out. Any thread."""
    jobs: list[list[int]] = []
    keys = [(each["world_size"], str(each.get("job_id", ""))) for each in manifests]
    for key in dict.fromkeys(keys):
        places = [at for at, other in enumerate(keys) if other == key]
        jobs += _at_one_time(manifests, places)
    jobs.sort(key=lambda job: max(_end_ns(manifests[at]) for at in job))
    problems = [_earlier(manifests, job) for job in jobs[:-1]]
    kept, more = _one_process_a_rank(manifests, jobs[-1] if jobs else [])
    return kept, problems + more


def _at_one_time(manifests: Sequence[_Manifest], places: list[int]) -> list[list[int]]:
    """Return the places in groups of processes that ran at the same time. Those without times are one group."""
    processes: dict[_Process, list[int]] = {}
    timeless = []
    for at in places:
        if _start_ns(manifests[at]) is None:
            timeless.append(at)
        else:
            processes.setdefault(_process(manifests[at]), []).append(at)
    groups: list[tuple[list[int], dict[str, int]]] = []  # places, end by host
    spans = [
        (min(_start_ns(manifests[at]) or 0 for at in own), process[0], own)
        for process, own in processes.items()
    ]
    for start, host, own in sorted(spans):
        end = max(_end_ns(manifests[at]) for at in own)
        ends = groups[-1][1] if groups else {}
        if any(e + (0 if h == host else _CLOCKS_NS) >= start for h, e in ends.items()):
            groups[-1][0].extend(own)
            ends[host] = max(end, ends.get(host, end))
        else:
            groups.append((list(own), {host: end}))
    return [timeless] * bool(timeless) + [own for own, _ in groups]


def _one_process_a_rank(
    manifests: Sequence[_Manifest], places: list[int]
) -> tuple[list[int], list[str]]:
    newest: dict[int, int] = {}
    for at in places:
        rank = int(manifests[at]["rank"])
        if rank not in newest or _end_ns(manifests[at]) > _end_ns(manifests[newest[rank]]):
            newest[rank] = at
    kept, problems = [], []
    for at in sorted(places):
        manifest = manifests[at]
        last = manifests[newest[int(manifest["rank"])]]
        if _start_ns(manifest) is None or _process(manifest) == _process(last):
            kept.append(at)
        else:
            problems.append(
                f"rank {manifest['rank']}: {manifest['shard']} is of an earlier process of the rank: left out"
            )
    return kept, problems


def _earlier(manifests: Sequence[_Manifest], job: list[int]) -> str:
    first = manifests[job[0]]
    ranks = sorted({int(manifests[at]["rank"]) for at in job})
    end_ns = max(_end_ns(manifests[at]) for at in job)
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(end_ns // 10**9))
    name = f" ({first['job_id']})" if first.get("job_id") else ""
    return (
        f"rank {number_list(ranks)}: of an earlier job of {counted(first['world_size'], 'rank')}{name}, "
        f"which ended {when}: left out"
    )


def _process(manifest: _Manifest) -> _Process:
    return str(manifest.get("host", "")), str(manifest.get("process", manifest.get("pid")))


def _start_ns(manifest: _Manifest) -> int | None:
    return _reading(manifest, "start")


def _end_ns(manifest: _Manifest) -> int:
    found = _reading(manifest, "end")
    return int(manifest["t1_ns"]) if found is None else found


def _reading(manifest: _Manifest, name: str) -> int | None:
    clock = manifest.get("clock") or {}
    reading = clock.get(name) if isinstance(clock, dict) else None
    value = reading.get("realtime_ns") if isinstance(reading, dict) else None
    return value if type(value) is int else None
