# SPDX-License-Identifier: Apache-2.0
"""The checks of `make gpu-check`, one program a check: python gpu_programs.py NAME prints its result as JSON.

A result has "faults" (what is wrong; empty: all is well), "facts", and perhaps "skipped" (a reason).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_experiments import EXPERIMENTS
from gpu_traces import BOTH, Result, skip, trace_of
from gpu_workloads import DOUBLE, Gpu, open_gpu, reason_without

import fastprof
from fastprof import profile, record_function

STEPS = 50
CYCLES = 100


def _rows(table: Any, category: str) -> list[int]:
    categories = table.sites.field("category")
    return [row for row, site in enumerate(table.column("site")) if categories[site] == category]


def _totals(prof: profile) -> dict[str, list[float]]:
    """Name of kernel -> [count, sum of durations, median, in us]."""
    table = prof.event_table
    durations: dict[str, list[float]] = {}
    for row in _rows(table, "kernel"):
        durations.setdefault(table.name(row), []).append(float(table.duration_ns[row]) / 1000)
    return _summed(durations)


def _summed(durations: dict[str, list[float]]) -> dict[str, list[float]]:
    return {
        name: [len(each), round(sum(each), 3), round(statistics.median(each), 3)]
        for name, each in durations.items()
    }


def _warm_up(gpu: Gpu) -> None:
    """Bring the device's clock from that of idleness to its highest."""
    until = time.monotonic() + (0 if gpu.is_double else 0.5)
    while time.monotonic() < until:
        for _ in range(20):
            gpu.step()
        gpu.synchronize()


def _steps(gpu: Gpu) -> None:
    for number in range(STEPS):
        with record_function(f"step {number}"):
            gpu.step()
    gpu.synchronize()


def kernels(gpu: Gpu) -> Result:
    """Every kernel is there, in its step, after its launch, inside of the profile."""
    faults: list[str] = []
    _warm_up(gpu)
    with profile(activities=BOTH) as prof:
        total_us = gpu.time_us(lambda: _steps(gpu))
    if "CUDA" in prof.missing:
        return {"faults": [f"CUDA was not recorded: {prof.missing['CUDA']}"], "facts": {}}
    table = prof.event_table
    found = _rows(table, "kernel")
    wanted = STEPS * gpu.kernels_of_step
    if len(found) < wanted:
        faults.append(f"{len(found)} kernels of at least {wanted}")
    linked, external = table.column("linked_correlation_id"), table.column("external_id")
    row_of = {int(value): row for row, value in enumerate(external) if value}
    steps: Counter[str] = Counter()
    unlinked = 0
    for row in found:
        at = row_of.get(int(linked[row]), -1)
        unlinked += at < 0
        while at >= 0 and not table.name(at).startswith("step "):
            at = int(table.column("parent")[at])
        if at >= 0:
            steps[table.name(at)] += 1
            if table.start_ns[row] < table.start_ns[at]:
                faults.append(f"a kernel of {table.name(at)} begins before it")
    if unlinked:
        faults.append(f"{unlinked} kernels are linked to no range")
    if len(steps) != STEPS or len(set(steps.values())) != 1:
        faults.append(f"kernels by step: {dict(Counter(steps.values()))} in {len(steps)} steps")
    outside = sum(
        int(table.start_ns[row] < table.t0_ns or table.end_ns[row] > table.t1_ns) for row in found
    )
    if outside:
        faults.append(f"{outside} kernels lie outside of the profile's time")
    faults += _stream_order(table, found) + _launch_order(prof)
    kernel_us = sum(entry[1] for entry in _totals(prof).values())
    facts = {"kernels": _totals(prof), "events_us": total_us, "kernels_us": kernel_us}
    if total_us is not None and kernel_us > total_us * 1.15:
        faults.append(
            f"kernels take {kernel_us:.0f} us, and CUDA's events measure {total_us:.0f} us"
        )
    return {"faults": faults, "facts": {**facts, "dropped": dict(table.dropped)}}


def _stream_order(table: Any, found: list[int]) -> list[str]:
    """Kernels of one stream do not overlap, and each has a duration."""
    last: dict[int, int] = {}
    overlaps = empty = 0
    for row in sorted(found, key=lambda row: int(table.start_ns[row])):
        track = int(table.column("track")[row])
        # A kernel may begin while the one before it drains.
        overlaps += int(table.end_ns[row]) < last.get(track, 0)
        empty += int(table.end_ns[row]) <= int(table.start_ns[row])
        last[track] = max(last.get(track, 0), int(table.end_ns[row]))
    return [
        f"{count} kernels {what}"
        for count, what in (
            (overlaps, "end before one that began earlier"),
            (empty, "have no duration"),
        )
        if count
    ]


