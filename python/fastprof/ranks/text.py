# SPDX-License-Identifier: Apache-2.0
"""The answers of a Job as lines for a terminal and as values for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastprof.base.formatting import counted, format_share, format_time
from fastprof.base.number_list import number_list
from fastprof.base.visible_text import shortened, visible_text
from fastprof.ranks.bandwidth import collective_kinds
from fastprof.ranks.job import Job
from fastprof.ranks.job_comparison import Change
from fastprof.ranks.rank_summary import PARTS, STAGES

__all__ = ["change_lines", "job_lines", "job_values"]

_SHOWN_RANKS = 16
_PATH_STEPS = 20  # of the critical path
_HEADS = {
    "duration_ns": "step",
    "compute_ns": "compute",
    "communication_ns": "comm",
    "exposed_ns": "exposed",
    "copies_ns": "copies",
    "idle_ns": "idle",
}


def job_values(job: Job) -> dict[str, Any]:
    """Return all answers as values that json.dumps() accepts. Times are integer ns, means over a rank's steps."""
    means = {name: job.means_ns(job.parts(name)) for name in PARTS}
    waiting = job.means_ns(job.waiting_ns)
    steps = (job.parts("duration_ns") >= 0).sum(axis=1).tolist()
    per_rank = [
        {
            "rank": rank,
            "steps": steps[at],
            **{name: means[name][at] for name in PARTS},
            "waiting_ns": waiting[at],
        }
        for at, rank in enumerate(job.ranks)
    ]
    return {
        "folder": job.folder,
        "job_id": job.job_id,
        "world_size": job.world_size,
        "ranks_read": len(job.ranks),
        "problems": job.problems,
        "killed": job.killed,
        "steps": len(job.steps),
        "ranks": per_rank,
        "stragglers": [
            {**each._asdict(), "more": job.why(each.rank)[:5]} for each in job.stragglers
        ],
        "stages": _stages(job),
        "collectives": collective_kinds(job.collectives, job.groups),
        "critical_path": _path_shares(job),
        "clocks": _clocks(job),
        "violations": job.violations,
        "uncalibrated": job.uncalibrated,
    }


def job_lines(job: Job) -> list[str]:
    """Return the answers as lines: what is wrong, a table of ranks, who is slow, stages and collectives."""
    values = job_values(job)
    hosts = {str(each.get("host", "")) for each in job.manifests}
    lines = [
        f"{len(job.ranks)} of {counted(job.world_size, 'rank')} on {counted(len(hosts), 'host')}, "
        f"{counted(len(job.steps), 'step')}"
    ]
    lines += [f"  problem: {each}" for each in job.problems]
    lines += ["", *_table(job, values["ranks"])]
    lines += ["", *_straggler_lines(values["stragglers"])]
    if values["stages"]:
        lines += ["", "exposed time of a step by stage (no common clock needed):"]
        for each in values["stages"]:
            lines.append(
                f"  {each['stage']:<10}{_ms(each['exposed_ns']):>12}  {each['percent']:5.1f} %  "
                f"most of it on rank {each['rank']}"
            )
    if values["collectives"]:
        lines += ["", "collectives (median over calls; waiting: mean over ranks):"]
        lines.append(
            f"  {'kind':<16}{'group':<24}{'calls':>7}{'size':>12}{'time':>12}{'waiting':>12}"
            f"{'algorithm':>14}{'bus':>14}"
        )
        for each in values["collectives"]:
            size = "" if each["size_bytes"] < 0 else f"{each['size_bytes'] / 1e6:.2f} MB"
            lines.append(
                f"  {each['kind']:<16}{shortened(each['group'], 22):<24}{each['calls']:>7}{size:>12}"
                f"{_ms(each['least_ns']):>12}{_ms(each['waiting_ns']):>12}"
                f"{_rate(each['algorithm_bytes_per_s']):>14}{_rate(each['bus_bytes_per_s']):>14}"
            )
    if values["critical_path"]:
        shares = ", ".join(
            f"{each['what']} {each['percent']:.0f} %" for each in values["critical_path"][:6]
        )
        steps = counted(min(len(job.complete_steps), _PATH_STEPS), "step")
        lines += ["", f"critical path of {steps}: {shares}"]
    return [visible_text(line) for line in lines + _clock_lines(job, values["clocks"])]


def _path_shares(job: Job) -> list[dict[str, Any]]:
    """Return whose work the critical path of the first steps consists of, most first."""
    spent: dict[str, int] = {}
    for step in job.complete_steps[:_PATH_STEPS].tolist():
        for piece in job.critical_path(step):
            what = piece.collective or f"rank {piece.rank}"
            spent[what] = spent.get(what, 0) + piece.end_ns - piece.start_ns
    total = max(sum(spent.values()), 1)
    return [
        {"what": what, "ns": ns, "percent": 100 * ns / total}
        for what, ns in sorted(spent.items(), key=lambda each: -each[1])
    ]


