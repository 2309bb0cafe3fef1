# SPDX-License-Identifier: Apache-2.0
"""Compare the op times that fastprof and torch.profiler report. Medians of 11 runs each, in turn.

    python benchmarks/hot_path/torch_agreement.py [--runs N] [--json FILE] [--check]

For each op of the workload (by name and position) that takes over 50 us, prints the medians under both profilers;
their ratio should be within 20 %. Compares self times, because total times of ops with children include the profilers'
overhead. Configures glibc's malloc to keep its memory; otherwise the same op takes 130 us in one run and 800 us in
another, depending on whether the pages of its output are new. Needs torch and a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import fastprof

LIMIT_US = 50.0
TOLERANCE = 0.2
# mallopt(3); malloc reads them before main().
KEEPS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}


def large_mlp() -> Callable[[], Any]:
    """Run forward, backward and SGD with 512 x 512 matrices."""
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(256, 512)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def large_convnet() -> Callable[[], Any]:
    """Run forward and backward of convolutions with batch norm on 64 x 64 images."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
    )  # fmt: skip
    x = torch.randn(8, 3, 64, 64)

    def step() -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    return step


def self_times(profile: Any) -> list[tuple[str, float]]:
    return [(event.name, event.self_cpu_time_total) for event in profile.events()]


def theirs() -> Any:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


def compare(step: Callable[[], Any], runs: int) -> list[tuple[str, float, float]]:
    """Return (name, median us of fastprof, median us of torch.profiler) of each op over the limit in both."""
    seen: tuple[list[list[float]], list[list[float]]] = ([], [])
    names: list[str] = []
    for _ in range(3):
        step()
    turns = list(zip(seen, (fastprof.profile, theirs), strict=True))
    for _ in range(runs):
        turns.reverse()
        for times, make in turns:
            # Warm up again: the other profiler's stop freed memory and evicted caches.
            step()
            with make() as profile:
                step()
            rows = self_times(profile)
            if not names:
                names = [name for name, _ in rows]
            if names != [name for name, _ in rows]:
                raise RuntimeError("the two profilers list different ops: see the parity suite")
            times.append([time for _, time in rows])
    ours_us, theirs_us = ([statistics.median(op) for op in zip(*t, strict=True)] for t in seen)
    rows = zip(names, ours_us, theirs_us, strict=True)
    return [row for row in rows if min(row[1:]) > LIMIT_US]


def main() -> int:
    """Print one row per op; with --check, return exit status 1 if a ratio is out of bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", type=Path, help="append each row to this file")
    parser.add_argument("--check", action="store_true", help="fail when a ratio is out of bounds")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    outside = 0
    for make in (large_mlp, large_convnet):
        print(make.__name__)
        for name, ours_us, theirs_us in compare(make(), arguments.runs):
            ratio = ours_us / theirs_us
            agrees = abs(ratio - 1) <= TOLERANCE
            outside += not agrees
            print(
                f"  {name:44} {ours_us:9.1f} us {theirs_us:9.1f} us {ratio:6.3f} {'' if agrees else '!'}"
            )
            if arguments.json:
                row = {
                    "suite": "torch_agreement", "case": f"{make.__name__}, {name}", "fastprof_us": ours_us,
                    "torch_profiler_us": theirs_us, "ratio": ratio,
                }  # fmt: skip
                with arguments.json.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    print(f"{outside} outside of {TOLERANCE:.0%}")
    return 1 if outside and arguments.check else 0


if __name__ == "__main__":
    if not KEEPS_MEMORY.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEPS_MEMORY})
    sys.exit(main())
