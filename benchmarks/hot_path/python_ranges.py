# SPDX-License-Identifier: Apache-2.0
"""Measure a Python range against ``with threading.Lock()`` and, if installed, the ranges of torch, nvtx and viztracer.

``python_ranges.py [--rounds N] [--json FILE] [--no-peers] [--cpu-time]``: ns over an empty loop, with the cases
run in turn; minimum and median over the rounds, and the ratio to a newly created lock,
``with threading.Lock()``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
import timeit
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import fastprof

N = 20_000

# Case -> (statement, set-up, recorder). Recorder: "" (none), "fastprof", "stack" and "native" (fastprof with
# stacks of the 7 Python frames that are there, without calls), "disabled" (fastprof with enabled=False) or
# "torch".
CASES = {
    "empty loop": ("pass", "pass", ""),
    "with threading.Lock()": ("with Lock(): pass", "from threading import Lock", ""),
    "the same lock again": ("with lock: pass", "from threading import Lock; lock = Lock()", ""),
    "record_function, off": (
        "with r('range'): pass",
        "from fastprof import record_function as r",
        "",
    ),
    "record_function, profile(enabled=False)": (
        "with r('range'): pass",
        "from fastprof import record_function as r",
        "disabled",
    ),
    "record_function, recorded": (
        "with r('range'): pass",
        "from fastprof import record_function as r",
        "fastprof",
    ),
    "one object, off": (
        "with r: pass",
        "import fastprof; r = fastprof.record_function('range')",
        "",
    ),
    "one object, recorded": (
        "with r: pass",
        "import fastprof; r = fastprof.record_function('range')",
        "fastprof",
    ),
    "one object, with_stack": (
        "with r: pass",
        "import fastprof; r = fastprof.record_function('range')",
        "stack",
    ),
    "one object, with_stack and native": (
        "with r: pass",
        "import fastprof; r = fastprof.record_function('range')",
        "native",
    ),
}
PEERS = {
    "torch": {
        "torch record_function, off": ("with r('range'): pass", "from torch.profiler import record_function as r", ""),
        "torch record_function, recorded": (
            "with r('range'): pass", "from torch.profiler import record_function as r", "torch",
        ),
        "torch _RecordFunctionFast, off": (
            "with r('range'): pass", "from torch._C._profiler import _RecordFunctionFast as r", "",
        ),
        "torch _RecordFunctionFast, recorded": (
            "with r('range'): pass", "from torch._C._profiler import _RecordFunctionFast as r", "torch",
        ),
    },
    "nvtx": {"nvtx.annotate, no tool": ("with r('range'): pass", "from nvtx import annotate as r", "")},
    "viztracer": {
        "viztracer log_event, recorded": (
            "with t.log_event('range'): pass", "import viztracer; t = viztracer.VizTracer(verbose=0); t.start()", "",
        )
    },
}  # fmt: skip


def recorder(name: str) -> AbstractContextManager[Any]:
    """Return the profile in which a case runs."""
    if name == "torch":
        from torch.profiler import ProfilerActivity, profile

        return profile(activities=[ProfilerActivity.CPU])
    if name in ("stack", "native"):
        return fastprof.profile(with_stack=True, python_calls=False, native=name == "native")
    return fastprof.profile(enabled=name != "disabled") if name else nullcontext()


def once(clock: Callable[[], float], statement: str, setup: str, record: str) -> float:
    """Return the time in ns of one execution of the statement."""
    timer = timeit.Timer(statement, setup, clock)
    with recorder(record):
        return timer.timeit(N) / N * 1e9


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json")
    parser.add_argument("--no-peers", action="store_true", help="fastprof and locks only")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count the thread's CPU time, which excludes time in which others had the CPU",
    )
    options = parser.parse_args()
    cases = dict(CASES)
    peers = {} if options.no_peers else PEERS
    for package, more in peers.items():
        if importlib.util.find_spec(package) is None:
            print(f"{package}: not installed")
        elif package != "viztracer":  # it traces everything once started: run it last, separately
            cases |= more
    ns: dict[str, list[float]] = {name: [] for name in cases}
    clock = time.thread_time if options.cpu_time else time.perf_counter
    for _ in range(options.rounds):
        for name, case in cases.items():
            ns[name].append(once(clock, *case))
    if "viztracer" in peers and importlib.util.find_spec("viztracer") is not None:
        for name, case in peers["viztracer"].items():
            ns[name] = [once(clock, *case)]
    bare = min(ns.pop("empty loop"))
    limit = min(ns["with threading.Lock()"]) - bare
    rows = []
    for name, values in ns.items():
        least, middle = min(values) - bare, statistics.median(values) - bare
        rows.append(
            {
                "suite": "python ranges",
                "case": name,
                "min_ns": least,
                "median_ns": middle,
                "min_ratio": least / limit,
            }
        )
        print(f"{name:40} {least:9.1f} {middle:9.1f} {least / limit:7.2f}x")
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
