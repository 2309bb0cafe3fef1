# SPDX-License-Identifier: Apache-2.0
"""Time the stages of a profile from its stop to its files, and measure its memory."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastprof

__all__ = ["added_bytes", "least_stages", "measure_stages", "number_of"]

Stages = dict[str, float]
_TO_TABLE = ("stop", "events", "key_averages", "table")


def measure_stages(make: Callable[[], Any], work: Callable[[], Any], folder: str) -> Stages:
    """Profile ``work``; return the seconds of each stage, and the total CPU time from stop to table."""
    took: Stages = {}

    def timed(stage: str, action: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        result = action()
        took[f"{stage}_s"] = time.perf_counter() - begin
        return result

    prof = make()
    prof.start()
    work()
    cpu = time.process_time()
    timed("stop", prof.stop)
    timed("events", prof.events)
    averages = timed("key_averages", prof.key_averages)
    timed("table", averages.table)
    took["cpu_s"] = time.process_time() - cpu
    took["stop_and_table_s"] = sum(took[f"{stage}_s"] for stage in _TO_TABLE)
    timed("chrome", lambda: prof.export_chrome_trace(str(Path(folder, "trace.json"))))
    if isinstance(prof, fastprof.profile):
        own = str(Path(folder, "trace.fastprof"))
        timed("perfetto", lambda: prof.export_perfetto_trace(str(Path(folder, "trace.pftrace"))))
        timed("save", lambda: fastprof.save(prof, own))
        timed("load", lambda: fastprof.load(own))
    return took


def least_stages(
    rounds: int, make: Callable[[], Any], work: Callable[[], Any], folder: str
) -> Stages:
    """Return the minimum of each stage over ``rounds`` runs of measure_stages."""
    best: Stages = {}
    for _ in range(rounds):
        for stage, value in measure_stages(make, work, folder).items():
            best[stage] = min(best.get(stage, value), value)
    return best


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def added_bytes(make: Callable[[], Any], works: list[Callable[[], Any]]) -> int:
    """Return the resident bytes that profiling the last of ``works`` adds to this process.

    All works are profiled in succession; the earlier ones are small and trigger one-time allocations. Run in a
    new process.
    """
    held = 0
    for work in works:
        gc.collect()
        before = _resident_bytes()
        prof = make()
        prof.start()
        work()
        prof.stop()
        held = _resident_bytes() - before
    return held


def number_of(script: str, *arguments: str) -> int:
    """Run a benchmark script in a new process and return the last number it prints."""
    command = [sys.executable, script, *arguments]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(out.split()[-1])
