# SPDX-License-Identifier: Apache-2.0
"""recovered_shards: shards of ranks that ended without writing one, from the backing files of their recordings.

rank_trace_handler() keeps the records of a recording in FOLDER/records-*, which it removes once the shard is complete.
A file that is left is of a process that was killed, ended at once, or still runs.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import counted
from fastprof.model.columns import EventFlag
from fastprof.model.table import EventTable
from fastprof.profiler.recovery import is_running, recover
from fastprof.ranks.call_snapshots import KEPT_CALLS, Snapshot, read_snapshot
from fastprof.ranks.collective_calls import CollectiveCalls, collective_calls
from fastprof.ranks.environment import RankFacts
from fastprof.ranks.manifest import RECORDS, check_members
from fastprof.ranks.places import is_url
from fastprof.ranks.shard import shard_stem, write_shard
from fastprof.ranks.step_rows import last_step

__all__ = ["FACT", "killed_text", "recovered_shards"]

FACT = "rank_facts"  # metadata of the file: RankFacts, host, process and clock as JSON
_CACHE = ".fastprof-records"
_Manifest = dict[str, Any]


def recovered_shards(
    folder: str, names: Sequence[str], finished: Sequence[_Manifest]
) -> tuple[list[str], list[str], Any]:
    """Write a shard for each backing file of a folder whose recording has none.

    finished: manifests of the folder's shards. The shards lie in the folder ".fastprof-records" of the folder, or in a
    temporary one where that cannot be written. Returns the paths of their manifests, a sentence for each file that
    cannot be read, and an object that keeps a temporary folder. Any thread.
    """
    paths, problems, keeper = [], [], None
    done = {each.get("records") for each in finished}
    left = [] if is_url(folder) else [n for n in names if n.startswith(RECORDS) and n not in done]
    target = os.path.join(folder, _CACHE)
    if left:
        try:
            os.makedirs(target, exist_ok=True)
            with tempfile.TemporaryFile(dir=target):
                pass
        except OSError:
            keeper = tempfile.TemporaryDirectory(prefix="fastprof-ranks-")
            target = keeper.name
    found = []
    for name in left:
        try:
            found.append((name, *_read(os.path.join(folder, name))))
        except errors.Error as error:
            problems.append(f"{name}: records of a rank that did not finish: {error}: left out")
    ranks = {each.get("process"): each for each in finished}
    for _, facts, _ in found:  # an earlier part of the same recording says who it is
        if facts["found_by"] == "nothing" and (same := ranks.get(facts["process"])) is not None:
            facts.update({key: same[key] for key in ("rank", "world_size") if key in same})
            facts.update(job_id=str(same.get("job_id", "")), found_by="an earlier part")
    unknown = [each for each in found if each[1]["found_by"] == "nothing"]
    known = [*finished, *(each[1] for each in found if each[1]["found_by"] != "nothing")]
    for name, facts, table in found:
        if facts["found_by"] == "nothing" and known:
            size = known[-1]["world_size"]
            absent = set(range(size)) - {each["rank"] for each in known}
            if len(absent) != 1 or len(unknown) != 1:
                problems.append(
                    f"{name}: pid {facts['pid']} on {facts['host']} did not finish, and its rank is unknown: left out. "
                    "Begin to record after init_process_group(), or start the job by a launcher that sets RANK"
                )
                continue
            facts.update(rank=absent.pop(), world_size=size, job_id=known[-1].get("job_id", ""))
            facts["found_by"] = "the other ranks"
        paths.append(_write(target, os.path.join(folder, name), facts, table, known))
    return paths, problems, keeper


def _read(path: str) -> tuple[dict[str, Any], EventTable]:
    """Return what a process wrote about itself, and its events. Raises errors.Error."""
    table = recover(path)
    recovered = table.metadata["recovered"]
    try:
        facts = json.loads(recovered["metadata"][FACT])
        facts.update({key: str(facts[key]) for key in ("found_by", "host", "process", "job_id")})
        described = {"groups": [], **facts, "clock": {"start": facts["clock"]}}
        check_members(described, ("rank", "world_size", "local_rank", "groups", "pid", "clock"))
        facts.update(groups=described["groups"], part=int(facts["part"]))
        if facts["rank"] >= facts["world_size"]:
            raise ValueError(f"rank {facts['rank']} of {facts['world_size']}")
    except errors.FormatError as error:
        raise errors.FormatError(f"what it says of its rank is damaged: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise errors.FormatError(
            f"{path}: it does not say which rank it is of ({error!r}). Read it with `fastprof recover`."
        ) from error
    here = facts["host"] == platform.node()
    facts["alive"] = here and is_running(table)
    facts["offset_ns"] = int(recovered["unix_offset_ns"])
    return facts, table


def _write(
    target: str,
    records: str,
    facts: dict[str, Any],
    table: EventTable,
    others: Sequence[_Manifest],
) -> str:
    """Write the shard of a backing file, whose path is `records`; return the path of its manifest."""
    name = os.path.basename(records)
    snapshot, lost = _snapshot(records, table.t1_ns)
    groups = (snapshot.groups if snapshot else []) or facts["groups"]
    groups = groups or _groups_of(facts["rank"], others)
    rank_facts = RankFacts(
        facts["rank"], facts["world_size"], facts.get("local_rank", -1), groups, facts["found_by"], facts["job_id"]
    )  # fmt: skip
    end = {
        "realtime_ns": table.t1_ns,
        "monotonic_ns": table.t1_ns - facts["offset_ns"],
        "width_ns": table.clock_error_ns,
    }
    calls = collective_calls(
        table, groups, rank=facts["rank"], lost=lost,
        recorded=None if snapshot is None else snapshot.calls,
        recorded_until_ns=None if snapshot is None else snapshot.taken_ns,
    )  # fmt: skip
    killed = {"last_ns": table.t1_ns, "alive": facts["alive"], **_last(table, calls)}
    details: dict[str, Any] = {
        key: facts[key] for key in ("host", "process", "pid", "versions") if key in facts
    }
    stem = shard_stem(facts["rank"], facts["part"])
    return write_shard(
        table, target, rank_facts,
        stem=f"{stem}-{name.removeprefix(RECORDS)}",
        clock={"start": facts["clock"], "end": end},
        details={**details, "killed": killed, "records": name},
        calls=calls.ended(table),
    )  # fmt: skip


def _snapshot(records: str, end_ns: int) -> tuple[Snapshot | None, str]:
    """Return the copy of torch's flight recorder, and why it does not say the group of all collectives."""
    try:
        snapshot = read_snapshot(records)
    except errors.FormatError as error:
        return None, f"The copy of torch's flight recorder, which says it, is damaged: {error}."
    if snapshot is None:
        return None, (
            "torch's flight recorder, which says it, ended with the process that was killed, before it was copied."
        )
    before_s = max(end_ns - snapshot.taken_ns, 0) / 1e9
    return snapshot, (
        f"torch's flight recorder, which says it, was last copied {before_s:.1f} s before the last record, with "
        f"{counted(len(snapshot.calls), 'call')} (at most {KEPT_CALLS}): too few to know all threads of each group. "
        "Begin to record some seconds earlier, so that each group has several calls by then."
    )


