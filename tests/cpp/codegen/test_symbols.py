# SPDX-License-Identifier: Apache-2.0
"""An annotated library exports nothing of ours and nothing that would keep it from being unloaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from compilers import EITHER_COMPILER, build, need, run

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.compilers


def symbols(library: Path, *flags: str) -> list[tuple[str, str]]:
    """Return (type letter, demangled name) of each defined symbol."""
    lines = run([need("nm"), "-C", "--defined-only", *flags, library]).splitlines()
    return [
        (parts[1], parts[2])
        for parts in (line.split(maxsplit=2) for line in lines)
        if len(parts) == 3
    ]


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@EITHER_COMPILER
def test_a_library_exports_nothing_of_ours(tmp_path: Path, compiler: str, level: str) -> None:
    flags = [level, "-shared", "-fPIC", "-fvisibility=default"]
    library = build(compiler, tmp_path / "annotated.so", [HERE / "library.cpp"], flags=flags)
    exported = symbols(library, "-D")
    assert any(name.startswith("library_entry(") for _, name in exported)  # the list is not empty
    assert [entry for entry in exported if "fastprof" in entry[1]] == []

    everything = symbols(library)
    assert any("fastprof" in name for _, name in everything)  # neither is this one
    assert [entry for entry in everything if entry[0] == "u" and "fastprof" in entry[1]] == []


@EITHER_COMPILER
def test_no_initial_exec_thread_local_in_a_library(tmp_path: Path, compiler: str) -> None:
    """Such a block is taken from a small fixed surplus: after some dozen libraries dlopen fails."""
    flags = ["-O2", "-shared", "-fPIC"]
    library = build(compiler, tmp_path / "annotated.so", [HERE / "library.cpp"], flags=flags)
    readelf = need("readelf")
    assert "STATIC_TLS" not in run([readelf, "-d", library])
    relocations = run([readelf, "-r", "-W", library])
    assert "R_X86_64_RELATIVE" in relocations or "R_AARCH64_RELATIVE" in relocations
    assert "TPOFF" not in relocations.replace("DTPOFF", "")
    assert "TLS_TPREL" not in relocations
