# SPDX-License-Identifier: Apache-2.0
"""Checks of what rows say beside their times, and of rows that are recorded on request."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from gpu_traces import Result, ours, skip, summary, theirs, trace_of
from gpu_workloads import Gpu

from fastprof import ProfilerActivity, _ExperimentalConfig, profile, record_function

__all__ = ["ARGUMENT_CHECKS", "join_group"]

Event = dict[str, Any]
# Times and numbers that differ from run to run.
_OF_A_RUN = {
    "correlation", "External id", "Ev Idx", "stream", "channel", "queued", "Seq", "memory bandwidth (GB/s)",
}  # fmt: skip


def _events(path: str, category: str) -> list[Event]:
    with open(path) as file:
        return [e for e in json.load(file)["traceEvents"] if e.get("cat") == category]


def _differences(mine: list[Event], other: list[Event]) -> dict[str, Any]:
    """Return where the arguments of two lists of rows differ, row by row in order, and names of one side only."""
    differing: dict[str, Any] = {}
    names: tuple[set[str], set[str]] = (set(), set())
    for a, b in zip(mine, other, strict=False):
        x, y = (
            {k: v for k, v in event.get("args", {}).items() if k not in _OF_A_RUN}
            for event in (a, b)
        )
        names[0].update(x), names[1].update(y)  # type: ignore[func-returns-value]
        for key in x.keys() & y.keys():
            if x[key] != y[key]:
                differing.setdefault(key, [a["name"][:60], x[key], y[key]])
    return {
        "differing": differing,
        "ours_only": sorted(names[0] - names[1]),
        "torch_only": sorted(names[1] - names[0]),
    }


def arguments(gpu: Gpu) -> Result:
    """Arguments of kernels, copies and fills are torch.profiler's, by the order of the rows."""

    def work() -> None:
        gpu.step()
        gpu.copies()
        gpu.synchronize()

    work()
    facts: dict[str, Any] = {"ours": ours(work, "arguments.json")}
    kernels = _events("arguments.json", "kernel")
    facts["kernel"] = kernels[0]["args"] if kernels else None
    if gpu.is_double:
        return {"faults": [], "facts": facts}
    theirs(work)
    facts["torch"] = theirs(work, "arguments_torch.json")
    for category in ("kernel", "gpu_memcpy", "gpu_memset"):
        mine, other = (
            sorted(_events(path, category), key=lambda e: e["ts"])
            for path in ("arguments.json", "arguments_torch.json")
        )
        facts[category] = _differences(mine, other)
    faults = [
        f"{category}: {name} is {facts[category]['differing'][name]}"
        for category in ("kernel", "gpu_memcpy", "gpu_memset")
        for name in ("grid", "block", "registers per thread", "shared memory", "bytes")
        if name in facts[category]["differing"]
    ]
    return {"faults": faults, "facts": facts}


def whole_graphs(gpu: Gpu) -> Result:
    """CUDA graphs as one row a launch; refused for a graph that exists; nodes come back in a later profile."""
    graphs = [gpu.graph()]
    if graphs[0] is None:
        return skip("no graph")

    def replays() -> None:
        for _ in range(10):
            for replay in graphs[-1:]:
                assert replay is not None
                replay()
        gpu.synchronize()

    def captured() -> None:
        graphs.append(gpu.graph())
        replays()

    replays()
    facts: dict[str, Any] = {"nodes": ours(replays, "nodes.json")}
    types = ["kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cuda_graph"]
    warnings.simplefilter("ignore")
    activities: list[Any] = [ProfilerActivity.CPU, {ProfilerActivity.CUDA: types}]
    with profile(activities=activities) as prof:
        replays()
    facts["refused"] = dict(prof.missing)
    os.environ["FASTPROF_CUDA_GRAPH_TRACE"] = "1"
    with profile(activities=activities) as prof:
        with record_function("range"):
            captured()
    facts["whole"] = summary(trace_of(prof, "whole.json"))
    facts["missing"] = dict(prof.missing)
    facts["after"] = ours(replays, "after.json")
    rows = [e for e in _events("whole.json", "kernel") if e["name"].startswith("CUDA graph ")]
    facts["row"] = rows[0] if rows else None
    faults = []
    if not any("as a whole" in why for why in facts["refused"].values()):
        faults.append("a graph that exists would crash, and is not refused")
    if len(rows) != 10:
        faults.append(f"{len(rows)} rows of 10 launches: {sorted({e['name'][:60] for e in rows})}")
    if facts["whole"]["without_call"] or facts["whole"]["unlinked"]:
        faults.append("launches of graphs are not linked to their calls")
    if facts["whole"]["before_their_call"]:
        faults.append("launches of graphs begin before their calls")
    if facts["after"]["kernels"] != facts["nodes"]["kernels"]:
        faults.append("a later profile has not the nodes of the graph")
    return {"faults": faults, "facts": facts}


