# SPDX-License-Identifier: Apache-2.0
"""Count the instructions that fastprof adds to a kernel launch, with callgrind, on the double of libcupti.

``launches.py --program FILE [--json FILE]``: the program is launches.cpp. It runs with N and with 2 N launches, and
the difference is divided by N, so that what a collection costs once is not in the figures. Counted, by phase:

- launch: what runs in the program's launch, on its thread: CUPTI asks `CudaBackend::timestamp` for the time of the
  call's begin and end. fastprof puts no callback on the API and pushes no correlation ids.
- buffers: requesting and taking over buffers, on CUPTI's threads.
- reading: from CUPTI's records to activities, after the recording; stop: from activities to linked rows.

The double's own instructions (which stand for CUPTI's) are not counted. torch.profiler is not beside it: the libkineto in
PyTorch's CPU build has no CUPTI, and a build with it needs PyTorch for CUDA and a GPU (`make gpu-check` times both).
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tools"))
from cuda_double import build_double, genuine_headers

# Phase -> functions whose instructions, with what they call, are its.
_PHASES = {
    "launch": ("CudaBackend::timestamp",),
    "buffers": ("CudaBackend::request_buffer", "CudaBackend::complete_buffer"),
    "reading": ("RecordReader::read", "RecordReader::take"),
    "stop": ("stop_session",),
}


def counted(program: Path, double: Path, launches: int, folder: Path) -> dict[str, int]:
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
    found = dict.fromkeys((*_PHASES, "double"), 0)
    for line in text.splitlines():
        match = re.match(r"\s*([\d,]+) .*?:(.*)", line)
        if match is None:
            continue
        for phase, names in _PHASES.items():
            if any(name + "(" in match[2] for name in names):
                found[phase] += int(match[1].replace(",", ""))
        if "cuptiActivityGetNextRecord" in match[2] and "'2" not in match[2]:
            found["double"] = max(found["double"], int(match[1].replace(",", "")))
    found["reading"] -= found.pop("double")
    return found


def main() -> None:
    """Run, print one JSON object, and append it to the file of --json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--launches", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as folder:
        double = build_double(genuine_headers()[0], Path(folder))
        once, twice = (
            counted(options.program, double, count, Path(folder))
            for count in (options.launches, 2 * options.launches)
        )
    row = {
        "suite": "launches",
        "launches": options.launches,
        **{phase: round((twice[phase] - once[phase]) / options.launches, 1) for phase in _PHASES},
    }
    print(json.dumps(row))
    if options.json is not None:
        with options.json.open("a") as file:
            print(json.dumps(row), file=file)


if __name__ == "__main__":
    main()
