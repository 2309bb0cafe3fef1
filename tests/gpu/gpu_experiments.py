# SPDX-License-Identifier: Apache-2.0
"""Checks of what only a real GPU shows: clocks, other clients of CUPTI, calls and frameworks."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_arguments import ARGUMENT_CHECKS, join_group
from gpu_clients import CLIENT_CHECKS
from gpu_everyday import EVERYDAY_CHECKS
from gpu_oracles import ORACLE_CHECKS
from gpu_traces import BOTH, Result, ours, skip, steps, summary, theirs, trace_of
from gpu_workloads import Gpu
from raw_cupti import RawClient

from fastprof import profile, record_function

__all__ = ["EXPERIMENTS"]


def stamps(gpu: Gpu) -> Result:
    """Twenty profiles of ten kernels, some after seconds idle: each kernel lies between its call and the stop."""
    profiles = []
    for number in range(20):
        if number in (8, 14):
            time.sleep(0.05 if gpu.is_double else 3.0)
        profiles.append(ours(steps(gpu, 5)))
    wanted = 5 * gpu.kernels_of_step
    bad = [
        {key: each[key] for key in ("kernels", "before_their_call", "outside", "without_call", "dropped", "missing")}
        | {"profile": number}
        for number, each in enumerate(profiles)
        if each["kernels"] != profiles[-1]["kernels"] or each["kernels"] < wanted
        or each["before_their_call"] or each["outside"] or each["without_call"] or each["dropped"]
        or each["missing"]
    ]  # fmt: skip
    faults = (
        [f"{len(bad)} of 20 profiles have kernels that are lost or at times that cannot be"]
        if bad
        else []
    )
    return {"faults": faults, "facts": {"bad": bad}}


def capture_between(gpu: Gpu) -> Result:
    """A profile, then the capture of a graph, then a profile of its replays."""
    first = ours(steps(gpu, 2))
    replay = gpu.graph()
    if replay is None:
        return skip("no graph")

    def replays() -> None:
        for _ in range(10):
            replay()
        gpu.synchronize()

    replays()
    second = ours(replays)
    wanted = 10 * gpu.kernels_of_step
    faults = (
        [] if second["kernels"] >= wanted else [f"{second['kernels']} kernels of at least {wanted}"]
    )
    return {"faults": faults, "facts": {"before": first, "replays": second}}


def _ns_per_launch(gpu: Gpu, count: int = 3000) -> float:
    gpu.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(count):
        gpu.launch()
    took = time.perf_counter_ns() - begin
    gpu.synchronize()
    return round(took / count, 1)


def finalized(gpu: Gpu) -> Result:
    """fastprof, then cuptiFinalize, then fastprof again."""
    first = ours(steps(gpu, 5))
    finalize = getattr(RawClient().library, "cuptiFinalize", None)
    code = finalize() if finalize is not None else "absent"
    return {
        "faults": [],
        "facts": {"first": first, "finalize": code, "second": ours(steps(gpu, 5))},
    }


def teardown(gpu: Gpu) -> Result:
    """With TEARDOWN_CUPTI=1, a launch after the stop costs what it cost before, and the next profile works."""
    os.environ["TEARDOWN_CUPTI"] = "1"
    before = [_ns_per_launch(gpu) for _ in range(3)]
    first = ours(steps(gpu, 5))
    after = [_ns_per_launch(gpu) for _ in range(3)]
    second = ours(steps(gpu, 5))
    wrong = (
        second["kernels"] != first["kernels"] or second["before_their_call"] or second["missing"]
    )
    return {
        "faults": [f"the second profile: {second}"] if wrong else [],
        "facts": {"before_ns": before, "after_ns": after, "first": first, "second": second},
    }


def driver_calls(gpu: Gpu) -> Result:
    """Copies and fills by the driver's interface are linked to the range."""
    if gpu.is_double:
        return skip("the double has no libcuda")
    import ctypes

    import torch

    driver = ctypes.CDLL("libcuda.so.1")
    device = torch.zeros(1 << 20, device="cuda")
    host = torch.ones(1 << 20).pin_memory()
    address, size = ctypes.c_uint64(device.data_ptr()), ctypes.c_size_t(4 << 20)
    codes: list[int] = []

    def work() -> None:
        codes.append(
            driver.cuMemcpyHtoDAsync_v2(address, ctypes.c_void_p(host.data_ptr()), size, None)
        )
        codes.append(driver.cuMemsetD32Async(address, 7, ctypes.c_size_t(1 << 20), None))
        gpu.synchronize()

    found = ours(work, "driver.json")
    with open("driver.json") as file:
        events = json.load(file)["traceEvents"]
    rows = [e for e in events if e.get("cat") in ("gpu_memcpy", "gpu_memset")]
    faults = [] if len(rows) == 2 else [f"{len(rows)} rows of a copy and a fill"]
    if any(not row["args"].get("External id") for row in rows):
        faults.append("the copy or the fill is linked to no range")
    return {"faults": faults, "facts": {**found, "codes": codes}}


def triton(gpu: Gpu) -> Result:
    """Kernels that Triton launches by the driver's interface are linked to their range."""
    if gpu.is_double:
        return skip("the double has no Triton")
    import torch
    import triton_kernel

    a = torch.rand(1 << 16, device="cuda")
    triton_kernel.double(a)  # compiles

    def work() -> None:
        for _ in range(20):
            triton_kernel.double(a)
        gpu.synchronize()

    found = ours(work)
    faults = [] if found["kernels"] == 20 and not found["unlinked"] else [f"of 20 kernels: {found}"]
    return {"faults": faults, "facts": found}


