# SPDX-License-Identifier: Apache-2.0
"""Measure what the first profile of a process costs, in many fresh processes, beside later profiles of the same process.

``fresh_process.py [--rounds N] [--json FILE]``: N processes a case (20). C++ programs: `run.py hot_path`, "first session".

- A Python range, recorded, over ``with lock`` beside it: the two take turns of 1,000, so that what slows the CPU down
  for a while (another program on the same core) slows both. Measured one after the other, the same program seemed to
  take 0.7 or 1.4 of a lock, by process.
- A training step under a profile with shapes, memory and stacks, of fastprof and of torch, if torch is installed: the
  step alternates with a fixed loop, over which its time is taken. The third case has no profile: what comes between
  the steps is a sort of 32 MB, which like the start of a profile leaves the CPU's caches and freed memory cold.

Times are CPU time of the thread.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

TURNS, TURN = 100, 1000
STEPS = 12


def ranges() -> None:
    """Print the ratios of five profiles of one process to the lock beside them."""
    from fastprof import profile, record_function

    lock, clock = threading.Lock(), time.thread_time_ns

    def recorded() -> int:
        begin_ns = clock()
        for _ in range(TURN):
            with record_function("range"):
                pass
        return clock() - begin_ns

    def locked() -> int:
        begin_ns = clock()
        for _ in range(TURN):
            with lock:
                pass
        return clock() - begin_ns

    locked()
    ratios = []
    for _ in range(5):
        with profile():
            turns = [(recorded(), locked()) for _ in range(TURNS)]
        ratios.append(sum(ours for ours, _ in turns) / sum(theirs for _, theirs in turns))
    print(json.dumps(ratios))


@contextlib.contextmanager
def after_other_work(**_: object) -> Iterator[None]:
    """Stand for a profile: take some tenths of a second before the first step, and record nothing."""
    import torch

    torch.rand(4 << 20).sort()
    yield


def steps(library: str) -> None:
    """Print the cost in % of each of the first STEPS training steps of a process that are recorded."""
    import torch

    make: Callable[..., Any]
    if library == "neither":
        make = after_other_work
    elif library == "torch":
        from torch.profiler import profile as make
    else:
        from fastprof import profile as make

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(12)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(256, 256)

    data = bytes(8 << 20)

    def fixed() -> float:  # native code: recording of calls slows a loop of Python down
        begin_s = time.thread_time()
        zlib.crc32(data)
        return time.thread_time() - begin_s

    def step() -> float:
        before_s = fixed()
        begin_s = time.thread_time()
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        return 2 * (time.thread_time() - begin_s) / (before_s + fixed())

    off = statistics.median([step() for _ in range(3 * STEPS)][STEPS:])
    with make(record_shapes=True, profile_memory=True, with_stack=True):
        on = [step() for _ in range(STEPS)]
    print(json.dumps([100 * (each / off - 1) for each in on]))


def processes(rounds: int, *arguments: str) -> list[list[float]]:
    """Return what fresh processes print, one after the other."""
    outs = (
        subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True)
        for _ in range(rounds)
    )
    return [json.loads(out.stdout) for out in outs]


def main() -> int:
    """Start the processes and print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument(
        "--one", choices=["ranges", "fastprof", "torch", "neither"], help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.one is not None:
        ranges() if options.one == "ranges" else steps(options.one)
        return 0
    found = processes(options.rounds, "--one", "ranges")
    first = [each[0] for each in found]
    ratios = [each[0] / min(each[2:]) for each in found]
    rows: list[dict[str, Any]] = [
        {
            "suite": "fresh_process", "case": "Python range, first profile", "min_ratio": min(first), "max_ratio": max(first),
            "median_to_warm": statistics.median(ratios), "max_to_warm": max(ratios), "rounds": options.rounds,
        }
    ]  # fmt: skip
    print(
        f"Python range: first profile {min(first):.2f} to {max(first):.2f} of a lock; "
        f"over a warm one: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}"
    )
    for library in ("fastprof", "torch", "neither") if find_spec("torch") else ():
        costs = processes(options.rounds, "--one", library)
        by_step = [statistics.median(each) for each in zip(*costs, strict=True)]
        warm = statistics.median(by_step[STEPS // 3 :])
        points = statistics.median(
            each[0] - statistics.median(each[STEPS // 3 :]) for each in costs
        )
        rows.append({"suite": "fresh_process", "case": f"step with everything on, {library}",
                     "first_percent": by_step[0], "warm_percent": warm, "points": points, "rounds": options.rounds})  # fmt: skip
        print(
            f"step with everything on, {library}: {by_step[0]:+.1f} % the first, {warm:+.1f} % later, "
            f"difference in a process {points:.1f}"
        )
    if options.json:
        with open(options.json, "a", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
