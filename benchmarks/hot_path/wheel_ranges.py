# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of a Python range with the fastprof of a wheel, as a ratio to the local build of the same sources.

``wheel_ranges.py [--rounds N] [--json FILE] WHEEL``: installs the wheel into a fresh environment under ``build/bench``
of the interpreter that runs this, whose own fastprof is the local build. N pairs of processes run ``python_ranges.py``,
one with each, in turn, by CPU time. Within a process a case is a ratio to ``with threading.Lock()``; printed are the
medians over the processes, and median and quartiles over the pairs of the wheel's ratio to the local one. Where
valgrind is installed, the instructions of one execution are counted as well: they do not depend on who else uses the
machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "bench" / "wheel"
sys.path.insert(0, str(ROOT / "packaging"))

from interpreters import environment_without, make_environment, version_of  # noqa: E402

VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
# The difference of two runs is the cost of the additional executions, without start and end of the interpreter.
EXECUTIONS = (5_000, 15_000)
COUNTED = """
import sys, timeit
sys.path.insert(0, sys.argv[1])
from python_ranges import CASES, recorder
statement, setup, record = CASES[sys.argv[2]]
timer = timeit.Timer(statement, setup)
with recorder(record):
    timer.timeit(int(sys.argv[3]))
"""
ROUNDS_OF_A_PROCESS = 15  # their minimum counts; differences between processes show in the pairs
# Prefixes of unchanged sources in the wheel, and their folders in the tree.
SOURCES = {"fastprof/include/": ROOT / "csrc/include", "fastprof/": ROOT / "python/fastprof"}

Ratios = dict[str, tuple[float, float]]  # case -> (ns over the empty loop, x lock)


def changed_sources(wheel: Path) -> list[str]:
    """Return the Python files and headers of the wheel that differ from the tree's, or are not there."""
    changed = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not name.startswith("fastprof/") or not name.endswith((".py", ".hpp")):
                continue
            prefix, folder = next((p, f) for p, f in SOURCES.items() if name.startswith(p))
            path = folder / name.removeprefix(prefix)
            if not path.is_file() or path.read_bytes() != archive.read(name):
                changed.append(name)
    return changed


def native_module(python: Path, variables: dict[str, str]) -> Path:
    """Return the file of the _core that an interpreter loads."""
    code = "from fastprof import _core; print(_core.__file__)"
    command = [python, "-c", code]
    done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    return Path(done.stdout.strip())


def measure(python: Path, variables: dict[str, str]) -> Ratios:
    """Run python_ranges.py in a process of its own."""
    out = WORK / "ranges.jsonl"
    out.unlink(missing_ok=True)
    rounds = str(ROUNDS_OF_A_PROCESS)
    command = [python, HERE / "python_ranges.py", "--no-peers", "--cpu-time", "--rounds", rounds]
    command += ["--json", out]
    subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return {row["case"]: (row["min_ns"], row["min_ratio"]) for row in rows}


def instructions(python: Path, variables: dict[str, str], case: str) -> float:
    """Return the instructions of one execution of a case, as cachegrind counts them."""
    counts = []
    for executions in EXECUTIONS:
        command = [*VALGRIND, python, "-c", COUNTED, HERE, case, str(executions)]
        seeded = {**variables, "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, env=seeded, check=True, capture_output=True, text=True)
        match = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
        assert match is not None, done.stderr
        counts.append(int(match[1].replace(",", "")))
    return (counts[1] - counts[0]) / (EXECUTIONS[1] - EXECUTIONS[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json")
    options = parser.parse_args()
    if version_of(options.wheel) != ".".join(platform.python_version_tuple()[:2]):
        parser.error(
            f"{options.wheel.name} is not for the Python that runs this, {platform.python_version()}"
        )
    if changed := changed_sources(options.wheel):
        parser.error(f"the wheel is of other sources than this tree: {', '.join(changed[:5])}")
    builds = {
        "local": (Path(sys.executable), dict(os.environ)),
        "wheel": (make_environment(WORK / "environment", options.wheel), environment_without()),
    }
    for name, build in builds.items():
        print(f"{name}: {native_module(*build)}")
    pairs: list[dict[str, Ratios]] = []
    for i in range(options.rounds):
        order = list(builds) if i % 2 == 0 else list(builds)[::-1]
        pairs.append({name: measure(*builds[name]) for name in order})
    rows = []
    print(f"{'case':40} {'local':>7} {'wheel':>7} {'wheel / local':>14}  (quartiles)")
    for case in pairs[0]["local"]:
        least_ns = {b: min(pair[b][case][0] for pair in pairs) for b in builds}
        ratio = {b: statistics.median(pair[b][case][1] for pair in pairs) for b in builds}
        of_pairs = [pair["wheel"][case][1] / pair["local"][case][1] for pair in pairs]
        low, middle, high = statistics.quantiles(of_pairs, method="inclusive")
        row = {
            "suite": "wheel", "case": case, "local_min_ns": least_ns["local"], "wheel_min_ns": least_ns["wheel"],
            "local_ratio": ratio["local"], "wheel_ratio": ratio["wheel"], "wheel_to_local": middle,
            "lower_quartile": low, "upper_quartile": high, "pairs": len(pairs),
        }  # fmt: skip
        rows.append(row)
        print(
            f"{case:40} {ratio['local']:6.3f}x {ratio['wheel']:6.3f}x {middle:14.3f}  ({low:.3f} to {high:.3f})"
        )
    if shutil.which(VALGRIND[0]) is None:
        print("valgrind is not installed: instructions are not counted")
    else:
        print(f"{'instructions, with the loop':40} {'local':>7} {'wheel':>7}")
        for row in rows:
            counted = {name: instructions(*build, row["case"]) for name, build in builds.items()}
            row |= {f"{name}_instructions": count for name, count in counted.items()}
            print(f"{row['case']:40} {counted['local']:7.1f} {counted['wheel']:7.1f}", flush=True)
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
