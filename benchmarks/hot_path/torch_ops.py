# SPDX-License-Identifier: Apache-2.0
"""What observing PyTorch's ops costs: ns an op over the bare step, as ratios to an empty callback.

    python benchmarks/hot_path/torch_ops.py [--only WORKLOAD] [--rounds N] [--processes N] [--json FILE]

Modes are interleaved, a round of each after the other, so that what else the machine does meets all
alike, in an order that is drawn anew each round: what a mode leaves in caches and in the allocator meets
the next one. As in a training loop, a round of a mode is some steps, of which the first is not measured.
Times are those of quiet steps (the lowest decile of each mode), less that of the bare step. Processes
differ by a fifth, for each has its memory laid out anew: figures are medians over some, and the ratios
of half of the processes lie between the two that are shown beside each. Processes that met a busy
machine are left out and told: their bare step is over 5 % slower than the quickest of all.
Needs torch and a C++ compiler (for the empty callback).
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
STEPS = 5  # measured of each mode in a round


def empty_callback(folder: str) -> Callable[[bool], AbstractContextManager[Any]]:
    """A context manager that registers callbacks which do nothing, with the inputs of ops or without."""
    library = os.path.join(folder, "empty.so")
    source = HERE / "torch_empty_callback.cpp"
    compiler = os.environ.get("CXX", "c++")
    # -w: a C function that returns a C++ object is what is wanted here.
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
                step()  # threads, names and caches of this mode
                for _ in range(STEPS):
                    begin = time.perf_counter_ns()
                    step()
                    times[name].append(time.perf_counter_ns() - begin)
    return times


def modes_of(empty: Callable[[bool], Any]) -> dict[str, Callable[[], Any]]:
    modes: dict[str, Callable[[], Any]] = {
        "bare": nullcontext,
        "empty callback": partial(empty, False),
        "empty callback, inputs": partial(empty, True),
    }
    for name, options in OPTIONS.items():
        modes[f"fastprof, {name}"] = partial(fastprof.profile, **options)
        # Its events are made of what it recorded by who asks for them: nobody does here.
        modes[f"torch.profiler, {name}"] = partial(torch.profiler.profile, **options)
    modes["bare again"] = nullcontext  # nothing may be left behind: as fast as "bare"
    return modes


def quiet_times(make: Callable[[], Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Of each mode, ns an op in this process."""
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
    """The same in a process of its own: each has its memory laid out anew."""
    command = [sys.executable, __file__, "--alone", workload, "--rounds", str(rounds)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(ran.stderr)
    result: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return result


def quiet_processes(workload: str, rounds: int, wanted: int) -> list[dict[str, Any]]:
    """As many as are wanted, where one in three or more is quiet; else what there is."""
    ran: list[dict[str, Any]] = []
    quiet: list[dict[str, Any]] = []
    while len(quiet) < wanted and len(ran) < 3 * wanted:
        ran.append(in_a_process(workload, rounds))
        quickest = min(p["ns"]["bare"] for p in ran)
        quiet = [p for p in ran if p["ns"]["bare"] <= 1.05 * quickest]
    print(f"{workload}: {len(quiet)} quiet processes of {len(ran)}", file=sys.stderr)
    return quiet


def quartiles(ones: list[float], others: list[float]) -> list[float]:
    """Of the ratios of each process: the lower quartile, the median, the upper."""
    ratios = list(map(truediv, ones, others))
    return quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3


def over_bare(processes: list[dict[str, Any]], mode: str) -> list[float]:
    """What a mode costs in each process, ns an op."""
    return [p["ns"][mode] - p["ns"]["bare"] for p in processes]


def rows_of(workload: str, processes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of each mode but the bare step, medians over the processes, each against its own bare step."""
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
            theirs = over_bare(processes, f"torch.profiler, {options}")
            row["to_torch_profiler"] = quartiles(over, theirs)
        yield row


def shown(ratios: list[float], digits: int = 2) -> str:
    low, middle, high = (f"{x:.{digits}f}" for x in ratios)
    return f"{middle:>5} ({low} to {high})"


def main() -> None:
    """Print one table a workload."""
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
