# SPDX-License-Identifier: Apache-2.0
"""Time a profile from stop to tables and files, by number of ranges, against torch.profiler if it is installed.

``analysis.py [--json FILE] [--largest N] [--largest-torch N]``: wall clock seconds of each stage, the minimum
over several rounds, and resident bytes per event after the stop. ``cpu_s`` is the CPU time from stop to table,
which is less affected by other load than wall clock. Files are written to the temporary folder, without fsync.
fastprof runs with 0, 10 and 10^4 .. 10^7 ranges, PyTorch with 10^4 .. 10^6, where one round takes about a
minute. Memory includes the pool of up to 32 MB that the next profile reuses.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import fastprof

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.stages import added_bytes, least_stages, measure_stages, number_of


def ranges(record_function: Any, n: int) -> None:
    """Run ``n`` ranges."""
    for _ in range(n):
        with record_function("range"):
            pass


def rounds_for(n: int, peer: bool) -> int:
    """Return the number of rounds for ``n`` ranges."""
    if n >= 1_000_000:
        return 1 if peer else 3
    return 3 if peer else 7


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--largest", type=int, default=10_000_000)
    parser.add_argument("--largest-torch", type=int, default=1_000_000)
    parser.add_argument("--resident", nargs=2, metavar=("PEER", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [0, 10, 10_000, 100_000, 1_000_000, 10_000_000]
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
    except ImportError:
        print("torch: not installed")
    else:
        peers.append(
            (
                "torch.profiler",
                lambda: profile(activities=[ProfilerActivity.CPU]),
                record_function,
                options.largest_torch,
            )
        )
    if options.resident:
        name, count = options.resident
        _, profiler, record, _ = next(peer for peer in peers if peer[0] == name)
        print(added_bytes(profiler, [partial(ranges, record, size) for size in (1000, int(count))]))
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _name, profiler, record, _ in peers:
            # Load modules and warm up the code.
            measure_stages(profiler, partial(ranges, record, 1000), folder)
        for n in sizes:
            for name, profiler, record, largest in peers:
                if n > largest or (n < 10_000 and name != "fastprof"):
                    continue
                rounds = rounds_for(n, name != "fastprof")
                best = least_stages(rounds, profiler, partial(ranges, record, n), folder)
                if n >= 10_000:
                    best["resident_bytes_an_event"] = (
                        number_of(__file__, "--resident", name, str(n)) / n
                    )
                rows.append({"suite": "analysis", "case": f"{name}, {n} ranges", **best})
                print(
                    f"{name:15} {n:9} "
                    + "  ".join(f"{stage} {value:.5g}" for stage, value in best.items()),
                    flush=True,
                )
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
