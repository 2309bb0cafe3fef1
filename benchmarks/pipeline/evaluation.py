# SPDX-License-Identifier: Apache-2.0
"""Time BasicEvaluation, its ranking, the anti-patterns and explain() on a made table, against torch's _utils.

``evaluation.py [N] [--peer N]``: N events (default 10^6), a quarter each of ops, nested ops, launches and kernels. The
seconds of each stage are the least of three rounds. --peer also times PyTorch's traverse and overlap on N events.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fastprof
from fastprof.analysis import BasicEvaluation, explain, find_anti_patterns


def table_of(n: int) -> fastprof.EventTable:
    """Return a table of `n` events on one thread and one stream."""
    quarter = n // 4
    start = np.arange(quarter, dtype=np.int64) * 1000
    zero, link = np.zeros(quarter, np.int64), np.arange(1, quarter + 1)
    parts = {
        "start_ns": [start, start + 10, start + 20, start + 500],
        "end_ns": [start + 900, start + 300, start + 40, start + 1400],
        "site": [zero, zero + 1, zero + 2, zero + 3],
        "track": [zero, zero, zero, zero + 1],
        "external_id": [zero, link, zero, zero],
        "linked_correlation_id": [zero, zero, link, link],
        "device_type": [zero, zero, zero, zero + 1],
    }
    sites = [
        fastprof.Site("outer", category="cpu_op"),
        fastprof.Site("aten::mm", category="cpu_op"),
        fastprof.Site("cudaLaunchKernel", category="cuda_runtime"),
        fastprof.Site("kernel", category="kernel"),
    ]
    columns = {name: np.concatenate(values) for name, values in parts.items()}
    return fastprof.EventTable(columns, sites=sites)


def least(call: Callable[[], Any]) -> float:
    """Return the least seconds of three calls."""
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return round(min(seconds), 4)


def peer(n: int) -> float | None:
    """Return the seconds of PyTorch's overlap of `n` events with 100 intervals; None without torch."""
    try:
        from torch.profiler import _utils
    except ImportError:
        return None

    class Event:
        start_time_ns, end_time_ns, id, name = 0, 1000, 1, "e"

    intervals = [_utils.Interval(10 * i, 10 * i + 5) for i in range(100)]
    key = _utils.EventKey(Event())
    return least(lambda: [key.intervals_overlap(intervals) for _ in range(n)])


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--peer", type=int, default=0)
    options = parser.parse_args()
    seconds = {
        "evaluation": least(lambda: BasicEvaluation(table_of(options.n))),
        "with ranking": least(lambda: BasicEvaluation(table_of(options.n)).rank_events(10)),
        "anti-patterns": least(lambda: find_anti_patterns(table_of(options.n))),
        "explain": least(lambda: explain(table_of(options.n))),
    }
    result = {"events": options.n, "seconds": seconds}
    if options.peer:
        result["torch overlap"] = {"events": options.peer, "seconds": peer(options.peer)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