def cupy(gpu: Gpu) -> Result:
    """Work of CuPy is linked to its range."""
    if gpu.is_double:
        return skip("the double has no CuPy")
    import cupy as cp

    a = cp.ones(1 << 16)
    float((a + a).sum())
    found = ours(lambda: [float((a + a * 2).sum()) for _ in range(5)] and None)
    faults = [f"unlinked: {found}"] if found["unlinked"] or not found["kernels"] else []
    return {"faults": faults, "facts": found}


def jax_alone(gpu: Gpu | None) -> Result:
    """JAX without PyTorch: all kernels until the stop are recorded, linked to their range."""
    if gpu is not None:
        return skip("the double has no JAX")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(x: Any) -> Any:
        return jnp.tanh(x @ x) / 2

    x = jnp.ones((1024, 1024))
    step(x).block_until_ready()

    def work(wait: bool) -> None:
        y = x
        for _ in range(20):
            y = step(y)
        if wait:
            y.block_until_ready()

    waited = ours(lambda: work(True), "jax.json")
    unwaited = ours(lambda: work(False))
    faults = []
    if not waited["kernels"] or waited["unlinked"]:
        faults.append(f"{waited['unlinked']} of {waited['kernels']} kernels are linked to no range")
    if unwaited["kernels"] != waited["kernels"]:
        faults.append(
            f"without waiting, {unwaited['kernels']} kernels instead of {waited['kernels']}"
        )
    return {
        "faults": faults,
        "facts": {"jax": jax.__version__, "devices": str(jax.devices()), "waited": waited, "unwaited": unwaited,
                  "torch": "torch" in sys.modules},
    }  # fmt: skip


def events_fallback(gpu: Gpu) -> Result:
    """Where CUPTI is held by another client, ranges are timed by CUDA events."""
    if gpu.is_double:
        return skip("the double has no events")
    os.environ["CUDA_INJECTION64_PATH"] = "none"  # as if Nsight held CUPTI: no sharing
    client = RawClient()
    client.subscribe()
    with profile(activities=BOTH) as prof:
        for _ in range(10):
            with record_function("range"):
                gpu.step()
        gpu.synchronize()
    rows = {e.key: [e.count, e.device_time_total] for e in prof.key_averages()}
    faults = [] if rows.get("range", [0, 0])[1] > 0 else ["the range has no device time"]
    client.unsubscribe()
    return {
        "faults": faults,
        "facts": {
            "range": rows.get("range"),
            "missing": dict(prof.missing),
            **summary(trace_of(prof, "events.json")),
        },
    }


def device_memory(gpu: Gpu) -> Result:
    """profile_memory with CUPTI's kinds for memory."""
    found = ours(lambda: gpu.copies() and None, "memory.json", profile_memory=True)
    return {"faults": [found["missing"]] if found["missing"] else [], "facts": found}


def eight_threads(gpu: Gpu) -> Result:
    """Eight threads launch at once: nothing is lost, all is linked to the range of its thread."""
    count = 500

    def launch() -> None:
        with record_function("of a thread"):
            for _ in range(count):
                gpu.launch()

    def work() -> None:
        threads = [threading.Thread(target=launch) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gpu.synchronize()

    found = ours(work, "threads.json")
    faults = [] if found["kernels"] == 8 * count else [f"{found['kernels']} kernels of {8 * count}"]
    if found["unlinked"] or found["before_their_call"] or found["outside"]:
        faults.append(f"wrongly linked or placed: {found}")
    return {"faults": faults, "facts": found}


def traces(gpu: Gpu) -> Result:
    """The same program's trace by both profilers, to compare their fields; written to $FASTPROF_GPU_OUT."""
    if gpu.is_double:
        return skip("the double has no torch.profiler")
    warnings.simplefilter("ignore")
    import torch

    replay = gpu.graph()
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    group = join_group()

    def work() -> None:
        loss = model(torch.rand(64, 512, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()
        if replay is not None:
            replay()
        gpu.copies()
        if group:
            torch.distributed.all_reduce(torch.ones(1 << 16, device="cuda"))
            torch.distributed.all_gather_into_tensor(
                torch.empty(1 << 16, device="cuda"), torch.ones(1 << 16, device="cuda")
            )
        gpu.on_streams(2)

    work()
    facts: dict[str, Any] = {"nccl": group}
    facts["ours"] = ours(work, "fastprof_trace.json", record_shapes=True)
    facts["torch_first"] = theirs(work)
    facts["torch"] = theirs(work, "torch_trace.json")
    out = os.environ.get("FASTPROF_GPU_OUT")
    for name in ("fastprof_trace.json", "torch_trace.json"):
        if out:
            with open(name, "rb") as source, gzip.open(Path(out, name + ".gz"), "wb") as target:
                shutil.copyfileobj(source, target)
    return {"faults": [], "facts": facts}


EXPERIMENTS: dict[str, Callable[[Any], Result]] = CLIENT_CHECKS | ARGUMENT_CHECKS | EVERYDAY_CHECKS | ORACLE_CHECKS | {
    check.__name__: check
    for check in (
        stamps, capture_between, finalized, teardown, driver_calls, triton, cupy, jax_alone,
        events_fallback, device_memory, eight_threads, traces,
    )
}  # fmt: skip
