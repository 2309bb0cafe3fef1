# SPDX-License-Identifier: Apache-2.0
"""Time fastprof.ranks on simulated jobs, beside pandas over the same Parquet and HolisticTraceAnalysis on the same job.

``ranks.py [--json FILE] [--ranks N ...] [--events N] [--hta-events N]``: for each number of ranks (default 8, 64) of
--events events each (default 192,000): ns an event and bytes an event of writing shards, and CPU seconds and peak
resident MB of processes that import what that takes, that read the parts of steps, and that give all answers of `fastprof ranks`. Peers, in the same run: pandas reads
the columns that the answers need and sums durations by rank and name, which has neither overlap nor waiting; HTA loads
the job of 8 ranks from Kineto JSON with --hta-events events a rank (default 20,000; 0: without HTA) and makes its
temporal breakdown and overlap, fastprof the same from the same files. Compare within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from simulated_job import SimulatedJob

import fastprof

_STEPS = 50
_BYTECODE = tempfile.TemporaryDirectory(prefix="bytecode-")
_ANSWERS = """
import fastprof
from fastprof.ranks.text import job_values
values = job_values(fastprof.ranks.open({folder!r}))
assert values["stragglers"][0]["rank"] == 5, values["stragglers"]
"""
_PANDAS = """
import pandas
frame = pandas.read_parquet({folder!r}, columns=["rank", "start_ns", "duration_ns", "name", "category"])
frame.groupby(["rank", "name"], observed=True).duration_ns.sum()
"""
_HTA = """
import warnings; warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir={folder!r})
analysis.get_temporal_breakdown(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
"""
_MEASURED = """
import resource
{code}
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
spent = sum(each.ru_utime + each.ru_stime for each in used)
kib = max(each.ru_maxrss for each in used)
print("MEASURED", spent, kib / 1024)
"""
# What programs use of an installed fastprof: imports alone, and the parts of steps.
_IMPORTS = """
import fastprof.ranks, pyarrow.parquet  # of {folder!r}, nothing
"""
_PARTS = """
import fastprof
job = fastprof.ranks.open({folder!r})
[job.parts(name) for name in ("compute_ns", "communication_ns", "exposed_ns", "copies_ns", "idle_ns")]
"""


def measured(code: str, folder: str, rounds: int = 3) -> dict[str, float]:
    """Return the least CPU seconds of new processes that run the code, and their greatest peak in MB."""
    runs = []
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": _BYTECODE.name}  # as if installed
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED.format(code=code.format(folder=folder))],
            capture_output=True, text=True, check=True, env=environment,
        )  # fmt: skip
        line = next(each for each in done.stdout.splitlines() if each.startswith("MEASURED"))
        runs.append([float(word) for word in line.split()[1:]])
    return {
        "cpu_s": round(min(run[0] for run in runs), 3),
        "peak_mb": round(max(run[1] for run in runs)),
    }


def of_shards(ranks: int, events: int) -> dict[str, Any]:
    """Return the row of one size of job."""
    job = SimulatedJob(ranks, _STEPS, kernels=max(events // _STEPS - 9, 5), slow={5: 1.05})
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        spent, rows = 0.0, 0
        for rank in range(ranks):
            table = job.table(rank)
            begin = time.process_time()
            fastprof.ranks.write(table, folder, rank=rank, world_size=ranks)
            spent += time.process_time() - begin
            rows += len(table)
        size = sum(path.stat().st_size for path in Path(folder).glob("*.parquet"))
        imports, parts = measured(_IMPORTS, folder), measured(_PARTS, folder)
        answers = measured(_ANSWERS, folder)
        row = {
            "case": f"{ranks} ranks", "events": rows, "write_ns_per_event": round(spent / rows * 1e9),
            "bytes_per_event": round(size / rows, 2), "imports_cpu_s": imports["cpu_s"],
            "parts_cpu_s": parts["cpu_s"], "parts_peak_mb": parts["peak_mb"], **answers,
        }  # fmt: skip
        if ranks <= 64:
            for path in Path(folder).glob("*.json"):
                path.unlink()  # pandas reads every file of the folder
            peer = measured(_PANDAS, folder)
            row |= {"pandas_cpu_s": peer["cpu_s"], "pandas_peak_mb": peer["peak_mb"], "to_pandas": round(answers["cpu_s"] / peer["cpu_s"], 3)}  # fmt: skip
    return row


def launches(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a launch of each kernel, and link them: HTA reads no kernels without."""
    kernels = [event for event in events if event.get("cat") == "kernel"]
    host = next(event for event in events if event.get("cat") == "user_annotation")
    for number, event in enumerate(kernels, 1):
        event["args"] |= {"device": 0, "stream": 7, "correlation": number, "External id": number}
    return [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": host["pid"], "tid": host["tid"],
         "ts": event["ts"], "dur": 0.5, "args": {"correlation": event["args"]["correlation"], "cbid": 211}}
        for event in kernels
    ]  # fmt: skip


def beside_hta(events: int) -> dict[str, Any]:
    """Return the row of a job of 8 ranks in Kineto JSON, read by HTA and by fastprof, with and without conversion."""
    job = SimulatedJob(8, _STEPS, kernels=max(events // _STEPS - 9, 5), slow={5: 1.05})
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        for rank in range(8):
            path = Path(folder) / f"rank{rank}.json"
            job.table(rank).export(path)
            described = json.loads(path.read_text())
            described["distributedInfo"] = {"rank": rank, "world_size": 8}
            described["traceEvents"] += launches(described["traceEvents"])
            path.write_text(json.dumps(described))
        peer = measured(_HTA, folder, 1)
        first = measured(_ANSWERS, folder, 1)
        again = measured(_ANSWERS, folder)
    return {
        "case": "8 ranks, Kineto JSON", "events": 8 * events, "converted_cpu_s": first["cpu_s"], **again, "hta_cpu_s": peer["cpu_s"],
        "hta_peak_mb": peer["peak_mb"], "to_hta": round(again["cpu_s"] / peer["cpu_s"], 4),
        "converted_to_hta": round(first["cpu_s"] / peer["cpu_s"], 4),
    }  # fmt: skip


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--ranks", type=int, nargs="*", default=[8, 64])
    parser.add_argument("--events", type=int, default=192_000, help="a rank")
    parser.add_argument("--hta-events", type=int, default=20_000)
    options = parser.parse_args()
    rows = []
    for ranks in options.ranks:
        rows.append(of_shards(ranks, options.events))
        print(rows[-1], flush=True)
    try:
        import hta  # noqa: F401
    except ImportError:
        print("HTA: not installed")
    else:
        rows += [beside_hta(options.hta_events)] if options.hta_events else []
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()))
    if options.json:
        with open(options.json, "w") as file:
            file.writelines(json.dumps({"suite": "ranks", **row}) + os.linesep for row in rows)


if __name__ == "__main__":
    main()