def _groups_of(rank: int, others: Sequence[_Manifest]) -> list[dict[str, Any]]:
    """Return the process groups of a rank as other ranks describe them."""
    groups = {
        str(group["name"]): group
        for each in others
        for group in each.get("groups") or ()
        if rank in group["ranks"]
    }
    return list(groups.values())


def _last(table: EventTable, calls: CollectiveCalls) -> dict[str, Any]:
    """Return the number of the last step and the last collective that a table has, and whether that had ended."""
    found: dict[str, Any] = {"step": last_step(table), "collective": "", "collectives": 0}
    if len(calls.rows):
        row = int(calls.rows[-1])
        ended = bool(table.column("flags")[row] & EventFlag.FINISHED)
        found.update(
            collective=f"{calls.kind[-1]} {calls.group[-1]}".strip(),
            collective_ended=ended,
            collective_start_ns=int(table.start_ns[row]),
            collectives=len(calls.rows),
        )
    return found


def killed_text(killed: dict[str, Any]) -> str:
    """Return a sentence on an entry of Job.killed."""
    seconds, rest = divmod(killed["last_ns"], 10**9)
    when = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(seconds))}.{rest // 10**6:03} UTC"
    how = (
        "has not finished" if killed["alive"] else "was killed, or ended without writing its shard"
    )
    step = "" if killed["step"] is None else f" in step {killed['step']}"
    text = f"rank {killed['rank']} {how}: read up to its last record, {when}{step}"
    if killed["collective"]:
        state = "ended" if killed["collective_ended"] else "not ended"
        text += f", after {killed['collective']}, its collective number {killed['collectives']} ({state})"
    return f"{text}; its records are in {killed['records']}"
