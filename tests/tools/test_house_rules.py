# SPDX-License-Identifier: Apache-2.0
"""Rules for every file of the repository: length, licence line, no absolute path of a user's machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {".hpp", ".cpp", ".mm", ".py", ".pyi", ".cmake", ".sh"}
MAX_LINES = 600
HOMES = re.compile(r"(?<![\w.$}/-])/(?:home|root|Users|work|mnt)/\w")


def repository_files(root: Path = ROOT) -> list[Path]:
    """Return the files git knows or would add; without git, those outside of build and environment folders."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout.decode()
        paths = [root / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        skipped = {"build", ".venv", "out", "dist", "__pycache__", ".git"}
        paths = [p for p in root.rglob("*") if not skipped & set(p.relative_to(root).parts)]
    return sorted(p for p in paths if p.is_file() and not p.is_symlink())


def too_long(path: Path) -> bool:
    """Report whether a source file is too long. Generated stubs (.pyi) may have any length."""
    return path.suffix in SOURCES - {".pyi"} and len(path.read_text().splitlines()) > MAX_LINES


def without_licence_line(path: Path) -> bool:
    """Report whether a C++ or Python file lacks the licence line. Generated stubs need none."""
    if path.suffix not in {".hpp", ".cpp", ".mm", ".py"}:
        return False
    first = path.read_text().split("\n", 1)[0]
    return "SPDX-License-Identifier: Apache-2.0" not in first


def names_a_machine(path: Path) -> bool:
    try:
        return HOMES.search(path.read_text()) is not None
    except UnicodeDecodeError:
        return False


RULES = [too_long, without_licence_line, names_a_machine]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_file_breaks_the_rule(rule) -> None:  # type: ignore[no-untyped-def]
    files = repository_files()
    assert len(files) > 40
    assert [str(p.relative_to(ROOT)) for p in files if rule(p)] == []


def test_the_rules_catch_what_they_are_for(tmp_path: Path) -> None:
    long = tmp_path / "long.hpp"
    long.write_text("// SPDX-License-Identifier: Apache-2.0\n" + "int x;\n" * MAX_LINES)
    assert too_long(long)
    assert not without_licence_line(long)
    bare = tmp_path / "bare.py"
    bare.write_text('path = "/' + 'home/somebody/data"\n')
    assert without_licence_line(bare)
    assert names_a_machine(bare)
    fine = tmp_path / "fine.py"
    fine.write_text("# SPDX-License-Identifier: Apache-2.0\nurl = 'https://example.org/home/x'\n")
    assert not too_long(fine)
    assert not without_licence_line(fine)
    assert not names_a_machine(fine)
