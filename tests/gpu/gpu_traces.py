# SPDX-License-Identifier: Apache-2.0
"""Profiles of some work by fastprof and by torch.profiler, summarised from their traces."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from gpu_workloads import Gpu

from fastprof import ProfilerActivity, profile, record_function

__all__ = ["BOTH", "Result", "ours", "skip", "steps", "summary", "theirs", "trace_of"]

BOTH = (ProfilerActivity.CPU, ProfilerActivity.CUDA)
Result = dict[str, Any]


def skip(reason: str) -> Result:
    return {"faults": [], "facts": {}, "skipped": reason}


def trace_of(prof: Any, path: str) -> list[dict[str, Any]]:
    """Export a profile, ours or torch's, and return the events of the trace."""
    prof.export_chrome_trace(path)
    with open(path) as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return events


def summary(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What a trace has of the device: rows by category, kernels without a call, early and unlinked ones."""
    calls = {
        e["args"]["correlation"]: e["ts"]
        for e in reversed(events)
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    kernels = [e for e in events if e.get("cat") == "kernel"]
    ids = [e.get("args", {}).get("correlation") for e in kernels]
    return {
        "rows": dict(Counter(e["cat"] for e in events if e.get("cat") and e.get("ph") == "X")),
        "kernels": len(kernels),
        "without_call": sum(number not in calls for number in ids),
        "before_their_call": sum(
            e["ts"] < calls.get(number, e["ts"]) for e, number in zip(kernels, ids, strict=True)
        ),
        "unlinked": sum(not e.get("args", {}).get("External id") for e in kernels),
    }


def ours(work: Callable[[], None], name: str = "ours.json", **options: Any) -> dict[str, Any]:
    """Profile `work` with fastprof and summarise the trace."""
    with profile(activities=BOTH, **options) as prof:
        with record_function("range"):
            work()
    table = prof.event_table
    found = summary(trace_of(prof, name))
    outside = 0
    categories = table.sites.field("category")
    for row, site in enumerate(table.column("site")):
        if categories[site] == "kernel":
            outside += bool(table.start_ns[row] < table.t0_ns or table.end_ns[row] > table.t1_ns)
    return {
        **found,
        "outside": outside,
        "missing": prof.missing.get("CUDA"),
        "dropped": dict(table.dropped),
    }


def theirs(work: Callable[[], None], name: str = "theirs.json") -> dict[str, Any]:
    import torch.profiler as other

    with other.profile(
        activities=[other.ProfilerActivity.CPU, other.ProfilerActivity.CUDA]
    ) as prof:
        with other.record_function("range"):
            work()
    return summary(trace_of(prof, name))


def steps(gpu: Gpu, count: int) -> Callable[[], None]:
    def work() -> None:
        for _ in range(count):
            gpu.step()
        gpu.synchronize()

    return work
