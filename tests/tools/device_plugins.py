# SPDX-License-Identifier: Apache-2.0
"""Builds the example of a device plug-in and the plug-in with faults; runs programs that use them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from compilers import INCLUDE, ROOT, compile_and_link, need
from processes import python

EXAMPLE = ROOT / "examples" / "device_plugin"

# Beginning of every program: loads the toy accelerator, whose library is also its plug-in.
_HEAD = """
import ctypes, json, os, sys, threading, warnings
import fastprof
from fastprof import ProfilerActivity, devices, profile, record_function
path = os.environ["PLUGIN"]
def toy():
    npu = ctypes.CDLL(path)
    npu.toy_npu_launch.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint64)
    npu.toy_npu_copy.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_uint64)
    devices.register(path)
    return npu
def rows(table, category):
    categories = table.sites.field("category")
    return [row for row in range(len(table)) if categories[table.column("site")[row]] == category]
def kernels(prof):
    return sorted((e.name, k.name, k.device) for e in prof.events() for k in e.kernels)
both = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
"""


def build_toy(folder: Path) -> Path:
    """Return the library of examples/device_plugin, built into `folder`."""
    made = folder / "libtoy_npu.so"
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fvisibility=hidden"]
    sources = [str(EXAMPLE / name) for name in ("toy_npu.c", "toy_npu_plugin.c")]
    subprocess.run(
        [need("gcc"), *flags, "-shared", "-fPIC", f"-I{INCLUDE}", *sources, "-o", str(made), "-pthread"],
        check=True, timeout=120,
    )  # fmt: skip
    return made


def build_broken(folder: Path) -> Path:
    """Return the plug-in with the fault that BROKEN names, built into `folder`."""
    source = ROOT / "tests" / "doubles" / "plugin" / "broken_plugin.cpp"
    flags = ("-std=c++17", "-O1", "-shared", "-fPIC", f"-I{INCLUDE}")
    return compile_and_link("g++", folder / "libbroken.so", [source], *flags)


def run(plugin: Path, program: str, folder: Path, **environment: str) -> Any:
    """Run a program; return its last line of output, decoded from JSON."""
    done = python("-c", _HEAD + program, cwd=folder, check=True, PLUGIN=str(plugin), **environment)
    return json.loads(done.stdout.splitlines()[-1])
