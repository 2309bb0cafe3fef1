# SPDX-License-Identifier: Apache-2.0
"""Libraries of an older and a newer minor ABI share one recorder, in each order, whoever leads."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from compilers import INCLUDE, LIBRARIES, need, run

pytestmark = pytest.mark.compilers

SOURCES = Path(__file__).resolve().parents[2] / "cpp" / "libraries"
MINORS = {"older": 1, "current": 2, "newer": 3}
TIMES = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("abi")


def built(folder: Path, output: str, source: str, *flags: str) -> Path:
    path = folder / output
    if not path.exists():
        run([need("g++"), "-std=c++17", "-O1", f"-I{INCLUDE}", *flags, SOURCES / source,
             "-o", path, *LIBRARIES])  # fmt: skip
    return path


def library(folder: Path, age: str) -> Path:
    minor = f"-DFASTPROF_ABI_MINOR={MINORS[age]}"
    return built(
        folder, f"lib{age}.so", "abi_library.cpp", "-shared", "-fPIC", f'-DNAME="{age}"', minor
    )


def profiler(folder: Path, age: str) -> Path:
    minor = f"-DFASTPROF_ABI_MINOR={MINORS[age]}"
    return built(folder, f"libprofiler-{age}.so", "session_library.cpp", "-shared", "-fPIC", minor)


def recorded(age: str) -> list[str]:
    """What a session has of work(TIMES) in a library of this age where the program leads."""
    lines = [f"s: {age} x{TIMES}", f"s: {age} function x{TIMES}"]
    lines += [f"s: {age} function #{40 + i}" for i in range(TIMES)]
    if age == "newer":
        lines += [f"s: {age} later x{TIMES}", "s: dropped", f"s: cause_9 x{TIMES}"]
    return lines


@pytest.mark.parametrize("order", [*itertools.permutations(MINORS)], ids="-".join)
def test_a_program_that_leads(folder: Path, order: tuple[str, ...]) -> None:
    host = built(folder, "host", "host.cpp")
    opened = [f"open {age} {library(folder, age)}" for age in order]
    worked = [f"work {age} {TIMES}" for age in order]
    script = f"start s {' '.join(opened)} {' '.join(worked)} others stop s"
    lines = run([host, *script.split()], timeout_s=60).splitlines()
    assert sorted(lines) == sorted([line for age in order for line in recorded(age)] + ["done"])


@pytest.mark.parametrize("reader", MINORS)
@pytest.mark.parametrize("order", [*itertools.permutations(MINORS, 2)], ids="-".join)
def test_the_first_library_leads(folder: Path, order: tuple[str, str], reader: str) -> None:
    """In a program without fastprof, with a session of any age."""
    plain = built(folder, "plain", "host.cpp", "-DPLAIN")
    opened = [f"open {age} {library(folder, age)}" for age in order]
    worked = [f"work {age} {TIMES}" for age in order]
    script = (
        f"{' '.join(opened)} leads {order[0]} open p {profiler(folder, reader)} work p 0"
        f" {' '.join(worked)} same {order[1]} p work p 1"
    )
    lines = run([plain, *script.split()], timeout_s=60).splitlines()
    # RecordFunctions run in the leader since minor 2: one that is older has none for others.
    kinds = ("",) if order[0] == "older" else ("", " function")
    names = [f"{age}{kind} x{TIMES}" for age in order for kind in kinds]
    names += [f"newer later x{TIMES}"] if "newer" in order else []
    assert sorted(lines) == sorted([f"{order[0]} leads", f"{order[1]} p shared", *names, "done"])


def test_a_leader_that_is_too_small_is_not_followed(folder: Path) -> None:
    """What we would use of its State is not there: those who can share do so without it."""
    plain = built(folder, "plain", "host.cpp", "-DPLAIN")
    data = bytearray(library(folder, "older").read_bytes())
    magic = b"fastprof\x01state\r\n"
    assert data.count(magic) == 1
    size = data.index(magic) + len(magic) + 4
    data[size : size + 4] = (64).to_bytes(4, "little")
    small = folder / "libsmall.so"
    small.write_bytes(data)
    script = (
        f"open x {small} open a {library(folder, 'current')} open p {profiler(folder, 'current')}"
        f" leads x same x a leads a same a p work p 0 work x 2 work a {TIMES} work p 1"
    )
    lines = run([plain, *script.split()], timeout_s=60).splitlines()
    assert sorted(lines) == sorted(
        ["x leads", "x a apart", "a leads", "a p shared", f"current x{TIMES}",
         f"current function x{TIMES}", "done"]
    )  # fmt: skip


def test_the_layout_is_asserted() -> None:
    """One more field in front of another does not compile."""
    header = (INCLUDE / "fastprof" / "recorder" / "state.hpp").read_text()
    moved = header.replace(
        "  uint64_t session_epoch = 0;", "  uint64_t extra = 0;\n  uint64_t session_epoch = 0;"
    )
    assert moved != header
    program = moved.replace("#pragma once", "") + '\n#include "fastprof/recorder/abi_layout.hpp"\n'
    program = "#define FASTPROF_TEST\n" + program
    done = subprocess.run(
        [need("g++"), "-std=c++17", "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"],
        input=program, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "State is ABI" in done.stderr
