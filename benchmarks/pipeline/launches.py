# SPDX-License-Identifier: Apache-2.0
"""Count the instructions that collecting adds to a kernel launch, with callgrind, on the double of libcupti.

``launches.py --program FILE [--kineto FOLDER] [--json FILE]``: the program is launches.cpp. It runs with N and with
2 N launches, and the difference is divided by N, so that what a collection costs once is not in the figures. Phases:

- launch: what runs in the program's launch, on its thread. CUPTI asks for the time of the call's begin and end;
  fastprof puts no callback on the API and pushes no correlation ids.
- buffers: requesting and taking over buffers, on CUPTI's threads.
- reading: from CUPTI's records to activities, after the recording; stop: from activities to linked rows.

With --kineto, a checkout of https://github.com/pytorch/kineto with its submodules, libkineto is built with CUPTI
against the same headers (minutes, once; kept in build/kineto) and counted in the same way, called as torch.profiler
calls it: benchmarks/peers/kineto_launches.cpp. PyTorch's CPU build contains it without CUPTI. Its reading and its stop are
one phase. PyTorch's own work, for its ops and for what it makes of libkineto's list, is not counted.

The double's own instructions (which stand for CUPTI's) are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tools"))
from cuda_double import ROOT, CudaHeaders, build_double, genuine_headers

Phases = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
# Phase -> functions whose instructions, with what they call, are its; functions of the double among these.
_FASTPROF: Phases = {
    "launch": (("CudaBackend::timestamp(",), ()),
    "buffers": (("CudaBackend::request_buffer(", "CudaBackend::complete_buffer("), ()),
    "reading": (("RecordReader::read(", "RecordReader::take("), ("cuptiActivityGetNextRecord",)),
    "stop": (("stop_session(",), ()),
}
_KINETO: Phases = {
    "launch": (
        ("ActivityProfilerProxy::pushCorrelationId(", "ActivityProfilerProxy::popCorrelationId(",
         "configureCuptiTimestampSource("),
        ("cuptiActivityPushExternalCorrelationId", "cuptiActivityPopExternalCorrelationId"),
    ),
    "buffers": (("::bufferRequestedTrampoline(", "::bufferCompletedTrampoline("), ()),
    "reading and stop": (("stop_trace(",), ("cuptiActivityGetNextRecord",)),
}  # fmt: skip


def counted(
    program: Path, double: Path, launches: int, folder: Path, phases: Phases
) -> dict[str, int]:
    """Return the instructions of each phase."""
    out = folder / "callgrind.out"
    subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, str(launches)],
        env={**os.environ, "FASTPROF_CUPTI_LIBRARY": str(double)},
        check=True, capture_output=True,
    )  # fmt: skip
    text = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", out],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    rows = [
        (int(match[1].replace(",", "")), match[2])
        for match in (re.match(r"\s*([\d,]+) .*?:(.*)", line) for line in text.splitlines())
        if match is not None
    ]

    def of(names: tuple[str, ...]) -> int:
        # A function that calls itself has a row more, with a mark.
        return sum(
            count
            for count, function in rows
            if any(name in function for name in names) and "'2" not in function
        )

    return {phase: of(whole) - of(double_s) for phase, (whole, double_s) in phases.items()}


def build_kineto(checkout: Path, headers: CudaHeaders, double: Path) -> Path:
    """Return the program that launches under libkineto, linked with the double. Objects are kept in build/kineto."""
    library, made = checkout / "libkineto", ROOT / "build" / "kineto"
    made.mkdir(parents=True, exist_ok=True)
    listed: dict[str, Any] = {}
    exec((library / "libkineto_defs.bzl").read_text(), listed)
    sources = [library / name for name in listed["get_libkineto_cupti_srcs"]()]
    sources.append(ROOT / "benchmarks" / "peers" / "kineto_launches.cpp")
    folders = ["include", "src", ".", "third_party/dynolog_headers", "third_party/fmt/include",
               "third_party/dynolog_headers/dynolog/src/ipcfabric", "third_party/json/include"]  # fmt: skip
    flags = [
        "-std=c++20",
        "-O2",
        "-DKINETO_NAMESPACE=libkineto",
        "-DHAS_CUPTI",
        "-DFMT_HEADER_ONLY",
    ]
    flags += [f"-I{library / folder}" for folder in folders]
    flags += [f"-I{folder}" for folder in headers.folders]

    def compiled(source: Path) -> Path:
        target = made / f"{source.stem}.o"
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["g++", *flags, "-c", source, "-o", target], check=True)
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, sources))
    program = made / "kineto_launches"
    subprocess.run(
        ["g++", *objects, double, f"-Wl,-rpath,{double.parent}", "-o", program, "-ldl", "-pthread"],
        check=True,
    )
    return program


def main() -> None:
    """Run, print one JSON object, and append it to the file of --json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--kineto", type=Path, help="a checkout of pytorch/kineto")
    parser.add_argument("--launches", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: apt-get install valgrind")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        headers = genuine_headers()[0]
        double = build_double(headers, folder)
        programs = [("fastprof", options.program, _FASTPROF)]
        if options.kineto is not None:
            programs.append(("kineto", build_kineto(options.kineto, headers, double), _KINETO))
        for profiler, program, phases in programs:
            once, twice = (
                counted(program, double, count, folder, phases)
                for count in (options.launches, 2 * options.launches)
            )
            each = {
                phase: round((twice[phase] - once[phase]) / options.launches, 1) for phase in phases
            }
            rows.append(
                {"suite": "launches", "profiler": profiler, "launches": options.launches, **each}
            )
    for row in rows:
        print(json.dumps(row))
        if options.json is not None:
            with options.json.open("a") as file:
                print(json.dumps(row), file=file)


if __name__ == "__main__":
    main()
