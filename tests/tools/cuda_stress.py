# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the backends of CUDA over their doubles on many threads, plain or with sanitizers.

`python tests/tools/cuda_stress.py [--sanitize address,undefined|thread] [--launches N]` runs them once
without faults and once for each function that can fail; `make sanitize-cuda` does so with both sets of sanitizers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from compilers import LAUNCHER
from cuda_double import ROOT, CudaHeaders, build_double, build_runtime_double, genuine_headers

CUPTI_FUNCTIONS = (
    "cuptiSubscribe", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable", "cuptiActivityFlushAll",
    "cuptiActivityGetNextRecord", "cuptiActivityGetNumDroppedRecords", "cuptiGetCallbackName",
    "cuptiActivityRegisterTimestampCallback", "cuptiSetThreadIdType", "cuptiActivityDisable",
    "cuptiUnsubscribe", "cuptiGetVersion", "cuptiActivityConfigureUnifiedMemoryCounter",
)  # fmt: skip
CUDART_FUNCTIONS = (
    "cudaGetDeviceCount", "cudaGetDevice", "cudaSetDevice", "cudaEventCreateWithFlags",
    "cudaEventRecord", "cudaEventSynchronize", "cudaEventElapsedTime", "cudaDeviceSynchronize",
    "cudaStreamIsCapturing",
)  # fmt: skip


class Stress:
    """The program and the doubles, built into a folder with the same sanitizers."""

    def __init__(self, headers: CudaHeaders, folder: Path, sanitize: str = "") -> None:
        # Without optimisation: g++ takes minutes to optimise what the sanitizers add.
        flags = ("-O0", "-g1", f"-fsanitize={sanitize}") if sanitize else ()
        self.cupti = build_double(headers, folder, flags=flags)
        self.cudart = build_runtime_double(headers, folder, flags=flags)
        self.program = folder / "stress_cuda"
        cuda = ROOT / "csrc" / "backends" / "cuda"
        sources = [p for p in sorted(cuda.glob("*.cpp")) if not p.stem.endswith("_check")]
        sources += [
            ROOT / "csrc/core/device_backend.cpp",
            ROOT / "csrc/core/library_search.cpp",
            ROOT / "tests/doubles/cuda/stress_cuda.cpp",
        ]
        made = [folder / f"{source.stem}.o" for source in sources]
        command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O1", *flags]
        includes = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'include'}"]
        for source, target in zip(sources, made, strict=True):
            subprocess.run(
                [*LAUNCHER, *command, *includes, "-c", str(source), "-o", str(target)],
                check=True,
                timeout=3000,
            )
        subprocess.run(
            [*command, *map(str, made), "-o", str(self.program), "-pthread", "-ldl"],
            check=True, timeout=3000,
        )  # fmt: skip

    def run(self, launches: int = 20000, threads: int = 4, **environment: str) -> str:
        """Return what the program prints; AssertionError if it fails or a sanitizer complains."""
        done = subprocess.run(
            [str(self.program), str(launches), str(threads)],
            env={
                **os.environ,
                "FASTPROF_CUPTI_LIBRARY": str(self.cupti),
                "FASTPROF_CUDART_LIBRARY": str(self.cudart),
                "FAKE_CUPTI_BUFFER_BYTES": "65536",
                "NVTX_INJECTION64_PATH": str(self.cupti),
                "ASAN_OPTIONS": "detect_leaks=0",
                "TSAN_OPTIONS": "halt_on_error=1",
                "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
                **environment,
            },
            capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, f"{environment}: {done.stdout}{done.stderr}"
        return done.stdout.strip()


def main() -> int:
    """Run everything; the exit status is 0 if all is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sanitize", default="")
    parser.add_argument("--launches", type=int, default=20000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stress = Stress(genuine_headers()[0], Path(folder), given.sanitize)
        print(stress.run(given.launches))
        for variable, functions in (
            ("FAKE_CUPTI_FAIL", CUPTI_FUNCTIONS),
            ("FAKE_CUDART_FAIL", CUDART_FUNCTIONS),
        ):
            for function in functions:
                print(function, stress.run(2000, **{variable: f"{function}=700"}), sep=": ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
