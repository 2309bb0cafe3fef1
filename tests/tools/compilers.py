# SPDX-License-Identifier: Apache-2.0
"""The C++ compilers of this machine. Tests of a missing compiler are skipped, with the reason.

Objects come from a compiler cache if CMAKE_CXX_COMPILER_LAUNCHER names one, as in CMake's builds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include"
COMPILERS = ("g++", "clang++")
STANDARDS = ("c++17", "c++20", "c++23")
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
BARE = ("-fno-exceptions", "-fno-rtti")
LIBRARIES = ("-pthread", "-ldl")
_LAUNCHER = shutil.which(os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER", ""))
LAUNCHER = [_LAUNCHER] if _LAUNCHER else []
EITHER_COMPILER = pytest.mark.parametrize("compiler", COMPILERS)


def run(command: Sequence[str | Path], *, cwd: Path | None = None, timeout_s: float = 300) -> str:
    """Run a command and return its standard output; on failure, raise with both of its streams."""
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=timeout_s
    )
    if result.returncode != 0:
        line = " ".join(str(part) for part in command)
        pytest.fail(f"{line}\nexit status {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def need(tool: str) -> str:
    """Return the path of a program, or skip the test, naming it."""
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is not installed")
    return path


@cache
def accepts(compiler: str, flag: str) -> bool:
    """Whether the compiler knows a flag."""
    result = subprocess.run(
        [compiler, flag, "-x", "c++", "-fsyntax-only", "-"],
        input="",
        capture_output=True,
        text=True,
    )
    return result.returncode == 0


def standard_flag(compiler: str, standard: str) -> str:
    """Return the flag for a standard in this compiler's spelling, or skip the test."""
    for name in (standard, {"c++23": "c++2b", "c++20": "c++2a"}.get(standard, standard)):
        if accepts(need(compiler), f"-std={name}"):
            return f"-std={name}"
    pytest.skip(f"{compiler} has no {standard}")


def compile_and_link(compiler: str, output: Path, sources: Sequence[Path], *flags: str) -> Path:
    """Make a program or library of sources and objects, or one object with ``-c``; return it.

    Compiler caches keep objects of one source each, so this compiles each source alone and then links. A source is
    given by its name in its folder, since caches compare what ``__FILE__`` may be.
    """
    # Flags of either command are given to both; g++ ignores a -Wno- that it does not know.
    command = [need(compiler), "-Wno-unused-command-line-argument", *flags]
    if "-c" in flags:
        (source,) = sources
        run([*LAUNCHER, *command, source.name, "-o", output], cwd=source.parent)
        return output
    objects = []
    for source in sources:
        if source.suffix == ".cpp":
            made = output.with_name(f"{output.name}-{source.stem}.o")
            run([*LAUNCHER, *command, "-c", source.name, "-o", made], cwd=source.parent)
            objects.append(made)
        else:
            objects.append(source)
    run([*command, *objects, "-o", output, *LIBRARIES])
    return output


def build(
    compiler: str,
    output: Path,
    sources: Sequence[Path],
    *,
    flags: Sequence[str] = (),
    standard: str = "c++17",
    include: Path = INCLUDE,
) -> Path:
    """Compile and link ``sources`` against the headers with strict warnings; return the program or library."""
    given = (standard_flag(compiler, standard), *STRICT, *flags, f"-I{include}")
    return compile_and_link(compiler, output, sources, *given)
