# SPDX-License-Identifier: Apache-2.0
"""Build and run the benchmarks; print tables and write ``benchmarks/results/<name>.json``.

``run.py [hot_path|pipeline ...] [--rounds N] [--no-save] [--wheel FILE]``: runs the named suites, or all if
none is named (without the torch suites if torch is not installed, and without the suite wheel if there is no
--wheel). Compare ratios within one run: absolute times depend on the machine and its other load.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "bench"
sys.path.insert(0, str(HERE))

from harness.machine import facts  # noqa: E402
from harness.peers import run_peers  # noqa: E402
from harness.rows import write_results  # noqa: E402

Rows = list[dict[str, Any]]


def build(*targets: str) -> None:
    """Configure and build the benchmark programs."""
    subprocess.run(
        ["cmake", "-S", ROOT, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release", "-DFASTPROF_BUILD_BENCHMARKS=ON",
         "-DFASTPROF_BUILD_TESTS=OFF", "-DFASTPROF_HEADER_CHECKS=OFF", "-DFASTPROF_BUILD_INJECTION=ON"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    subprocess.run(
        ["cmake", "--build", BUILD, "-j", "2", "--target", *targets],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def program(name: str) -> Path:
    """Return the path of a built executable or module."""
    return next(p for p in (BUILD / "benchmarks").rglob(name) if p.is_file())


def json_lines(path: Path) -> Rows:
    """Read the rows written by a benchmark program; empty if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def growing(rounds: int) -> Rows:
    """Measure the first session of new processes: scopes in memory that the process has never touched.

    The floor of a row is the limit plus, on one CPU, the kernel's page-fault cost.
    """
    rows: Rows = []
    for label, extra in (
        ("growing, 10^7 without reuse", []),
        ("growing, 10^7 without reuse, one CPU", ["--one-cpu"]),
        ("first session, 10^6", ["1000000"]),
        ("first session, 10^6, after warm_up()", ["--warm-up", "1000000"]),
    ):
        runs = []
        for _ in range(rounds):
            out = subprocess.run(
                [program("growing"), *extra], check=True, capture_output=True, text=True
            ).stdout.split()
            runs.append([float(word) for word in out])
        floors = [limit + (fault if "--one-cpu" in extra else 0) for limit, _, fault in runs]
        ns = [run[1] for run in runs]
        ratios = [run[1] / run[0] for run in runs]
        to_floor = [scope / floor for scope, floor in zip(ns, floors, strict=True)]
        row = {
            "suite": "growing", "case": label, "min_ns": min(ns), "median_ns": statistics.median(ns),
            "limit_ns": min(run[0] for run in runs), "fault_ns": statistics.median(run[2] for run in runs),
            "min_ratio": min(ratios), "median_ratio": statistics.median(ratios), "max_ratio": max(ratios),
            "median_ratio_to_floor": statistics.median(to_floor), "rounds": rounds,
        }  # fmt: skip
        rows.append(row)
        print(
            f"{label:44} {row['min_ns']:10.2f} {row['median_ns']:10.2f} {row['min_ratio']:8.3f} {row['median_ratio']:8.3f}"
            f"   faults {row['fault_ns']:.2f} ns, x floor {row['median_ratio_to_floor']:.3f}, worst {row['max_ratio']:.2f}"
        )
    return rows


def hot_path(rounds: int) -> Rows:
    """Run the C++ hot path: scopes off and on, in an executable and a dlopened library, and growing."""
    build("hot_path", "hot_path_library", "growing")
    out = BUILD / "hot_path.jsonl"
    out.unlink(missing_ok=True)
    subprocess.run(
        [
            program("hot_path"),
            "--rounds",
            str(rounds),
            "--json",
            out,
            "--library",
            program("libhot_path_library.so"),
        ],
        check=True,
    )
    run_peers(BUILD, out, rounds)
    return json_lines(out) + growing(rounds)


def program_rows(name: str, suite: str, rounds: int) -> Rows:
    """Build and run a C++ benchmark and return the rows it writes."""
    build(name)
    out = BUILD / f"{suite}.jsonl"
    out.unlink(missing_ok=True)
    subprocess.run(
        [program(name), "--rounds", str(rounds), "--json", out, "--folder", BUILD], check=True
    )
    return json_lines(out)


def pipeline(rounds: int) -> Rows:
    """Measure what follows a stop in C++: summary and trace writers with 10^6 ranges."""
    return program_rows("outputs", "pipeline", rounds)


def spill(rounds: int) -> Rows:
    """Run threads at full speed with bounds that hold a fraction of their records."""
    return program_rows("spill", "spill", rounds)


