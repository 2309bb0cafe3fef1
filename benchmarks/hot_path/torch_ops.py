# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of observing PyTorch's ops: ns per op over the bare step, and ratios to an empty callback.

    python benchmarks/hot_path/torch_ops.py [--only WORKLOAD] [--rounds N] [--processes N] [--json FILE]

Modes are interleaved: each round runs every mode, so that other load on the machine affects all alike, in an
order drawn anew, because the caches and the allocator's state that a mode leaves affect the next. As in a
training loop, a mode runs several steps per round; the first is not measured. A mode's time is that of its
quiet steps (lowest decile) minus that of the bare step. Processes differ by a fifth, because each has another
memory layout: figures are medians over processes, and the two values beside a ratio are its quartiles.
Processes on a busy machine (bare step over 5 % slower than the fastest) are excluded, and their number is
reported. Needs torch and a C++ compiler (for the empty callback).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from torch_steps import OPTIONS, WORKLOADS, count_ops

import fastprof

HERE = Path(__file__).resolve().parent
STEPS = 5  # measured steps per mode and round


def empty_callback(folder: str) -> Callable[[bool], AbstractContextManager[Any]]:
    """Return a context manager that registers callbacks which do nothing, with or without the inputs of ops."""
    library = os.path.join(folder, "empty.so")
    source = HERE / "torch_empty_callback.cpp"
    compiler = os.environ.get("CXX", "c++")
    # -w: suppress the warning about a C function that returns a C++ object, which is intended.
    subprocess.run([compiler, "-O2", "-w", "-shared", "-fPIC", source, "-o", library], check=True)
    ours = ctypes.CDLL(library)
    theirs = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    add = ctypes.cast(
        theirs["_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"], ctypes.c_void_p
    )
    remove = theirs["_ZN2at14removeCallbackEm"]
    remove.argtypes, remove.restype = [ctypes.c_uint64], None
    ours.add_empty.argtypes = [ctypes.c_void_p, ctypes.c_int]
    ours.add_empty.restype = ctypes.c_uint64

    @contextmanager
    def registered(inputs: bool) -> Iterator[None]:
        handle = ours.add_empty(add, inputs)
        try:
            yield
        finally:
            remove(handle)

    return registered


def measure(
    step: Callable[[], Any], modes: dict[str, Callable[[], Any]], rounds: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in modes}
    order, drawn = list(modes), random.Random(0)
    for _ in range(rounds):
        drawn.shuffle(order)
        for name in order:
            with modes[name]():
                step()  # warms up this mode's threads, names and caches
                for _ in range(STEPS):
                    begin = time.perf_counter_ns()
                    step()
                    times[name].append(time.perf_counter_ns() - begin)
    return times


NO_CALLS = " without calls"


def modes_of(empty: Callable[[bool], Any]) -> dict[str, Callable[[], Any]]:
    modes: dict[str, Callable[[], Any]] = {
        "bare": nullcontext,
        "empty callback": partial(empty, False),
        "empty callback, inputs": partial(empty, True),
    }
    for name, options in OPTIONS.items():
        modes[f"fastprof, {name}"] = partial(fastprof.profile, **options)
        # torch.profiler creates its events on request; that time is not included here.
        modes[f"torch.profiler, {name}"] = partial(torch.profiler.profile, **options)
        if "with_stack" in options:  # torch.profiler cannot leave the Python calls out
            modes[f"fastprof, {name}{NO_CALLS}"] = partial(
                fastprof.profile, **options, python_calls=False
            )
    modes["bare again"] = nullcontext  # must be as fast as "bare": nothing is left behind
    return modes


def quiet_times(make: Callable[[], Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Return the ns per op of each mode in this process."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        modes = modes_of(empty_callback(folder))
        step = make()
        step()
        ops = count_ops(step)
        times = measure(step, modes, rounds)
    return {"ops": ops, "ns": {name: sorted(t)[len(t) // 10] / ops for name, t in times.items()}}


def in_a_process(workload: str, rounds: int) -> dict[str, Any]:
    """Run quiet_times in a new process, which has its own memory layout."""
    command = [sys.executable, __file__, "--alone", workload, "--rounds", str(rounds)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(ran.stderr)
    result: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return result


def quiet_processes(workload: str, rounds: int, wanted: int) -> list[dict[str, Any]]:
    """Return ``wanted`` quiet processes; fewer if fewer than one in three is quiet."""
    ran: list[dict[str, Any]] = []
    quiet: list[dict[str, Any]] = []
    while len(quiet) < wanted and len(ran) < 3 * wanted:
        ran.append(in_a_process(workload, rounds))
        quickest = min(p["ns"]["bare"] for p in ran)
        quiet = [p for p in ran if p["ns"]["bare"] <= 1.05 * quickest]
    print(f"{workload}: {len(quiet)} quiet processes of {len(ran)}", file=sys.stderr)
    return quiet


def quartiles(ones: list[float], others: list[float]) -> list[float]:
    """Return the lower quartile, median and upper quartile of the ratios of the processes."""
    ratios = list(map(truediv, ones, others))
    return quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3


def over_bare(processes: list[dict[str, Any]], mode: str) -> list[float]:
    """Return the cost of a mode over the bare step in each process, ns per op."""
    return [p["ns"][mode] - p["ns"]["bare"] for p in processes]


def rows_of(workload: str, processes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row per mode except the bare step: medians over processes, each relative to its own bare step."""
    for name in list(processes[0]["ns"])[1:]:
        package, _, options = name.partition(", ")
        over, floor = over_bare(processes, name), over_bare(processes, "empty callback")
        bare = [p["ns"]["bare"] for p in processes]
        row = {
            "suite": "torch_ops", "case": f"{workload}, {name}", "ops": processes[0]["ops"],
            "bare_ns": median(bare), "over_bare_ns": median(over),
            "to_empty_callback": quartiles(over, floor), "slowed_by": quartiles(over, bare),
        }  # fmt: skip
        if package == "fastprof":
            theirs = over_bare(processes, f"torch.profiler, {options.removesuffix(NO_CALLS)}")
            row["to_torch_profiler"] = quartiles(over, theirs)
        yield row


def shown(ratios: list[float], digits: int = 2) -> str:
    low, middle, high = (f"{x:.{digits}f}" for x in ratios)
    return f"{middle:>5} ({low} to {high})"


def main() -> None:
    """Print one table per workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--processes", type=int, default=11)
    parser.add_argument("--only", choices=list(WORKLOADS), help="one workload of the three")
    parser.add_argument("--json", type=Path, help="append each row to this file")
    parser.add_argument("--alone", choices=list(WORKLOADS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(json.dumps(quiet_times(WORKLOADS[arguments.alone], arguments.rounds)))
        return
    for workload in [arguments.only] if arguments.only else WORKLOADS:
        processes = quiet_processes(workload, arguments.rounds, arguments.processes)
        rows = list(rows_of(workload, processes))
        print(f"{workload}: {rows[0]['ops']} ops, {rows[0]['bare_ns']:.0f} ns an op bare")
        for row in rows:
            print(
                f"  {row['case'].partition(', ')[2]:30} {row['over_bare_ns']:7.0f} ns an op"
                f"  {shown(row['to_empty_callback'])}x empty"
                f"  step slowed by {shown([100 * x for x in row['slowed_by']], 1)} %"
                + (
                    f"  {shown(row['to_torch_profiler'])}x torch.profiler"
                    if "to_torch_profiler" in row
                    else ""
                )
            )
            if arguments.json:
                with arguments.json.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