def _launch_order(prof: profile) -> list[str]:
    """Each kernel of the trace begins after the call that launched it."""
    events = trace_of(prof, "kernels.json")
    calls = {
        e["args"]["correlation"]: e["ts"]
        for e in reversed(events)
        if e.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    kernels = [e for e in events if e.get("cat") == "kernel"]
    unknown = sum(e["args"]["correlation"] not in calls for e in kernels)
    early = sum(e["ts"] < calls.get(e["args"]["correlation"], 0) for e in kernels)
    return [
        f"{count} kernels {what}"
        for count, what in ((unknown, "have no call"), (early, "begin before their call"))
        if count
    ]


def torch_profiler(gpu: Gpu) -> Result:
    """The same steps under torch.profiler, for comparison."""
    if gpu.is_double:
        return skip("the double has no torch.profiler")
    import torch.profiler as theirs

    activities = [theirs.ProfilerActivity.CPU, theirs.ProfilerActivity.CUDA]
    with theirs.profile(activities=activities):  # the first one loses kernels while CUPTI warms up
        _steps(gpu)
    _warm_up(gpu)
    with theirs.profile(activities=activities) as prof:
        _steps(gpu)
    durations: dict[str, list[float]] = {}
    for event in prof.events():
        if "CUDA" in str(event.device_type) and not event.name.startswith(("Mem", "step ")):
            durations.setdefault(event.name, []).append(float(event.device_time_total))
    return {"faults": [], "facts": {"kernels": _summed(durations)}}


def memory_kinds(gpu: Gpu) -> Result:
    """Copies and fills have their direction, kind of memory, size and bandwidth."""
    with profile(activities=BOTH) as prof:
        with record_function("copies"):
            wanted = gpu.copies()
    table = prof.event_table
    found = [
        e for e in trace_of(prof, "copies.json") if e.get("cat") in ("gpu_memcpy", "gpu_memset")
    ]
    names = Counter(event["name"] for event in found)
    faults = [
        f"{sum(c for n, c in names.items() if n.startswith(begin))} rows {begin!r} of at least {count}"
        for begin, count in wanted.items()
        if sum(c for n, c in names.items() if n.startswith(begin)) < count
    ]
    bad = [
        e["name"]
        for e in found
        if e["args"]["bytes"] <= 0 or e["args"]["memory bandwidth (GB/s)"] <= 0
    ]
    if bad:
        faults.append(f"without size or bandwidth: {bad}")
    return {"faults": faults, "facts": {"copies": dict(names), "dropped": dict(table.dropped)}}


def streams(gpu: Gpu) -> Result:
    """Work on four streams is on four tracks, all linked to the range."""
    with profile(activities=BOTH) as prof:
        with record_function("range"):
            gpu.on_streams(4)
    table = prof.event_table
    found = _rows(table, "kernel")
    tracks = {int(table.column("device_resource_id")[row]) for row in found}
    faults = [] if len(tracks) >= 4 else [f"kernels are on {len(tracks)} streams of 4"]
    if any(int(table.column("linked_correlation_id")[row]) == 0 for row in found):
        faults.append("kernels are linked to no range")
    return {"faults": faults + _stream_order(table, found), "facts": {"streams": sorted(tracks)}}


def graphs(gpu: Gpu) -> Result:
    """Kernels of a graph are linked to its launch and have their node."""
    replay = gpu.graph()
    if replay is None:
        return skip("no graph")
    replay()
    gpu.synchronize()
    with profile(activities=BOTH) as prof:
        with record_function("replay"):
            for _ in range(10):
                replay()
            gpu.synchronize()
    found = [event for event in trace_of(prof, "graph.json") if event.get("cat") == "kernel"]
    nodes = {event["args"].get("graph node id", 0) for event in found}
    faults = []
    if len(found) < 10 * gpu.kernels_of_step:
        faults.append(f"{len(found)} kernels of at least {10 * gpu.kernels_of_step}")
    if 0 in nodes or len(nodes) < gpu.kernels_of_step:
        faults.append(f"graph node ids: {sorted(nodes)}")
    if any(not event["args"].get("External id") for event in found):
        faults.append("kernels of the graph are linked to no range")
    return {"faults": faults, "facts": {"kernels": len(found), "nodes": len(nodes)}}


def cycles(gpu: Gpu) -> Result:
    """Many profiles in one process: each has its own kernels, and all of them."""
    counts: Counter[int] = Counter()
    for _ in range(CYCLES):
        with profile(activities=BOTH) as prof:
            gpu.step()
            gpu.synchronize()
        counts[len(_rows(prof.event_table, "kernel"))] += 1
    faults = [] if len(counts) == 1 and 0 not in counts else [f"kernels by profile: {dict(counts)}"]
    return {"faults": faults, "facts": {"kernels_by_profile": dict(counts)}}


def conflict(gpu: Gpu) -> Result:
    """Another client of CUPTI: the profile says so and goes on, and works once the other has ended."""
    warnings.simplefilter("ignore")
    other = _other_client(gpu)
    with other:
        with profile(activities=BOTH) as prof:
            with record_function("range"):
                gpu.step()
    facts: dict[str, Any] = {"missing": prof.missing.get("CUDA")}
    faults = []
    if "range" not in prof.event_table.names:
        faults.append("the range was lost")
    with profile(activities=BOTH) as after:
        gpu.step()
        gpu.synchronize()
    facts["missing_after"] = after.missing.get("CUDA")
    facts["kernels_after"] = len(_rows(after.event_table, "kernel"))
    # A fact, not a fault: torch.profiler may keep its subscription (TEARDOWN_CUPTI).
    if prof.missing.get("CUDA") is None and not gpu.is_double:
        facts["note"] = "both clients were accepted"
    if gpu.is_double and (not facts["missing"] or not facts["kernels_after"]):
        faults.append(f"the double accepts one client: {facts}")
    return {"faults": faults, "facts": facts}


class _RawClient:
    """A subscription to the double."""

    def __init__(self) -> None:
        import ctypes

        self._library = ctypes.CDLL(os.environ["FASTPROF_CUPTI_LIBRARY"])
        self._handle = ctypes.c_void_p()
        self._reference = ctypes.byref(self._handle)

    def __enter__(self) -> None:
        self._library.cuptiSubscribe(self._reference, None, None)

    def __exit__(self, *_: object) -> None:
        self._library.cuptiUnsubscribe(self._handle)


def _other_client(gpu: Gpu) -> Any:
    if gpu.is_double:
        return _RawClient()
    import torch.profiler as theirs

    return theirs.profile(activities=[theirs.ProfilerActivity.CPU, theirs.ProfilerActivity.CUDA])


def exit_while_recording(gpu: Gpu) -> Result:
    """The interpreter ends while a profile records; the exit status is the check's."""
    prof = profile(activities=BOTH)
    prof.start()
    gpu.step()
    return {"faults": [], "facts": {}}


def facts(gpu: Gpu) -> Result:
    """The machine, and whether fastprof finds CUDA."""
    from fastprof.record.cuda import cuda_problem

    problem = cuda_problem()
    doctor = subprocess.run(
        [sys.executable, "-m", "fastprof", "doctor", "-v"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    known = {
        **gpu.facts(), "fastprof": fastprof.__version__, "cuda_problem": problem,
        "libraries": [
            Path(line.split()[-1]).name
            for line in Path("/proc/self/maps").read_text().splitlines()
            if "libcu" in line and " 00000000 " in line
        ],
        "doctor": doctor.stdout + doctor.stderr,
    }  # fmt: skip
    return {"faults": [problem] if problem else [], "facts": known}


PROGRAMS: dict[str, Callable[[Gpu], Result]] = {
    check.__name__: check
    for check in (
        facts, kernels, torch_profiler, memory_kinds, streams, graphs, cycles, conflict,
        exit_while_recording,
    )
}  # fmt: skip


def run(name: str) -> Result:
    """Run a check; an exception is a fault."""
    gpu = None if name == "jax_alone" and not os.environ.get(DOUBLE) else open_gpu()
    try:
        return {**PROGRAMS, **EXPERIMENTS}[name](gpu)  # type: ignore[arg-type]
    except Exception:
        return {"faults": [traceback.format_exc()[-3000:]], "facts": {}}


if __name__ == "__main__":
    if sys.argv[1] == "--reason":
        reason = reason_without()
        print(reason or "")
        sys.exit(0 if reason is None else 1)
    print(json.dumps(run(sys.argv[1])), flush=True)
    if sys.argv[1] in EXPERIMENTS:
        sys.stderr.flush()
        os._exit(0)  # CUPTI keeps callbacks of the raw client, which end with the interpreter
