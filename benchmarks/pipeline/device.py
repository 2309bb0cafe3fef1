# SPDX-License-Identifier: Apache-2.0
"""Time the stop of a profile with many launches: reading CUPTI's records, linking them, and the table.

``device.py [--launches N]``: N launches (default 500,000: 10^6 device events) by 4 threads through the double of
libcupti, in ranges of 50. CPU seconds of the stop and of the table, and as the peer, in the same process, what
NumPy takes for the joins alone, of as many rows in random order: a stable argsort of the calls and a searchsorted of
the work by correlation, and argsorts of both by begin. Needs NVIDIA's headers (`tests/tools/cuda_double.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tools"))
from cuda_double import build_double, genuine_headers

_PROGRAM = """
import ctypes, json, os, sys, threading, time
import numpy as np
import fastprof
from fastprof import ProfilerActivity, record_function
gpu = ctypes.CDLL(os.environ["FASTPROF_CUPTI_LIBRARY"])
each = int(sys.argv[1]) // 4
def work(stream):
    name, time_of = ctypes.c_char_p(b"_Z4gemmPfS_i"), ctypes.c_uint64(100)
    for _ in range(each // 50):
        with record_function("range"):
            for _ in range(50):
                gpu.fake_launch(name, 0, stream, time_of)
prof = fastprof.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], max_bytes=1 << 30)
prof.start()
threads = [threading.Thread(target=work, args=(7 + n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
begin = time.process_time(); prof.stop()
stopped = time.process_time(); table = prof.event_table
made = time.process_time()
category = np.array(table.sites.field("category"), object)[table.column("site")]
calls = table.start_ns[category == "cuda_runtime"]
kernels = table.start_ns[category == "kernel"]
shuffled = np.random.default_rng(1).permutation(len(calls))
correlation = shuffled.astype(np.uint32)
first = time.process_time()
by = np.argsort(correlation, kind="stable")
found = by[np.searchsorted(correlation[by], correlation)]
for starts in (calls, kernels):
    starts = starts[shuffled]
    starts = starts[np.argsort(starts, kind="stable")]
peer = time.process_time() - first
assert len(calls) == len(kernels) == each * 4
print(json.dumps({"rows": len(table), "stop_s": stopped - begin, "table_s": made - stopped, "peer_s": peer}))
"""


def main() -> None:
    """Run and print one JSON object; --json appends it to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        double = build_double(genuine_headers()[0], Path(folder))
        for _ in range(options.rounds):
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM, str(options.launches)],
                env={**os.environ, "FASTPROF_CUPTI_LIBRARY": str(double)},
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            rounds.append(json.loads(done.stdout.splitlines()[-1]))
    best = min(rounds, key=lambda row: row["stop_s"] + row["table_s"])
    row = {
        "suite": "device",
        "launches": options.launches,
        **{name: round(value, 4) for name, value in best.items()},
        "ratio": round((best["stop_s"] + best["table_s"]) / best["peer_s"], 2),
        "stop_ratio": round(best["stop_s"] / best["peer_s"], 2),
    }
    print(json.dumps(row))
    if options.json is not None:
        with options.json.open("a") as file:
            print(json.dumps(row), file=file)


if __name__ == "__main__":
    main()