def annotations(rounds: int) -> Rows:
    """Measure ranges received from NVTX beside our own, and ranges emitted beside a bare push and pop."""
    build("annotations", "annotations_collector", "fastprof_injection")
    out = BUILD / "annotations.jsonl"
    out.unlink(missing_ok=True)
    injection = next((BUILD / "csrc").rglob("libfastprof_injection.so"))
    collector = program("libannotations_collector.so")
    subprocess.run(
        [program("annotations"), "--rounds", str(rounds), "--json", out, "--injection", injection,
         "--collector", collector],
        check=True,
    )  # fmt: skip
    return json_lines(out)


def native_sampling(rounds: int) -> Rows:
    """Measure what samples of its native stacks cost a thread."""
    build("native_sampling")
    out = BUILD / "native_sampling.jsonl"
    out.unlink(missing_ok=True)
    subprocess.run([program("native_sampling"), "--rounds", str(rounds), "--json", out], check=True)
    return json_lines(out)


def launches(rounds: int) -> Rows:
    """Count the instructions that collecting adds to a kernel launch. Rounds make no difference.

    KINETO names a checkout of pytorch/kineto, which is then counted beside fastprof.
    """
    build("launches")
    kineto = os.environ.get("KINETO")
    beside = ("--kineto", kineto) if kineto else ()
    return script("pipeline/launches.py", "--program", str(program("launches")), *beside)


def script(path: str, *arguments: str) -> Rows:
    """Run a Python benchmark with this interpreter and return its rows."""
    out = BUILD / "script.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    subprocess.run([sys.executable, HERE / path, "--json", out, *arguments], check=True)
    return json_lines(out)


SUITES: dict[str, Callable[[int], Rows]] = {
    "hot_path": hot_path,
    "pipeline": pipeline,
    "spill": spill,
    "annotations": annotations,
    "python_ranges": lambda rounds: script("hot_path/python_ranges.py", "--rounds", str(rounds)),
    "python_calls": lambda rounds: script("hot_path/python_calls.py", "--rounds", str(rounds)),
    "aggregation": lambda rounds: program_rows("aggregation", "aggregation", rounds),
    "always_on": lambda rounds: script("hot_path/always_on.py", "--rounds", str(rounds)),
    "own_cost": lambda rounds: script("hot_path/own_cost.py", "--rounds", str(rounds)),
    "fresh_process": lambda rounds: script("hot_path/fresh_process.py", "--rounds", str(rounds)),
    "native_sampling": native_sampling,
    "sampling": lambda rounds: script("hot_path/sampling.py", "--rounds", str(min(rounds, 9))),
    "samplers": lambda rounds: script("hot_path/samplers.py", "--rounds", str(min(rounds, 5))),
    "tasks": lambda rounds: script("hot_path/tasks.py", "--rounds", str(rounds)),
    "import_time": lambda rounds: script("pipeline/import_time.py", "--rounds", str(rounds)),
    "compile_time": lambda rounds: script(
        "compile_time/compile_time.py", "--rounds", str(min(rounds, 5))
    ),
    "torch_ops": lambda rounds: script("hot_path/torch_ops.py", "--rounds", str(rounds)),
    "torch_agreement": lambda rounds: script("hot_path/torch_agreement.py"),
    "analysis": lambda rounds: script("pipeline/analysis.py"),
    "device": lambda rounds: script("pipeline/device.py", "--rounds", str(min(rounds, 3))),
    "evaluation": lambda rounds: script("pipeline/evaluation.py"),
    "launches": launches,
    "load": lambda rounds: script("pipeline/load.py", "--rounds", str(min(rounds, 3))),
    "memory": lambda rounds: script("pipeline/memory.py"),
    "ranks": lambda rounds: script("ranks/ranks.py"),
    "report": lambda rounds: script("pipeline/report.py", "--rounds", str(min(rounds, 5))),
    "torch_events": lambda rounds: script("pipeline/torch_events.py"),
}


def main() -> int:
    """Run the suites given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}, wheel")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--no-save", action="store_true", help="leave benchmarks/results as it is")
    parser.add_argument(
        "--wheel",
        type=Path,
        metavar="FILE",
        help="of the suite wheel: compared with the local build",
    )
    options = parser.parse_args()
    suites = dict(SUITES)
    if options.wheel is not None:
        suites["wheel"] = lambda rounds: script(
            "hot_path/wheel_ranges.py", "--rounds", str(rounds), str(options.wheel)
        )
    elif "wheel" in options.suites:
        parser.error("the suite wheel needs --wheel FILE (make wheels writes it into dist/)")
    everything = [name for name in suites if find_spec("torch") or not name.startswith("torch_")]
    for name in options.suites or everything:
        machine = facts()
        rows = suites[name](options.rounds)
        if not options.no_save:
            path = HERE / "results" / f"{name}.json"
            path.parent.mkdir(exist_ok=True)
            write_results(path, {"machine": machine, "rows": rows})
            print(f"written to {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
