# SPDX-License-Identifier: Apache-2.0
"""Programs and tools of NVTX and ITT for tests: genuine clients, doubles of collectors, runs under them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastprof import _paths

ROOT = Path(__file__).resolve().parents[2]
DOUBLES = ROOT / "tests" / "doubles"


@lru_cache(maxsize=1)
def all_nvtx_headers() -> tuple[str, ...]:
    """Return the installed include folders with NVIDIA's nvtx3/: of a toolkit, and of packages for Python."""
    places = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")]
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        places += [Path(place, "cu13", "include"), Path(place, "nvtx", "include")]
    return tuple(str(place) for place in places if (place / "nvtx3" / "nvToolsExt.h").exists())


def nvtx_headers() -> str:
    """Return the first folder of all_nvtx_headers(); "" if there is none."""
    return next(iter(all_nvtx_headers()), "")


def build(source: str, made: Path, *flags: str) -> Path:
    """Return `made`, built from tests/doubles/<source>: a program for a .c file, else a library."""
    path = DOUBLES / source
    how = (
        ["gcc", "-O1"]
        if path.suffix == ".c"
        else ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    )
    headers = [f"-I{nvtx_headers()}"] if nvtx_headers() else []
    subprocess.run(
        [*how, *headers, str(path), "-o", str(made), *flags, "-ldl", "-pthread"],
        check=True,
        timeout=300,
    )
    return made


def injected(**variables: str) -> dict[str, str]:
    """Return an environment in which NVTX and ITT pass their calls to fastprof, with `variables` added."""
    library = str(_paths.injection_library())
    return {
        **os.environ,
        "NVTX_INJECTION64_PATH": library,
        "INTEL_LIBITTNOTIFY64": library,
        **variables,
    }


def run_python(program: str, environment: dict[str, str]) -> Any:
    """Run a Python program; return its last line of output, decoded from JSON. Other lines go to the test's output."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    print(done.stderr)
    assert done.returncode == 0, done.stderr
    *rest, last = done.stdout.splitlines()
    print("\n".join(rest))
    return json.loads(last)
