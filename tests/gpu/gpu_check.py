# SPDX-License-Identifier: Apache-2.0
"""`make gpu-check`: check fastprof on a machine with an NVIDIA GPU, beside torch.profiler.

Runs the checks of gpu_programs.py, each in a process of its own, and writes what they found to
benchmarks/results/gpu-<device>.json. Needs fastprof and PyTorch installed, no network, and less than ten
minutes. Exit status: 0 if all is well, 1 if a check found a fault, 2 if there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # also when run as a program

from gpu_workloads import reason_without  # noqa: E402

RESULTS = HERE.parents[1] / "benchmarks" / "results"
# In this order: torch.profiler's runs come after ours, so that ours are the first to use the GPU.
CHECKS = (
    "facts", "first_enable", "kernels", "memory_kinds", "streams", "graphs", "cycles", "exit_while_recording",
    "launch_bare", "launch_fastprof", "delivery", "torch_profiler", "launch_torch_profiler", "conflict",
)  # fmt: skip
LIMIT_S = 540.0
LIMIT_OF_CHECK_S = 120.0


def run_check(name: str, folder: Path, left_s: float) -> dict[str, Any]:
    """Return the result of a check; a crash, a wrong exit status or a time-out is a fault."""
    if left_s < 5:
        return {"faults": [], "facts": {}, "skipped": "no time is left"}
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / "gpu_programs.py"), name],
            cwd=folder, capture_output=True, text=True, timeout=min(left_s, LIMIT_OF_CHECK_S),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"faults": [f"did not end within {LIMIT_OF_CHECK_S:.0f} s"], "facts": {}}
    lines = done.stdout.splitlines()
    try:
        result: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        result = {"faults": ["printed no result"], "facts": {}}
    if done.returncode != 0:
        result["faults"].append(f"exit status {done.returncode}: {done.stderr.strip()[-2000:]}")
    result["seconds"] = round(time.monotonic() - begin, 1)
    return result


def compare_kernels(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Return how the kernels of a profile differ from those of torch.profiler: names, counts, times."""
    faults = []
    mine, other = ours.get("kernels", {}), theirs.get("kernels", {})
    for name in sorted(mine.keys() | other.keys()):
        count, us = mine.get(name, (0, 0.0))
        other_count, other_us = other.get(name, (0, 0.0))
        if count != other_count:
            faults.append(f"{name}: {count} times, torch.profiler says {other_count}")
        elif abs(us - other_us) > 0.15 * max(us, other_us):
            faults.append(f"{name}: {us:.1f} us, torch.profiler says {other_us:.1f}")
    return faults


def launch_costs(results: dict[str, Any]) -> dict[str, float]:
    """Return what a launch costs more than without a profiler, in ns, and the ratio of the two."""
    bare = results["launch_bare"]["facts"].get("ns")
    ours = results["launch_fastprof"]["facts"]
    theirs = results["launch_torch_profiler"]["facts"].get("recording_ns")
    if bare is None or "recording_ns" not in ours:
        return {}
    costs = {
        "bare_ns": bare,
        "fastprof_more_ns": ours["recording_ns"] - bare,
        "after_stop_more_ns": ours["after_ns"] - bare,
    }
    if theirs is not None:
        costs["torch_profiler_more_ns"] = theirs - bare
        if theirs > bare:
            costs["fastprof_to_torch_profiler"] = (ours["recording_ns"] - bare) / (theirs - bare)
    return costs


def check_all(folder: Path) -> dict[str, Any]:
    """Run all checks and return the document that is written."""
    begin = time.monotonic()
    results: dict[str, Any] = {}
    for name in CHECKS:
        result = results[name] = run_check(name, folder, LIMIT_S - (time.monotonic() - begin))
        state = "FAULT" if result["faults"] else "skipped" if "skipped" in result else "ok"
        print(f"{name:24} {state:8} {result.get('seconds', 0):6.1f} s", flush=True)
        for text in [*result["faults"], *([result["skipped"]] if "skipped" in result else [])]:
            print(f"    {text}", flush=True)
    if "skipped" not in results["torch_profiler"] and not results["kernels"]["faults"]:
        differences = compare_kernels(
            results["kernels"]["facts"], results["torch_profiler"]["facts"]
        )
        results["torch_profiler"]["faults"] += differences
        for text in differences:
            print(f"    {text}")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": results["facts"]["facts"],
        "faults": sum(len(result["faults"]) for result in results.values()),
        "launch": launch_costs(results),
        "checks": results,
    }


def main(arguments: list[str]) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, prog="gpu_check.py")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of the file (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        import fastprof
    except ImportError as error:
        print(
            f"gpu-check: fastprof cannot be imported by {sys.executable} ({error}). Install it: offline with\n"
            "  pip install --no-build-isolation --no-deps .   (needs pybind11, scikit-build-core, cmake, ninja)",
            file=sys.stderr,
        )
        return 2
    reason = reason_without()
    if reason is not None:
        print(f"gpu-check: there is nothing to check here: {reason}", file=sys.stderr)
        return 2
    print(f"fastprof {fastprof.__version__}, {sys.executable}")
    with tempfile.TemporaryDirectory() as folder:
        document = check_all(Path(folder))
    device = re.sub(r"[^a-z0-9]+", "-", str(document["machine"].get("device", "unknown")).lower())
    path = options.results / f"gpu-{device.strip('-')}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    for name, value in document["launch"].items():
        print(f"  {name:28} {value:10.2f}")
    print(f"{document['faults']} faults; written to {os.path.relpath(path)}")
    return 1 if document["faults"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
