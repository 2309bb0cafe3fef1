# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of recording task switches in a program of asyncio tasks that take turns.

``tasks.py [--rounds N] [--json FILE]``: ns of CPU time a step of a task, with the cases run in turn;
minimum and median over the rounds, and the median of the rounds' ratios to the same program without a
profile. Then the time from stop() to the table, by step.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from contextlib import nullcontext
from typing import Any

import fastprof
from fastprof import record_function

TASKS, STEPS = 10, 10_000  # 10^5 steps


async def turns() -> None:
    """Take turns."""
    for _ in range(STEPS):
        await asyncio.sleep(0)


async def turns_with_a_range() -> None:
    """Take turns, with a range that is open while the others run."""
    for _ in range(STEPS):
        with record_function("step"):
            await asyncio.sleep(0)


async def together(work: Any) -> None:
    """Run the tasks."""
    await asyncio.gather(*(work() for _ in range(TASKS)))


# Case -> (what each task does, options of the profile; None: no profile, base of the ratio).
CASES: dict[str, tuple[Any, dict[str, Any] | None, str]] = {
    "no profile": (turns, None, "no profile"),
    "profile, no range": (turns, {}, "no profile"),
    "profile(tasks=False), no range": (turns, {"tasks": False}, "no profile"),
    "a range each step, no profile": (turns_with_a_range, None, "a range each step, no profile"),
    "a range each step, profile": (turns_with_a_range, {}, "a range each step, no profile"),
    "a range each step, profile(tasks=False)": (
        turns_with_a_range,
        {"tasks": False},
        "a range each step, no profile",
    ),
}


def once(work: Any, options: dict[str, Any] | None) -> tuple[float, float]:
    """Return ns a step, and ns a step from stop() to the table."""
    loop = asyncio.new_event_loop()
    profile: Any = nullcontext() if options is None else fastprof.profile(**options)
    try:
        with profile:
            begin = time.thread_time_ns()
            loop.run_until_complete(together(work))
            ran = time.thread_time_ns() - begin
            begin = time.thread_time_ns()
        if options is not None:
            len(profile.event_table)
        read = time.thread_time_ns() - begin
    finally:
        loop.close()
    return ran / (TASKS * STEPS), read / (TASKS * STEPS)


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    options = parser.parse_args()
    ns: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
    for _ in range(options.rounds):
        for name, (work, chosen, _base) in CASES.items():
            ns[name].append(once(work, chosen))
    rows = []
    for name, (_, chosen, base) in CASES.items():
        steps = [step for step, _ in ns[name]]
        ratios = [step / limit for step, (limit, _) in zip(steps, ns[base], strict=True)]
        row = {
            "suite": "tasks",
            "case": name,
            "min_ns": min(steps),
            "median_ns": statistics.median(steps),
            "median_ratio": statistics.median(ratios),
            "min_stop_ns": min(read for _, read in ns[name]) if chosen is not None else None,
        }
        rows.append(row)
        print(
            f"{name:42} {row['min_ns']:9.1f} {row['median_ns']:9.1f} {row['median_ratio']:7.3f}x"
            + (f"   stop {row['min_stop_ns']:6.1f} ns a step" if chosen is not None else "")
        )
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
