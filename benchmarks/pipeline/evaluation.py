# SPDX-License-Identifier: Apache-2.0
"""Time BasicEvaluation, its ranking, the anti-patterns and explain(), beside torch.profiler's on the same work.

``evaluation.py [N] [--json FILE] [--ops N]``: N events (default 10^6) of a made table, a quarter each of ops, nested
ops, launches and kernels; then ``--ops`` ops of PyTorch (default 3000, two events each), recorded by either profiler and
analysed by its own BasicEvaluation and anti-patterns. CPU seconds, the least of three rounds; compare within one run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fastprof
from fastprof.analysis import BasicEvaluation, explain, find_anti_patterns, report_all_anti_patterns


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
    """Return the least CPU seconds of three calls."""
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        call()
        seconds.append(time.process_time() - begin)
    return round(min(seconds), 6)


def of_ops(count: int) -> list[dict[str, Any]]:
    """Return rows for `count` ops that each profiler records and analyses; [] without torch."""
    try:
        import torch
        from torch.profiler import _pattern_matcher, _utils
    except ImportError:
        print("torch: not installed")
        return []
    torch.set_num_threads(1)
    value = torch.ones(4)

    def work(profile: Any) -> Any:
        with profile:
            for _ in range(count):
                value.add(1)
        return profile

    options = {"record_shapes": True, "with_stack": True}
    cpu = [torch.profiler.ProfilerActivity.CPU]
    theirs = work(torch.profiler.profile(activities=cpu, **options))
    ours = work(fastprof.profile(**options))
    silent = {"print_enable": False}
    return [
        {
            "suite": "evaluation",
            "case": f"{name}, {count} ops",
            "evaluation": least(evaluate),
            "anti-patterns": least(patterns),
        }
        for name, evaluate, patterns in (
            (
                "fastprof",
                lambda: BasicEvaluation(ours).rank_events(10),
                lambda: report_all_anti_patterns(ours, **silent),
            ),
            (
                "torch.profiler",
                lambda: _utils.BasicEvaluation(theirs.profiler).rank_events(10),
                lambda: _pattern_matcher.report_all_anti_patterns(theirs, **silent),
            ),
        )
    ]


def main() -> None:
    """Run and print a JSON object a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--json")
    parser.add_argument("--ops", type=int, default=3000)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = [
        {
            "suite": "evaluation",
            "case": f"fastprof, table of {options.n} events",
            "evaluation": least(lambda: BasicEvaluation(table_of(options.n))),
            "with ranking": least(lambda: BasicEvaluation(table_of(options.n)).rank_events(10)),
            "anti-patterns": least(lambda: find_anti_patterns(table_of(options.n))),
            "explain": least(lambda: explain(table_of(options.n))),
        },
        *of_ops(options.ops),
    ]
    for row in rows:
        print(json.dumps(row), flush=True)
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
