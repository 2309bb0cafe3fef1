# SPDX-License-Identifier: Apache-2.0
"""Measure what fastprof adds to a process with NumPy: its import, and the modules of the first profile and table.

``import_time.py [--rounds N] [--json FILE]``: milliseconds, wall clock and CPU, the minimum over N new
processes. Byte code is cached, as after an installation. The last case is the total of fastprof's stages.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

# The stages, timed separately in this order in one process.
STAGES = {
    "import numpy": "import numpy",
    "import fastprof": "import fastprof",
    "fastprof.profile": "fastprof.profile",
    "first profile": "p = fastprof.profile(); p.start(); fastprof.record_function('x')\np.stop()",
    "first table": "p.key_averages().table()",
}


def measure() -> dict[str, tuple[float, float]]:
    """Return the (wall, CPU) seconds of each stage in a fresh process."""
    lines = ["import time", "took = []"]
    for statement in STAGES.values():
        lines += [
            "begin = time.perf_counter(), time.process_time()",
            statement,
            "took.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))",
        ]
    lines.append("print(*(f'{wall} {cpu}' for wall, cpu in took))")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    out = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    ).stdout
    figures = [float(text) for text in out.split()]
    return dict(zip(STAGES, zip(figures[::2], figures[1::2], strict=True), strict=True))


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    options = parser.parse_args()
    measure()  # warms up file and byte code caches
    runs = [measure() for _ in range(options.rounds)]
    rows = []
    for stage in STAGES:
        wall, cpu = (min(run[stage][i] for run in runs) * 1e3 for i in (0, 1))
        rows.append({"suite": "import", "case": stage, "wall_ms": wall, "cpu_ms": cpu})
    own = [stage for stage in STAGES if stage != "import numpy"]
    wall, cpu = (min(sum(run[stage][i] for stage in own) for run in runs) * 1e3 for i in (0, 1))
    rows.append({"suite": "import", "case": "all beyond numpy", "wall_ms": wall, "cpu_ms": cpu})
    for row in rows:
        print(f"{row['case']:24} wall {row['wall_ms']:8.2f} ms   CPU {row['cpu_ms']:8.2f} ms")
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