def recorded_events(gpu: Gpu) -> Result:
    """Each cudaEventRecord is a row on its stream, behind its call and inside the profile, if CUPTI has its time."""

    def work() -> None:
        if gpu.is_double:
            for _ in range(5):
                gpu.library.fake_record_event(5, 0, 7)  # type: ignore[attr-defined]
            gpu.synchronize()
            return
        import torch

        side = torch.cuda.Stream()
        for _ in range(5):
            gpu.step()
            event = torch.cuda.Event()
            event.record()
            side.wait_event(event)
        gpu.synchronize()

    found = ours(
        work, "events.json", experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)
    )
    events = _events("events.json", "cuda_event")
    calls = {
        e["args"]["correlation"]: e
        for e in _events("events.json", "cuda_runtime")
        if "cudaEventRecord" in e["name"]
    }
    early = [e for e in events if e["ts"] < calls.get(e["args"]["correlation"], e)["ts"]]
    facts = {
        "found": found,
        "events": len(events),
        "with_call": sum(e["args"]["correlation"] in calls for e in events),
        "calls": len(calls),
        "early": len(early),
        "first": events[:2],
        "its_call": [calls.get(e["args"]["correlation"]) for e in events[:2]],
        "waits": _events("events.json", "cuda_sync")[:2],
    }
    faults = [str(found["missing"])] if found["missing"] else []
    if found["dropped"]:
        faults.append(f"dropped: {found['dropped']}")
    if early:
        faults.append(f"{len(early)} events are recorded before their call")
    if 0 < len(events) < 5:
        faults.append(f"{len(events)} of 5 events have rows")
    return {"faults": faults, "facts": facts}


def collectives(gpu: Gpu) -> Result:
    """Kernels of NCCL have their op's metadata, as torch.profiler's; one rank runs a kernel for a scaled sum."""
    if gpu.is_double:
        return skip("the double has no NCCL")
    if not join_group():
        return skip("no process group of NCCL")
    import torch
    import torch.distributed as dist

    data = torch.ones(1 << 16, device="cuda")
    scaled = dist._make_nccl_premul_sum(2.0)

    def work() -> None:
        for _ in range(3):
            dist.all_reduce(data, op=scaled)
            gpu.step()
        gpu.synchronize()

    work()
    facts: dict[str, Any] = {"ours": ours(work, "collectives.json")}
    theirs(work)
    facts["torch"] = theirs(work, "collectives_torch.json")
    mine, other = (
        [e for e in _events(path, "kernel") if "Collective name" in e["args"]]
        for path in ("collectives.json", "collectives_torch.json")
    )
    facts["names"] = sorted({e["name"][:80] for e in _events("collectives.json", "kernel")})
    facts |= {"kernels": [len(mine), len(other)], "args": mine[:1], "torch_args": other[:1]}
    facts["differences"] = _differences(mine, other)
    faults = []
    if len(mine) != len(other):
        faults.append(f"{len(mine)} kernels have metadata, torch.profiler's {len(other)}")
    members = ("Collective name", "In msg nelems", "Group size", "dtype", "Process Group Name")
    faults += [f"{n} differs" for n in members if n in facts["differences"]["differing"]]
    return {"faults": faults, "facts": facts}


def join_group() -> bool:
    """Begin NCCL's process group of one rank; return whether that worked."""
    import torch.distributed as dist

    try:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531")
        dist.init_process_group("nccl", rank=0, world_size=1)
    except Exception as error:
        print(error, file=sys.stderr)
        return False
    return True


ARGUMENT_CHECKS: dict[str, Callable[[Any], Result]] = {
    check.__name__: check for check in (arguments, whole_graphs, recorded_events, collectives)
}
