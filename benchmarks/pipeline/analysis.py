# SPDX-License-Identifier: Apache-2.0
"""From stop to the first table, by number of ranges, beside torch.profiler where it is installed.

``analysis.py [--json FILE] [--largest N]``: seconds of stop, of stop + key_averages().table(), and of the Chrome trace.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import fastprof


def measure(profiler: Any, record_function: Any, n: int) -> dict[str, float]:
    """Profile ``n`` ranges and return the seconds of each stage."""
    prof = profiler()
    prof.start()
    for _ in range(n):
        with record_function("range"):
            pass
    begin = time.perf_counter()
    prof.stop()
    stopped = time.perf_counter()
    prof.key_averages().table()
    shown = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        prof.export_chrome_trace(str(Path(folder) / "trace.json"))
    return {
        "stop_s": stopped - begin,
        "stop_and_table_s": shown - begin,
        "chrome_s": time.perf_counter() - shown,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--largest", type=int, default=10_000_000)
    options = parser.parse_args()
    peers: list[tuple[str, Any, Any, int]] = [
        (
            "fastprof",
            lambda: fastprof.profile(max_bytes=1 << 30),
            fastprof.record_function,
            options.largest,
        )
    ]
    try:
        from torch.profiler import ProfilerActivity, profile, record_function

        # 10^6 ranges take PyTorch about a minute.
        peers.append(
            (
                "torch.profiler",
                lambda: profile(activities=[ProfilerActivity.CPU]),
                record_function,
                100_000,
            )
        )
    except ImportError:
        print("torch: not installed")
    rows = []
    for name, profiler, record, largest in peers:
        measure(profiler, record, 1000)  # modules loaded, code warm
        n = 10_000
        while n <= min(largest, options.largest):
            best: dict[str, float] = {}
            for _ in range(5 if n < 1_000_000 else 2):
                for stage, seconds in measure(profiler, record, n).items():
                    best[stage] = min(best.get(stage, seconds), seconds)
            rows.append({"suite": "analysis", "case": f"{name}, {n} ranges", **best})
            print(
                f"{name:16} {n:9} "
                + "  ".join(f"{stage} {seconds:.4f}" for stage, seconds in best.items())
            )
            n *= 10
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
