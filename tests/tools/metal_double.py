# SPDX-License-Identifier: Apache-2.0
"""Builds the Metal backend (csrc/backends/metal/*.mm) with clang and GNUstep on the double of Apple's frameworks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from compilers import LAUNCHER
from processes import python

ROOT = Path(__file__).resolve().parents[2]
DOUBLES = ROOT / "tests" / "doubles" / "metal"
BACKEND = ROOT / "csrc" / "backends" / "metal"
# Of Debian and Ubuntu; `.ci/run` installs them.
PACKAGES = "clang libgnustep-base-dev libblocksruntime-dev"

# GCC's Objective-C runtime: it has no automatic reference counting, and clang's exceptions of Objective-C++ need
# a function of ours (cxx_personality.cpp), with which @try is not possible.
_LANGUAGE = (
    "-x", "objective-c++", "-fblocks", "-fobjc-runtime=gcc", "-fconstant-string-class=NSConstantString",
    "-fexceptions", "-fno-objc-exceptions", "-DGNUSTEP=1", "-DGNUSTEP_BASE_LIBRARY=1", "-DGNU_RUNTIME=1",
)  # fmt: skip
_COMMON = (
    "-std=c++17", "-fPIC", "-g", "-O0", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden",
    f"-I{ROOT / 'csrc' / 'include'}", f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'tests' / 'cpp'}", f"-I{DOUBLES}",
)  # fmt: skip


def need(sanitizer: str = "") -> None:
    """Skip the test unless clang, GNUstep and the runtime of blocks are installed, and the sanitizer's library."""
    reason = _missing(sanitizer)
    if reason:
        pytest.skip(reason)


@cache
def _missing(sanitizer: str) -> str:
    if shutil.which("clang++") is None or shutil.which("gcc") is None:
        return f"the Metal backend is built with clang: apt-get install {PACKAGES}"
    for header in (_gnustep() / "Foundation" / "Foundation.h", Path("/usr/include/Block.h")):
        if not header.exists():
            return f"the Metal backend needs {header.name} of GNUstep or of blocks: apt-get install {PACKAGES}"
    if sanitizer:
        source = "int main() { return 0; }"
        done = subprocess.run(
            ["clang++", f"-fsanitize={sanitizer}", "-x", "c++", "-", "-o", os.devnull],
            input=source, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            return f"clang has no library of the sanitizer {sanitizer}: apt-get install libclang-rt-dev"
    return ""


def build_program(folder: Path, *, sanitizer: str = "") -> Path:
    """Return the path of the C++ checks of the backend, built into folder beside libfake_torch.so; 10 to 60 s."""
    flags = _sanitizer_flags(sanitizer)
    objects = _backend_objects(folder, flags)
    checks = _compile(ROOT / "tests" / "metal" / "backend_checks.cpp", folder, flags)
    # Without the sanitizer, as libtorch is: the backend calls its functions through pointers of other types.
    torch = _compile(DOUBLES / "fake_torch.mm", folder, ())
    _run(["clang++", "-shared", torch, "-o", folder / "libfake_torch.so"])
    program = folder / "backend_checks"
    _run(["clang++", *flags, "-rdynamic", *objects, checks, "-o", program, *_libraries()])
    return program


def build_library(folder: Path) -> Path:
    """Return the path of the backend as a library for FASTPROF_METAL_LIBRARY, with the double in it."""
    objects = _backend_objects(folder, ())
    objects += [
        _compile(DOUBLES / source, folder, ()) for source in ("platform_entry.cpp", "embedder.cpp")
    ]
    library = folder / "libfastprof_metal_double.so"
    _run(["clang++", "-shared", "-Wl,-z,defs", *objects, "-o", library, *_libraries()])
    return library


def build_example(folder: Path) -> Path:
    """Return the path of examples/metal_compute.mm, built as its head says, but on the double."""
    objects = _backend_objects(folder, ())
    example = _compile(ROOT / "examples" / "metal_compute.mm", folder, ())
    program = folder / "metal_compute"
    _run(["clang++", *objects, example, "-o", program, *_libraries()])
    return program


def run(library: Path, program: str, folder: Path, **environment: str) -> tuple[Any, str]:
    """Run a Python program with the double; return what it prints last, as JSON, and its standard error."""
    done = python(
        "-c", _HEAD + program, cwd=folder, check=True, FASTPROF_METAL_LIBRARY=str(library), **environment,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


# Beginning of every program: loads the double, and defines the work of a program that uses Metal directly.
_HEAD = """
import ctypes, json, os, sys, threading
import fastprof
from fastprof import ProfilerActivity, profile, record_function
gpu = ctypes.CDLL(os.environ["FASTPROF_METAL_LIBRARY"])
gpu.fake_metal_new_queue.restype = ctypes.c_void_p
gpu.fake_metal_take_log.restype = ctypes.c_char_p
def take_log():
    return gpu.fake_metal_take_log().decode().splitlines()
def run_ms(gpu_ms, kernel_ms=0.1):
    gpu.fake_metal_run_ms(ctypes.c_double(gpu_ms), ctypes.c_double(kernel_ms))
queue = ctypes.c_void_p(gpu.fake_metal_new_queue(b"main queue"))
def commit(label=b"work", wait=True):
    gpu.fake_metal_commit(queue, label, int(wait))
"""


def _backend_objects(folder: Path, flags: Sequence[str]) -> list[Path]:
    sources = [
        BACKEND / "metal_platform.mm",
        BACKEND / "commit_observation.mm",
        BACKEND / "torch_stream.cpp",
        DOUBLES / "fake_metal.mm",
        DOUBLES / "fake_compute.mm",
        DOUBLES / "cxx_personality.cpp",
    ]
    return [_compile(source, folder, flags) for source in sources]


def _compile(source: Path, folder: Path, flags: Sequence[str]) -> Path:
    made = folder / f"{source.name}.o"
    language = [*_LANGUAGE, *_objc_includes()] if source.suffix == ".mm" else ["-x", "c++"]
    _run([*LAUNCHER, "clang++", *language, *_COMMON, *flags, "-c", source, "-o", made])
    return made


def _sanitizer_flags(sanitizer: str) -> tuple[str, ...]:
    if not sanitizer:
        return ()
    return (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


def _objc_includes() -> list[str]:
    # libobjc's headers lie among GCC's own, which come last: clang has its own of the others.
    return [
        "-isystem", str(DOUBLES / "apple"), "-isystem", str(_gnustep()), "-idirafter", _gcc_file("include"),
    ]  # fmt: skip


def _libraries() -> list[str]:
    # Blocks first: GNUstep has a _Block_copy of its own that does not understand clang's blocks.
    return ["-lBlocksRuntime", "-lgnustep-base", _gcc_file("libobjc.so"), "-pthread", "-ldl"]


def _gnustep() -> Path:
    return Path("/usr/include/GNUstep")


@cache
def _gcc_file(name: str) -> str:
    return subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, " ".join(map(str, command)) + "\n" + done.stderr
