# SPDX-License-Identifier: Apache-2.0
"""Type checkers know what is in the lists of results."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import fastprof
p = fastprof.profile()
reveal_type(p.events()[0])
reveal_type(fastprof.load("x").key_averages()[0])
for event in p.events():
    reveal_type(event.name)
"""


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_items_of_results_are_typed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", "--config-file=", "program.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "python"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    revealed = [line.split('"')[1] for line in result.stdout.splitlines() if "Revealed" in line]
    assert [name.split(".")[-1] for name in revealed] == [
        "FunctionEvent",
        "FunctionEventAvg",
        "str",
    ]
