# SPDX-License-Identifier: Apache-2.0
"""The parts of `make wheels` that need no old system: symbol versions, apt sources, what it says when it cannot run."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from compilers import need, run

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
sys.path.insert(0, str(PACKAGING))

import older_glibc  # noqa: E402

X86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="wheels are made on x86-64")


def needed_versions(library: Path) -> set[str]:
    """Return the glibc versions that ``library`` refers to, as binutils reads them."""
    words = run(["objdump", "-T", library]).replace("(", " ").replace(")", " ").split()
    return {word for word in words if word.startswith("GLIBC_")}


@X86_64
def test_relaxed_libraries_refer_to_no_newer_glibc_and_still_load(tmp_path: Path) -> None:
    need("objdump")
    source, library = tmp_path / "f.cpp", tmp_path / "libf.so"
    source.write_text(
        "#include <cmath>\n#include <dlfcn.h>\n#include <pthread.h>\n"
        'extern "C" double f(double x) { static pthread_once_t once = PTHREAD_ONCE_INIT;\n'
        '  pthread_once(&once, [] {}); return std::pow(x, 3) + (dlsym(nullptr, "none") != nullptr); }\n'
    )
    run([need("g++"), "-O1", "-fPIC", "-shared", source, "-o", library, "-lm", "-ldl", "-pthread"])
    before = needed_versions(library)
    if not any(map(older_glibc.too_new, before)):
        pytest.skip(
            f"the C library here has no newer versions of these functions: {sorted(before)}"
        )
    data = bytearray(library.read_bytes())
    dropped = older_glibc.relax(data)
    assert dropped == {version for version in before if older_glibc.too_new(version)}
    library.write_bytes(data)
    after = needed_versions(library)
    assert not any(map(older_glibc.too_new, after))
    assert older_glibc.relax(bytearray(data)) == set()  # nothing is left to do
    f = ctypes.CDLL(str(library)).f
    f.restype, f.argtypes = ctypes.c_double, [ctypes.c_double]
    assert f(3.0) == 27.0


def test_versions_after_2_28_are_too_new() -> None:
    assert [v for v in ("GLIBC_2.2.5", "GLIBC_2.28", "GLIBC_2.29", "GLIBC_2.4", "GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR")
            if older_glibc.too_new(v)] == ["GLIBC_2.29", "GLIBC_ABI_DT_RELR"]  # fmt: skip
    assert older_glibc.elf_hash(b"GLIBC_2.2.5") == 0x09691A75
    assert older_glibc.relax(bytearray(b"#!/bin/sh\n")) == set()


def test_a_machine_without_a_compiler_is_told_why(tmp_path: Path) -> None:
    command = [sys.executable, str(PACKAGING / "wheels.py"), "--out", str(tmp_path / "dist")]
    environment = {**os.environ, "PATH": str(tmp_path)}
    for options, status, prefix in (([], 1, "wheels.py: "), (["--optional"], 0, "SKIPPED: ")):
        done = subprocess.run(
            [*command, *options], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == status
        assert done.stderr.startswith(prefix + "make wheels needs g++ on x86-64")
    assert not (tmp_path / "dist").exists()
