# SPDX-License-Identifier: Apache-2.0
"""What observing PyTorch's ops costs: ns an op over the bare step, as ratios to an empty callback.

    python benchmarks/hot_path/torch_ops.py [--rounds N] [--json FILE]

Modes are interleaved, a round of each after the other, so that what else the machine does meets all
alike, in an order that is drawn anew each round: what a mode leaves in caches and in the allocator meets
the next one. Times are those of quiet rounds (the lowest decile of each mode), less that of the bare step.
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
from pathlib import Path
from typing import Any

import torch

import fastprof

HERE = Path(__file__).resolve().parent


def empty_callback(folder: str) -> Callable[[], AbstractContextManager[Any]]:
    """A context manager that registers callbacks which do nothing."""
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
    ours.add_empty.argtypes, ours.add_empty.restype = [ctypes.c_void_p], ctypes.c_uint64

    @contextmanager
    def registered() -> Iterator[None]:
        handle = ours.add_empty(add)
        try:
            yield
        finally:
            remove(handle)

    return registered


def add_step() -> Callable[[], Any]:
    """500 additions of 4 elements."""
    a, b, out = torch.ones(4), torch.ones(4), torch.empty(4)

    def step() -> None:
        for _ in range(500):
            torch.add(a, b, out=out)

    return step


def mlp_step() -> Callable[[], Any]:
    """Forward, backward and SGD of a small perceptron."""
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 16)

    def step() -> None:
        for _ in range(5):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    return step


def transformer_step() -> Callable[[], Any]:
    """Forward, backward and AdamW of two encoder layers of width 64."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(2, 8, 64)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def count_ops(step: Callable[[], Any]) -> int:
    with fastprof.profile() as p:
        step()
    return len(p.event_table)


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
                begin = time.perf_counter_ns()
                step()
                times[name].append(time.perf_counter_ns() - begin)
    return times


OPTIONS: dict[str, dict[str, bool]] = {
    "plain": {},
    "record_shapes": {"record_shapes": True},
    "profile_memory": {"profile_memory": True},
    "with_stack": {"with_stack": True},
    "everything": {
        "record_shapes": True,
        "profile_memory": True,
        "with_stack": True,
        "with_flops": True,
    },
}


def modes_of(empty: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    modes: dict[str, Callable[[], Any]] = {"bare": nullcontext, "empty callback": empty}
    for name, options in OPTIONS.items():
        modes[f"fastprof, {name}"] = partial(fastprof.profile, **options)
        modes[f"torch.profiler, {name}"] = partial(
            torch.profiler.profile, acc_events=True, **options
        )
    modes["bare again"] = nullcontext  # nothing may be left behind: as fast as "bare"
    return modes


def main() -> None:
    """Print one table a workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--json", type=Path, help="append each row to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        modes = modes_of(empty_callback(folder))
        for make in (add_step, mlp_step, transformer_step):
            step = make()
            step()
            ops = count_ops(step)
            times = measure(step, modes, arguments.rounds)
            quiet = {name: sorted(own)[len(own) // 10] / ops for name, own in times.items()}
            bare = quiet["bare"]
            floor = quiet["empty callback"] - bare
            print(f"{make.__name__}: {ops} ops, {bare:.0f} ns an op bare")
            for name in list(modes)[1:]:
                over = quiet[name] - bare
                package, _, options = name.partition(", ")
                theirs = quiet.get(f"torch.profiler, {options}", bare) - bare
                ratio = f"{over / theirs:5.2f}x torch.profiler" if package == "fastprof" else ""
                print(
                    f"  {name:30} {over:7.0f} ns an op  {over / floor:6.2f}x empty"
                    f"  step slowed by {100 * over / bare:5.1f} %  {ratio}"
                )
                if arguments.json:
                    row = {
                        "suite": "torch_ops", "case": f"{make.__name__}, {name}", "ops": ops, "bare_ns": bare,
                        "over_bare_ns": over, "to_empty_callback": over / floor, "slowed_by": over / bare,
                    }  # fmt: skip
                    if ratio:
                        row["to_torch_profiler"] = over / theirs
                    with arguments.json.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
