# SPDX-License-Identifier: Apache-2.0
"""Checks against what is known otherwise: CUDA's events, torch.profiler's ops, PyTorch's own count of memory."""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from gpu_traces import BOTH, Result
from gpu_workloads import Gpu

from fastprof import profile, record_function
from fastprof.analysis import explain

__all__ = ["ORACLE_CHECKS"]

_BYTES = 1 << 30


def bandwidth(gpu: Gpu) -> Result:
    """Copies and fills of 1 GiB: explain's rate is that of CUDA's events, and no share exceeds the device's limit."""
    import torch

    source = torch.ones(_BYTES, dtype=torch.uint8, device="cuda")
    to = torch.empty_like(source)
    works: dict[str, Callable[[], Any]] = {
        "DtoD": lambda: [to.copy_(source) for _ in range(10)],
        "Memset": lambda: [to.zero_() for _ in range(10)],
    }
    rates, faults = {}, []
    for name, work in works.items():
        work()
        us = gpu.time_us(lambda work=work: work() and None)  # type: ignore[misc]
        rates[name] = 10 * _BYTES / (us or 1) / 1e3
    with profile(activities=BOTH) as prof:
        with record_function("copies"):
            for work in works.values():
                work()
            gpu.synchronize()
    text = "\n".join(claim.text for claim in explain(prof.event_table).devices)
    shown = {
        name: (float(rate), float(percent))
        for name, rate, percent in re.findall(
            r"(?:Memcpy )?(DtoD|Memset).*?, ([\d.]+) GB/s, ([\d.]+) % of what", text
        )
    }
    for name, rate in rates.items():
        if name in shown and not (0.9 < shown[name][0] / rate < 1.1 and 40 < shown[name][1] <= 100):
            faults.append(f"{name}: {shown[name]}, CUDA's events give {rate:.0f} GB/s")
    return {"faults": faults, "facts": {"events": rates, "explain": shown, "text": text[:3000]}}