def _clocks(job: Job) -> list[dict[str, Any]]:
    """Return by rank how far its clock is ahead of the first rank's at the begin, and the bound of the error."""
    found = []
    for shard in job.shards:
        clock = job.clocks.get(shard.rank)
        if clock is not None:
            begin = int(shard.manifest["t0_ns"])
            least, most = clock.bounds_ns(begin)
            found.append(
                {
                    "rank": shard.rank,
                    "how": clock.how,
                    "ahead_ns": int(clock.ahead_ns(begin)),
                    "error_ns": int(most - least + 1) // 2,
                }
            )
    return found


def _clock_lines(job: Job, clocks: list[dict[str, Any]]) -> list[str]:
    compared = [each for each in clocks if each["how"] == "collectives"]
    if not compared and not job.uncalibrated:
        return []
    lines = ["", f"clocks, against rank {job.ranks[0]}'s at the begin:"]
    furthest = sorted(compared, key=lambda each: -abs(each["ahead_ns"]))[:4]
    for each in furthest:
        lines.append(
            f"  rank {each['rank']} is {_ms(each['ahead_ns'])} ahead, within {_ms(each['error_ns'])}"
        )
    if len(compared) > len(furthest):
        lines.append(f"  {counted(len(compared) - len(furthest), 'more rank')}, less far")
    if job.violations:
        lines.append(
            f"  {counted(job.violations, 'collective')} that a rank enters after another left"
        )
    if job.uncalibrated:
        lines.append(
            f"  rank {number_list(job.uncalibrated)}: cannot be compared: too few collectives with other ranks, or the "
            "clock was set"
        )
    return lines


def _ms(ns: float) -> str:
    return format_time(ns / 1000, "ms")


def _rate(bytes_per_s: float | None) -> str:
    return "" if bytes_per_s is None else f"{bytes_per_s / 1e9:.2f} GB/s"


def _table(job: Job, rows: list[dict[str, Any]]) -> list[str]:
    heads = "".join(f"{head:>12}" for head in (*_HEADS.values(), "waiting"))
    lines = [f"{'rank':>6}{heads}   (mean of a step)"]
    slow = {each.rank for each in job.stragglers}
    shown = rows
    if (
        len(rows) > _SHOWN_RANKS
    ):  # the slow ones, and those with the least waiting: the others wait for them
        order = sorted(rows, key=lambda row: (row["rank"] not in slow, row["waiting_ns"]))
        shown = sorted(order[:_SHOWN_RANKS], key=lambda row: int(row["rank"]))
    for row in shown:
        times = "".join(f"{_ms(row[name]):>12}" for name in (*_HEADS, "waiting_ns"))
        lines.append(f"{row['rank']:>6}{times}" + ("  slow" if row["rank"] in slow else ""))
    if len(shown) < len(rows):
        medians = "".join(
            f"{_ms(float(np.median([row[name] for row in rows]))):>12}"
            for name in (*_HEADS, "waiting_ns")
        )
        lines.append(f"{'median':>6}{medians}   of all {len(rows)} ranks (--as-json has each)")
    return lines


def _straggler_lines(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["no rank is slower than the others beyond chance"]
    lines = ["slow ranks:"]
    for each in found[:8]:
        said = (
            f"last in {100 * each['score']:.0f} % of the steps"
            if each["by"] == "count"
            else f"z = {each['score']:.1f} of the median absolute deviation"
        )
        share = format_share(each["own_ns"] - each["median_ns"], each["median_ns"])
        lines.append(
            f"  rank {each['rank']}: {_ms(each['own_ns'])} of its own in a step, {share} more than the median; {said}; "
            f"costs {_ms(each['cost_ns'])} a step"
        )
        for name, ns in each["more"][:3]:
            lines.append(f"      {_ms(ns):>10} more a step  {shortened(name, 80)}")
    if len(found) > 8:
        lines.append(f"  and ranks {number_list([each['rank'] for each in found[8:]])}")
    return lines


def _stages(job: Job) -> list[dict[str, Any]]:
    exposed, charged = job.exposed
    if not len(exposed):
        return []
    total = max(int(exposed.sum()), 1)
    found = []
    for at, stage in enumerate((*STAGES, "waiting")):
        ns = exposed[:, at]
        by_rank = np.bincount(charged[:, at], ns, len(job.ranks))
        if ns.sum():
            found.append(
                {
                    "stage": stage,
                    "exposed_ns": int(ns.mean()),
                    "percent": 100 * int(ns.sum()) / total,
                    "rank": job.ranks[int(by_rank.argmax())],
                }
            )
    return found


def change_lines(changes: list[Change]) -> list[str]:
    """Return the changes between two runs as lines; one line if there are none."""
    changed = [each for each in changes if each.changed]
    if not changed:
        return [f"no change: {counted(len(changes), 'time')} compared"]
    lines = [f"{'before':>12}{'after':>12}  99.9 % interval     (of a step)"]
    for each in changed[:20]:
        interval = f"{100 * (each.low - 1):+.1f} to {100 * (each.high - 1):+.1f} %"
        what = each.what if each.kind != "name" else shortened(each.what, 70)
        lines.append(f"{_ms(each.before_ns):>12}{_ms(each.after_ns):>12}  {interval:<20}{what}")
    if len(changed) > 20:
        lines.append(f"{counted(len(changed) - 20, 'more change')} (--as-json has each)")
    return lines
