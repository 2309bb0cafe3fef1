# SPDX-License-Identifier: Apache-2.0
"""Builds the double of libcupti (tests/doubles/cuda), against NVIDIA's genuine headers if they are installed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from compilers import INCLUDE, compile_and_link
from processes import python

ROOT = Path(__file__).resolve().parents[2]
# Names of the newest records by version of CUDA, for the double and for tests/abi.
_RECORDS = {
    "11": ("Kernel8", "Memcpy5", "Memset4", "Memory3", "UnifiedMemoryCounter2", "CudaEvent", "GraphTrace"),
    "12": ("Kernel9", "Memcpy6", "Memset4", "Memory4", "UnifiedMemoryCounter3", "CudaEvent2", "GraphTrace2"),
    "13.0": ("Kernel10", "Memcpy6", "Memset4", "Memory4", "UnifiedMemoryCounter3", "CudaEvent2", "GraphTrace2"),
    "13": ("Kernel13", "Memcpy7", "Memset5", "Memory4", "UnifiedMemoryCounter3", "CudaEvent3", "GraphTrace2"),
}  # fmt: skip
_PREFIXES = ("KERNEL", "MEMCPY", "MEMSET", "MEMORY", "UNIFIED", "EVENT", "GRAPH", "PEER")


# Beginning of every program: loads the double, with functions that replace CUDA's runtime.
_HEAD = """
import ctypes, json, os, sys, threading
import fastprof
from fastprof import ProfilerActivity, profile, record_function
gpu = ctypes.CDLL(os.environ["FASTPROF_CUPTI_LIBRARY"])
launched = []
def launch(name=b"_Z4gemmPfS_i", device=0, stream=7, time=20000):
    launched.append(gpu.fake_launch(ctypes.c_char_p(name), device, stream, ctypes.c_uint64(time)))
    return launched[-1]
def copy(kind=1, source=1, to=3, size=4096, device=0, stream=7, time=10000):
    return gpu.fake_memcpy(kind, source, to, ctypes.c_uint64(size), device, stream,
                           ctypes.c_uint64(time))
def rows(table, category):
    categories = table.sites.field("category")
    return [row for row in range(len(table)) if categories[table.column("site")[row]] == category]
both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
"""


@dataclass(frozen=True)
class CudaHeaders:
    """A set of NVIDIA's headers. folders: for -I. api: the version of CUPTI that they define."""

    name: str
    api: int
    folders: tuple[str, ...]

    @property
    def version(self) -> str:
        """Version of CUDA, as "12.9"; "12" for one whose number of CUPTI is not known here."""
        if self.api > 1000:  # MMmmpp since CUDA 13
            return f"{self.api // 10000}.{self.api // 100 % 100}"
        return {18: "11.8", 28: "12.9"}.get(self.api, "11" if self.api <= 18 else "12")

    @property
    def major(self) -> int:
        """Major version of CUDA."""
        return int(self.version.split(".")[0])

    @property
    def flags(self) -> list[str]:
        """Options of the compiler: include folders, and the records of this version."""
        records = _RECORDS.get(self.version) or _RECORDS[str(self.major)]
        names = list(zip(_PREFIXES, (*records, "MemcpyPtoP4"), strict=True))
        defines = [
            f"-D{prefix}_{record}=CUpti_Activity{name}"
            for prefix in ("FAKE", "FASTPROF_GENUINE")
            for record, name in names
        ]
        return [f"-I{folder}" for folder in self.folders] + defines


@lru_cache(maxsize=1)
def genuine_headers() -> tuple[CudaHeaders, ...]:
    """Return the installed sets of headers, one per version: of the toolkit, and of NVIDIA's packages for Python."""
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")
    spec = importlib.util.find_spec("nvidia")
    roots = list(map(Path, spec.submodule_search_locations or ())) if spec is not None else []
    new = [root / "cu13" / "include" for root in [*roots, _folder_of("13_0") / "nvidia"]]
    # The packages of CUDA 12 and 11 have no crt/host_defines.h; that of CUDA 13 fits.
    crt = tuple(str(folder) for folder in (*new, toolkit) if (folder / "crt").exists())
    candidates = [("toolkit", (toolkit,)), *(("cu13", (folder,)) for folder in new)]
    for name, root in [*(("cu12", r) for r in roots), ("cu11", _folder_of("11") / "nvidia")]:
        candidates.append(
            (name, (root / "cuda_cupti" / "include", root / "cuda_runtime" / "include"))
        )
    found: dict[str, CudaHeaders] = {}
    for name, folders in candidates:
        if (folders[0] / "cupti.h").exists() and (folders[-1] / "cuda.h").exists():
            own = tuple(map(str, folders))
            headers = CudaHeaders(name, _api(folders[0]), own if len(own) == 1 else own + crt)
            found.setdefault(headers.version, headers)
    return tuple(found.values())


def _folder_of(version: str) -> Path:
    """Return the folder with NVIDIA's packages of an older version, which may not exist.

    Packages of all versions install into the same folder, so an environment has one version. CUDA_11_PACKAGES and
    CUDA_13_0_PACKAGES name separate folders, made by `pip install --no-deps --target` with
    requirements_cuda11.txt and requirements_cuda13_0.txt.
    """
    return Path(os.environ.get(f"CUDA_{version}_PACKAGES", ROOT / "build" / f"cuda{version}"))


def _api(folder: Path) -> int:
    """Return the version of CUPTI that the headers in a folder define: 18 in CUDA 11.8, 28 in 12.9, then MMmmpp."""
    text = (folder / "cupti_version.h").read_text()
    return int(re.findall(r"^#define\s+CUPTI_API_VERSION\s+(\d+)", text, re.M)[0])


def build_runtime_double(
    headers: CudaHeaders, folder: Path, *, flags: tuple[str, ...] = ()
) -> Path:
    """Return the path of the double of libcudart, built into `folder`. flags: more of the compiler's."""
    includes = [f"-I{path}" for path in headers.folders]
    made = folder / "libcudart_double.so"
    return shared_library("cuda/fake_cudart.cpp", made, *includes, *flags)


def build_driver_double(folder: Path) -> Path:
    """Return the path of the double of the driver, built into `folder`. A process that loads it has device limits."""
    made = folder / "libcuda.so.1"
    return shared_library("cuda/fake_driver.cpp", made, f"-Wl,-soname,{made.name}")


def build_torch_streams(folder: Path) -> Path:
    """Return the path of the double of PyTorch's library of streams, built into `folder`."""
    made = folder / "libc10_cuda.so"
    return shared_library("cuda/fake_c10_cuda.cpp", made, f"-Wl,-soname,{made.name}")


def shared_library(source: str, made: Path, *flags: str) -> Path:
    """Return `made`, a library built from tests/doubles/<source>."""
    includes = [f"-I{ROOT / 'csrc'}", f"-I{INCLUDE}"]
    own = ("-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", *flags, *includes)
    return compile_and_link("g++", made, [ROOT / "tests" / "doubles" / source], *own)


def build_double(
    headers: CudaHeaders,
    folder: Path,
    *,
    defines: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
) -> Path:
    """Return the path of the double of libcupti, built into `folder`; 5 to 20 s."""
    chosen = [*headers.flags, *(f"-D{name}" for name in defines), *flags]
    return shared_library("cuda/fake_cuda.cpp", folder / "libcupti_double.so", *chosen)


def run(double: Path, program: str, tmp_path: Path, **environment: str) -> Any:
    """Return what the program prints last, as JSON."""
    done = python(
        "-c", _HEAD + program, cwd=tmp_path, check=True, FASTPROF_CUPTI_LIBRARY=str(double), **environment,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])
