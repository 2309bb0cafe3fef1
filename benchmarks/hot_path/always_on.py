# SPDX-License-Identifier: Apache-2.0
"""Measure what a flight recorder costs: a range, a step of 10 ms with 2,000 ranges, and a dump by another process,
and what the program notices of dumps.

``always_on.py [--rounds N] [--json FILE]``: all cases run in turn in one process; ratios are of medians over the rounds.
A range is measured once all memory of the recorder is in use, so that each one overwrites an old record.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
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
_DUMP_FOREVER = """
import os, sys
from fastprof.flight_recorder.dumps import write_dump
while os.getppid() == int(sys.argv[3]):
    write_dump(sys.argv[1], sys.argv[2], "bench")
    os.unlink(sys.argv[2])
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


def noticed(rounds: int) -> list[float]:
    """Return what a range costs while a process dumps its records, relative to while it dumps a file that nobody writes.

    Any process that copies 64 MiB takes caches and, with hyperthreads, half a core: the file shows that part.
    """
    flight_recorder.start()
    ranges(3_000_000)
    records = flight_recorder.status()["records"]
    folder = f"/dev/shm/always_on-{os.getpid()}"
    os.mkdir(folder)
    still = shutil.copy(records, f"{folder}/still")
    ratios = []
    readers = {}
    try:
        for name, source in (("dumped", records), ("still", still)):
            words = [sys.executable, "-c", _DUMP_FOREVER, source, f"{folder}/{name}.flight"]
            readers[name] = subprocess.Popen([*words, str(os.getpid())])
        time.sleep(2)  # both have imported what they need
        for reader in readers.values():
            reader.send_signal(signal.SIGSTOP)
        for _ in range(rounds):
            found = {}
            for name, reader in readers.items():
                reader.send_signal(signal.SIGCONT)
                found[name] = ranges(400_000)
                reader.send_signal(signal.SIGSTOP)
            ratios.append(found["dumped"] / found["still"])
    finally:
        for reader in readers.values():
            reader.kill()
            reader.wait()
        flight_recorder.stop()
        shutil.rmtree(folder)
    return ratios


def median_interval(values: list[float]) -> list[float]:
    """Return the ends of the 95 % interval of the median."""
    ordered = sorted(values)
    rank = max(0, int(0.5 * len(ordered) - 0.98 * len(ordered) ** 0.5))
    return [ordered[rank], ordered[len(ordered) - 1 - rank]]


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
    shares = [on / off - 1 for on, off in zip(of_step["recorder"], of_step["off"], strict=True)]
    rows.append(
        {
            "case": f"step with {EVENTS} ranges, share added",
            "ns": statistics.median(of_step["off"]) * 1e6,
            "ratio": statistics.median(shares),
            "interval": median_interval(shares),
        }
    )
    ratios = noticed(options.rounds)
    rows.append(
        {
            "case": "range, dumped all the time, to a file's dump",
            "ns": base_ns * statistics.median(ratios),
            "ratio": statistics.median(ratios),
            "interval": median_interval(ratios),
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
