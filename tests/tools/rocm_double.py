# SPDX-License-Identifier: Apache-2.0
"""Builds the doubles of ROCm's libraries (tests/doubles/rocm), and finds AMD's headers, if they are installed."""

from __future__ import annotations

import json
import os
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from cuda_double import genuine_headers, shared_library
from processes import python

# Functions of CUDA's runtime that HIP has under its own prefix.
_FUNCTIONS = (
    "GetDeviceCount", "GetDevice", "SetDevice", "EventCreateWithFlags", "EventRecord", "EventQuery",
    "EventSynchronize", "EventElapsedTime", "EventDestroy", "DeviceSynchronize", "GetErrorString",
    "StreamIsCapturing",
)  # fmt: skip

# Beginning of every program: loads the doubles, with functions that replace HIP.
_HEAD = """
import ctypes, json, os, sys, threading, warnings
warnings.simplefilter("ignore")
import fastprof
from fastprof import ProfilerActivity, profile, record_function
both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
def rows(table, category):
    categories = table.sites.field("category")
    return [row for row in range(len(table)) if categories[table.column("site")[row]] == category]
if os.environ.get("FASTPROF_HIP_LIBRARY"):
    hip = ctypes.CDLL(os.environ["FASTPROF_HIP_LIBRARY"])
    def work(ms, stream=0):
        hip.fake_cudart_work(ctypes.c_void_p(stream), ctypes.c_int64(int(ms * 1e6)))
if os.environ.get("FASTPROF_ROCPROFILER_LIBRARY"):
    gpu = ctypes.CDLL(os.environ["FASTPROF_ROCPROFILER_LIBRARY"])
    def launch(name=b"_Z4gemmPfS_i.kd", device=0, queue=3, ns=200000):
        gpu.fake_launch(ctypes.c_char_p(name), device, ctypes.c_uint64(queue), ctypes.c_uint64(ns))
    def copy(direction, size=4096, ns=10000):
        gpu.fake_copy(direction, ctypes.c_uint64(size), ctypes.c_uint64(ns))
"""


def build_rocprofiler(folder: Path) -> Path:
    """Return the path of the double of librocprofiler-sdk, built into `folder`."""
    return shared_library("rocm/fake_rocprofiler.cpp", folder / "librocprofiler_double.so")


def build_register(folder: Path) -> Path:
    """Return the path of the double of librocprofiler-register in a process where HIP has started."""
    made = folder / "librocprofiler-register.so.0"
    return shared_library("rocm/fake_register.cpp", made, f"-Wl,-soname,{made.name}")


def build_hip(folder: Path) -> Path:
    """Return the path of the double of libamdhip64: that of libcudart under HIP's names."""
    made = folder / "libamdhip64.so.7"
    return shared_library(
        "cuda/fake_cudart.cpp", made, f"-Wl,-soname,{made.name}",
        *(f"-I{path}" for path in genuine_headers()[0].folders),
        *(f"-Dcuda{name}=hip{name}" for name in _FUNCTIONS),
    )  # fmt: skip


def build_streams(folder: Path, *, renamed: bool) -> Path:
    """Return the path of the double of PyTorch's library of streams for HIP. renamed: as up to PyTorch 2.10."""
    made = folder / "libc10_hip.so"
    names = (
        ("cuda", "hip"), ("CUDAStream", "HIPStream"), ("getCurrentCUDAStream", "getCurrentHIPStream"),
    ) if renamed else ()  # fmt: skip
    flags = [f"-D{before}={after}" for before, after in names]
    return shared_library("cuda/fake_c10_cuda.cpp", made, f"-Wl,-soname,{made.name}", *flags)


def amd_headers() -> list[str]:
    """Return the include folders with the genuine headers of rocprofiler-sdk and HIP; empty if there are none.

    ROCM_HEADERS names them (separated by colons); else those of ROCm's folder or its packages for Python.
    """
    folders = os.environ.get("ROCM_HEADERS", "").split(":")
    folders.append(str(Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "include")))
    for package in ("_rocm_sdk_devel", "_rocm_sdk_core"):
        spec = PathFinder.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            folders.append(str(Path(folder, "include")))
    found = [folder for folder in folders if folder and Path(folder).is_dir()]
    header = Path("rocprofiler-sdk", "registration.h")
    return found if any(Path(folder, header).exists() for folder in found) else []


def run(program: str, folder: Path, **environment: str | Path) -> Any:
    """Return what the program prints last, as JSON. environment: more variables, such as the doubles' paths."""
    done = python(
        "-c", _HEAD + program, cwd=folder, check=True, **environment,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])
