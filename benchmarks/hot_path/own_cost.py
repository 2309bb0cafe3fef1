# SPDX-License-Identifier: Apache-2.0
"""Compare the cost of an event that profile.calibrate() measures with an interleaved A/B of a program.

``own_cost.py [--rounds N] [--json FILE]``: a step runs in turn without and with a profile of ranges, and of calls. Its
CPU time grows by what recording costs; what event_table.without_overhead() takes out of the step should be as much.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from fastprof import profile, record_function

EVENTS = 20_000


def ranges() -> None:
    """A step with EVENTS ranges, half of them nested in the others."""
    outer, inner = record_function("outer"), record_function("inner")
    for _ in range(EVENTS // 2):
        with outer:
            sum(range(5))
            with inner:
                sum(range(5))


def inner_call() -> int:
    """What outer_call() calls."""
    return sum(range(20))


def outer_call() -> int:
    """A call with one inside of it."""
    return inner_call() + sum(range(20))


def calls() -> None:
    """A step with EVENTS calls, without those of built-in functions."""
    for _ in range(EVENTS // 2):
        outer_call()


def compare(run: Callable[[], None], options: dict[str, Any], rounds: int) -> dict[str, float]:
    """Return what a step's events cost, in ms of CPU time, by A/B and by calibration."""
    off_ms, on_ms, estimated_ms, events = [], [], [], 0
    cost = profile(**options).calibrate()

    def timed() -> float:
        begin_ns = time.thread_time_ns()
        run()
        return (time.thread_time_ns() - begin_ns) / 1e6

    for _ in range(rounds):
        off_ms.append(timed())
        with profile(**options) as recorded:
            with record_function("step"):
                on_ms.append(timed())
        table = recorded.event_table
        step = table.names.index("step")
        corrected = table.without_overhead(cost)
        taken = table.duration_ns - corrected.duration_ns
        estimated_ms.append(float(taken[table.name_id == step][0]) / 1e6)
        events = len(table)
    measured = statistics.median(on - off for on, off in zip(on_ms, off_ms, strict=True))
    estimated = statistics.median(estimated_ms)
    return {
        "events": events,
        "step_ms": statistics.median(off_ms),
        "measured_ms": measured,
        "estimated_ms": estimated,
        "ratio": estimated / measured,
    }


def main() -> None:
    """Print what the events of a step cost, both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--json")
    options = parser.parse_args()
    found = {
        "ranges": compare(ranges, {}, options.rounds),
        "calls": compare(calls, {"python_calls": True}, options.rounds),
        "ranges with stacks": compare(ranges, {"with_stack": True, "python_calls": False}, 5),
    }
    for name, each in found.items():
        print(
            f"{name}: {each['events']} events in a step of {each['step_ms']:.2f} ms: A/B {each['measured_ms']:.3f} ms,"
            f" calibrated {each['estimated_ms']:.3f} ms: {each['ratio']:.2f}"
        )
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(
                json.dumps({"suite": "own cost", "case": name, **each}) + "\n"
                for name, each in found.items()
            )


if __name__ == "__main__":
    main()
