# SPDX-License-Identifier: Apache-2.0
"""Measure what a flight recorder costs: a range, a step of 10 ms with 2,000 ranges, and a dump by another process.

``always_on.py [--rounds N] [--json FILE]``: all cases run in turn in one process; ratios are of medians over the rounds.
A range is measured once all memory of the recorder is in use, so that each one overwrites an old record.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from fastprof import flight_recorder, profile, record_function

N = 50_000
STEP_S, EVENTS = 0.01, 2000
_READ = """
import sys, time
from fastprof.flight_recorder.dumps import read_dump, write_dump
import os
begin = time.perf_counter()
write_dump(sys.argv[1], sys.argv[2], "bench")
copied = time.perf_counter()
rows = len(read_dump(sys.argv[2], seconds=1e6))
read = time.perf_counter()
os.unlink(sys.argv[2])
print(copied - begin, read - copied, rows)
"""


@contextlib.contextmanager
def recorded(how: str) -> Iterator[None]:
    """Record as `how` says: "off", "profile", or "recorder", filled before."""
    if how == "profile":
        with profile():
            yield
    elif how == "recorder":
        flight_recorder.start(max_bytes=8 << 20, slow_step=None)
        ranges(400_000)
        try:
            yield
        finally:
            flight_recorder.stop()
    else:
        yield


def ranges(count: int) -> float:
    """Return the CPU time in ns of a range."""
    one = record_function("range")
    begin_ns = time.thread_time_ns()
    for _ in range(count):
        with one:
            pass
    return (time.thread_time_ns() - begin_ns) / count


def step() -> float:
    """Return the CPU time in ms of a step: work of about 10 ms, with EVENTS ranges."""
    one = record_function("range")
    begin_ns = time.thread_time_ns()
    for _ in range(EVENTS):
        with one:
            sum(range(220))
    return (time.thread_time_ns() - begin_ns) / 1e6


def dumps() -> list[tuple[float, float, int]]:
    """Return (copying in s, reading in s, rows) of dumps of 64 MiB by another process while this one records."""
    found = []
    flight_recorder.start()
    ranges(3_000_000)
    copy = f"/dev/shm/always_on-{os.getpid()}.flight"
    for _ in range(3):
        words = [sys.executable, "-c", _READ, flight_recorder.status()["records"], copy]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
            while reader.poll() is None:
                ranges(1000)
                time.sleep(0.001)
            assert reader.stdout is not None
            copied, read, rows = reader.stdout.read().split()
        found.append((float(copied), float(read), int(rows)))
    flight_recorder.stop()
    return found


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json")
    options = parser.parse_args()
    of_range: dict[str, list[float]] = {"off": [], "profile": [], "recorder": []}
    of_step: dict[str, list[float]] = {"off": [], "recorder": []}
    for _ in range(options.rounds):
        for how, times in of_range.items():
            with recorded(how):
                times.append(ranges(N))
        for how, times in of_step.items():
            with recorded(how):
                step()
                times.append(statistics.median(step() for _ in range(9)))
    rows = []
    off_ns = statistics.median(of_range["off"])
    base_ns = statistics.median(of_range["profile"])
    for how, times in of_range.items():
        ns = statistics.median(times)
        rows.append({"case": f"range, {how}", "ns": ns, "ratio": ns / base_ns})
    shares = sorted(
        on / off - 1 for on, off in zip(of_step["recorder"], of_step["off"], strict=True)
    )
    rank = int(0.5 * len(shares) - 0.98 * len(shares) ** 0.5)  # of the median's 95 % interval
    low, high = shares[max(0, rank)], shares[min(len(shares) - 1, len(shares) - 1 - rank)]
    rows.append(
        {
            "case": f"step with {EVENTS} ranges, share added",
            "ns": statistics.median(of_step["off"]) * 1e6,
            "ratio": statistics.median(shares),
            "interval": [low, high],
        }
    )
    copied, read, count = min(dumps())
    rows.append(
        {"case": f"dump of 64 MiB, {count} rows: copy", "ns": copied * 1e9, "ratio": copied}
    )
    rows.append({"case": "dump of 64 MiB: read as a table", "ns": read * 1e9, "ratio": read})
    for row in rows:
        print(
            f"{row['case']:45} {row['ns']:14.1f} ns {row['ratio']:8.4f} {row.get('interval', '')}"
        )
    print(f"(ratios of ranges: to a range of a profile, {base_ns:.1f} ns; off {off_ns:.1f} ns)")
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps({"suite": "always on", **row}) + "\n" for row in rows)


if __name__ == "__main__":
    main()