def _model() -> Callable[[], None]:
    import torch

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(32 * 30 * 30, 256), torch.nn.LayerNorm(256), torch.nn.Linear(256, 10),
    ).cuda()  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters())
    data, wanted = torch.rand(64, 3, 32, 32), torch.randint(10, (64,))

    def work() -> None:
        for _ in range(10):
            loss = torch.nn.functional.cross_entropy(model(data.cuda()), wanted.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
        torch.cuda.synchronize()

    for _ in range(3):
        work()
    return work


def ops_beside_torch(gpu: Gpu) -> Result:
    """Counts and the devices' own time of each op of a training are those of torch.profiler."""
    warnings.simplefilter("ignore")
    import torch.profiler as other

    work = _model()
    activities = [other.ProfilerActivity.CPU, other.ProfilerActivity.CUDA]
    with other.profile(activities=activities):
        work()
    with other.profile(activities=activities) as prof:
        work()
    theirs = {a.key: (a.count, a.self_device_time_total) for a in prof.key_averages()}
    with profile(activities=BOTH) as ours_prof:
        work()
    ours = {a.key: (a.count, a.self_device_time_total) for a in ours_prof.key_averages()}
    faults, facts = [], {}
    for name in sorted(ours.keys() | theirs.keys()):
        (count, us), (other_count, other_us) = ours.get(name, (0, 0.0)), theirs.get(name, (0, 0.0))
        if count != other_count or abs(us - other_us) > max(20.0, 0.2 * max(us, other_us)):
            facts[name] = {"ours": (count, us), "torch.profiler": (other_count, other_us)}
            # Copies from pageable memory and gaps in what a range launched differ each time; a profiler's own rows
            # are its own.
            if not re.search("^aten::copy_$|Pageable|^Optimizer|^Activity Buffer", name):
                faults.append(f"{name}: {facts[name]}")
    return {"faults": faults, "facts": {"different": facts, "names": len(theirs)}}


def memory_beside_torch(gpu: Gpu) -> Result:
    """The device memory of ops adds up to what PyTorch's allocator counts."""
    import torch

    kept: list[Any] = []
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with profile(activities=BOTH, profile_memory=True, record_shapes=True) as prof:
        for number in range(20):
            kept.append(torch.rand(1 << (10 + number % 8), 32, device="cuda").relu())
        del kept[::3]
        gpu.synchronize()
    grown = torch.cuda.memory_allocated() - before
    counted = sum(a.self_device_memory_usage for a in prof.key_averages())
    faults = [] if counted == grown else [f"{counted} bytes, PyTorch says {grown}"]
    return {"faults": faults, "facts": {"counted": counted, "pytorch": grown}}


def launches_together(gpu: Gpu) -> Result:
    """A launch bare, under fastprof and under torch.profiler, in turns in one process that both have attached to."""
    warnings.simplefilter("ignore")
    import torch.profiler as other

    activities = [other.ProfilerActivity.CPU, other.ProfilerActivity.CUDA]
    makers: dict[str, Callable[[], Any]] = {
        "bare": nullcontext,
        "fastprof": lambda: profile(activities=BOTH),
        "torch_profiler": lambda: other.profile(activities=activities),
    }
    ns: dict[str, list[float]] = {name: [] for name in makers}
    for turn in range(8):
        for name, make in makers.items():
            with make():
                gpu.synchronize()
                best = float("inf")
                for _ in range(3):
                    begin = time.perf_counter_ns()
                    for _ in range(1000):
                        gpu.launch()
                    best = min(best, (time.perf_counter_ns() - begin) / 1000)
                    gpu.synchronize()
            if turn:
                ns[name].append(best)
    more = {
        name: [each - bare for each, bare in zip(ns[name], ns["bare"], strict=True)]
        for name in ("fastprof", "torch_profiler")
    }
    facts = {
        "ns": ns,
        "more_ns": {name: statistics.median(values) for name, values in more.items()},
        "ratio": statistics.median(more["fastprof"]) / statistics.median(more["torch_profiler"]),
    }
    return {"faults": [], "facts": facts}


def slow_clock(gpu: Gpu) -> Result:
    """Stamps by the system's clock: the check of kernels holds as it does with the processor's counter."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("gpu_programs.py")), "kernels"],
        capture_output=True, text=True, timeout=50, env={**os.environ, "FASTPROF_CLOCK": "slow"},
    )  # fmt: skip
    text = done.stdout.splitlines()[-1] if done.stdout else done.stderr[-2000:]
    return {"faults": [] if '"faults": []' in text else [text], "facts": {"ended": done.returncode}}


def many_kernels(gpu: Gpu) -> Result:
    """Hundreds of thousands of kernels in one profile: none is lost, and reading them takes seconds."""
    count = 3000 if gpu.is_double else 300_000
    with profile(activities=BOTH) as prof:
        begin = time.perf_counter()
        for _ in range(count):
            gpu.launch()
        gpu.synchronize()
        launched = time.perf_counter()
    stopped = time.perf_counter()
    table = prof.event_table
    categories = table.sites.field("category")
    found = sum(categories[site] == "kernel" for site in table.column("site").tolist())
    facts = {
        "kernels": found, "dropped": dict(table.dropped), "launch_s": launched - begin,
        "stop_s": stopped - launched, "table_s": time.perf_counter() - stopped,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip
    faults = [] if found == count and not table.dropped.get("device") else [f"{found} of {count}"]
    return {"faults": faults, "facts": facts}


def sampled_beside_kernels(gpu: Gpu) -> Result:
    """Samples and kernels in one profile: most samples are where the program waits for the device."""
    import torch

    large = torch.rand(8192, 8192, device="cuda")

    def waits_for_the_device() -> None:
        for _ in range(4):
            large.mm(large)
        gpu.synchronize()

    waits_for_the_device()
    with profile(activities=BOTH, sample_hz=1000, python_calls=False) as prof:
        for _ in range(40):
            waits_for_the_device()
    text = str(prof.samples().table("function"))
    kernels = prof.event_table.sites.field("category").count("kernel")
    faults = [] if "waits_for_the_device" in text and kernels else [text]
    return {"faults": faults, "facts": {"samples": text[:2000], "missing": dict(prof.missing)}}


ORACLE_CHECKS: dict[str, Callable[[Any], Result]] = {
    check.__name__: check
    for check in (
        bandwidth, ops_beside_torch, memory_beside_torch, launches_together, slow_clock, many_kernels,
        sampled_beside_kernels,
    )
}  # fmt: skip
