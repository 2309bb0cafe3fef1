# SPDX-License-Identifier: Apache-2.0
"""The program of tests/cpp/libraries that loads, uses and unloads annotated libraries as a script says."""

from __future__ import annotations

from pathlib import Path

from compilers import ROOT, run

SOURCES = ROOT / "tests" / "cpp" / "libraries"


def steps(host: Path, script: str, **where: Path) -> list[str]:
    """Run the program over a script in which ``{name}`` stands for a library's path; return its lines."""
    return run([host, *script.format(**where).split()], timeout_s=60).splitlines()


def check(lines: list[str], *expected: str) -> None:
    """Assert that the program printed these lines, in any order, and reached its end."""
    assert sorted(lines) == sorted([*expected, "done"])
