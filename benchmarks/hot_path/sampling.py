# SPDX-License-Identifier: Apache-2.0
"""Measure what sampling the stacks of all threads costs them.

``sampling.py [--rounds N] [--json FILE]``: CPU time of a fixed work on 8 busy threads, alone and beside 152 threads that
wait, without and with profile(sample_hz=1000), in turn; the median and quartiles of the rounds' ratios; and the CPU
time of the sampling thread itself, which runs beside them, a tick.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from typing import Any

import fastprof

BUSY, WAITING = 8, 152
HZ = 1000


def leaf(n: int) -> int:
    return sum(i * i for i in range(n))


def nested(depth: int) -> int:
    return leaf(40) if depth == 0 else nested(depth - 1)


def work(units: int, used_ns: list[int]) -> None:
    """Work; append the thread's CPU time."""
    begin = time.thread_time_ns()
    for _ in range(units):
        nested(20)
    used_ns.append(time.thread_time_ns() - begin)


def once(units: int, hz: float | None) -> tuple[int, Any]:
    """Return the CPU time in ns of all busy threads, and the counts of the sampler."""
    used_ns: list[int] = []
    threads = [threading.Thread(target=work, args=(units, used_ns)) for _ in range(BUSY)]
    with fastprof.profile(sample_hz=hz) as prof:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sum(used_ns), prof.samples().stacks.counts if hz else None


def measure(rounds: int, units: int, waiting: int) -> dict[str, Any]:
    """Return the row of one case."""
    end = threading.Event()
    others = [threading.Thread(target=end.wait) for _ in range(waiting)]
    for thread in others:
        thread.start()
    once(units, HZ)  # imports
    ratios, tick_us, missed = [], [], []
    for number in range(rounds):
        order = (None, HZ) if number % 2 else (HZ, None)
        results = {hz: once(units, hz) for hz in order}
        counts = results[HZ][1]
        ratios.append(results[HZ][0] / results[None][0])
        tick_us.append(counts["sampler_cpu_ns"] / 1e3 / counts["ticks"])
        missed.append(counts["missed_ticks"] / (counts["missed_ticks"] + counts["ticks"]))
    end.set()
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "case": f"{BUSY} busy threads" + (f", {waiting} waiting" if waiting else ""),
        "hz": HZ,
        "ratio_median": round(middle, 4),
        "ratio_quartiles": [round(low, 4), round(high, 4)],
        "sampler_us_per_tick": round(statistics.median(tick_us), 1),
        "missed_share": round(statistics.median(missed), 3),
    }


def main() -> None:
    """Print a line a case; append rows to the file of --json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--units", type=int, default=4000)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    for waiting in (0, WAITING):
        row = measure(options.rounds, options.units, waiting)
        print(row, flush=True)
        if options.json:
            with open(options.json, "a") as out:
                out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
