# SPDX-License-Identifier: Apache-2.0
"""`make metal-check`: build and run the Metal profiler on a Mac, and write what it did into a file.

It builds examples/metal_compute.mm with automatic reference counting and without, runs it with signposts, lines and
tables, and checks the GPU times. The result is build/metal_check.json; the exit code is 1 if a check failed, 2
elsewhere than on a Mac.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BACKEND = ROOT / "csrc" / "backends" / "metal"


def run(command: list[str], **environment: str) -> dict[str, Any]:
    """Return what a command printed and how it ended."""
    done = subprocess.run(
        command, cwd=ROOT / "build", env={**os.environ, **environment},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    return {
        "command": command,
        "status": done.returncode,
        "stdout": done.stdout,
        "stderr": done.stderr,
    }


def build(counting: str, program: Path) -> dict[str, Any]:
    """Build the example with a mode of reference counting."""
    sources = [
        BACKEND / "metal_platform.mm",
        BACKEND / "commit_observation.mm",
        BACKEND / "torch_stream.cpp",
    ]
    return run(
        [
            "clang++", "-std=c++17", "-O1", "-Wall", counting, f"-I{ROOT / 'csrc' / 'include'}", f"-I{ROOT / 'csrc'}",
            str(ROOT / "examples" / "metal_compute.mm"), *map(str, sources),
            "-framework", "Foundation", "-framework", "Metal", "-o", str(program),
        ]
    )  # fmt: skip


def gpu_times_ms(text: str) -> list[float]:
    """Return the GPU times in the lines of runs."""
    return [float(number) for number in re.findall(r"double_all .*\[GPU=([\d.]+) ms", text)]


def checks_of(counting: str, program: Path) -> dict[str, Any]:
    """Build and run the example; return each step and whether it is as it must be."""
    built = build(counting, program)
    found: dict[str, Any] = {"build": built, "passed": {"build": built["status"] == 0}}
    if built["status"] != 0:
        return found
    ran = run(
        [str(program)],
        FASTPROF_METAL_TRACE_SIGNPOSTS="ALL_SIGNPOST_EVENTS,ALL_SIGNPOST_INTERVALS",
        FASTPROF_METAL_LOG_PROFILE_INFO="OPERATION_INFO,OPERATION_STATS,INCLUDE_KERNEL_TIME",
    )
    times = gpu_times_ms(ran["stderr"])
    found["run"] = ran
    found["gpu_ms"] = times
    found["passed"].update(
        {
            "runs and computes": ran["status"] == 0,
            "a line for each run": len(times) == 3,
            "GPU times above 0": bool(times) and min(times) > 0,
            "one table at exit": ran["stderr"].count(" MPS Operations Profiling: ") == 1,
        }
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="check the Metal profiler on a Mac")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "metal_check.json")
    options = parser.parse_args()
    if sys.platform != "darwin":
        print(
            f"make metal-check needs a Mac with a GPU that supports Metal; this is {platform.system()}."
        )
        return 2
    (ROOT / "build").mkdir(exist_ok=True)
    result = {
        "machine": {"system": platform.platform(), "processor": platform.machine()},
        "compiler": run(["clang++", "--version"])["stdout"],
        "with counting": checks_of("-fobjc-arc", ROOT / "build" / "metal_compute_arc"),
        "without counting": checks_of("-fno-objc-arc", ROOT / "build" / "metal_compute"),
    }
    options.out.write_text(json.dumps(result, indent=1))
    failed = [
        f"{mode}: {name}"
        for mode in ("with counting", "without counting")
        for name, good in result[mode]["passed"].items()
        if not good
    ]
    print("\n".join(f"FAILED {each}" for each in failed) or "all checks passed")
    print(f"written: {options.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
