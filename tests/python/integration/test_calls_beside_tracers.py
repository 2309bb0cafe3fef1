# SPDX-License-Identifier: Apache-2.0
"""Traced calls in a program that a debugger or coverage traces: both see what they see alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import python

PROGRAM = """\
import threading, fastprof
def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)
def never():
    return 1
with fastprof.profile(python_calls=True) as prof:
    fib(5)
    thread = threading.Thread(target=fib, args=(3,))
    thread.start()
    thread.join()
counted = {f.function: f.calls for f in prof.python_calls().functions}
print("counted", counted["fib"], dict(prof.missing))
"""
COUNTED = "counted 20 {}"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(PROGRAM)
    return path


def test_a_debugger_stops_in_a_traced_program(script: Path) -> None:
    commands = ["break 5", "continue", "p 'n is', n", "clear 1", "continue", "quit"]
    done = python("-m", "pdb", script, stdin="\n".join(commands) + "\n")
    assert "('n is', 5)" in done.stdout, done.stdout + done.stderr
    assert COUNTED in done.stdout


@pytest.mark.integrations
@pytest.mark.parametrize("core", ["ctrace", "pytrace"] + ["sysmon"] * (sys.version_info >= (3, 12)))
def test_coverage_finds_the_same_lines(script: Path, core: str) -> None:
    pytest.importorskip("coverage")
    environment = {
        **os.environ,
        "COVERAGE_CORE": core,
        "COVERAGE_FILE": str(script.with_name("data")),
    }

    def coverage(*arguments: str) -> str:
        command = [sys.executable, "-m", "coverage", *arguments]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=120
        ).stdout

    assert COUNTED in coverage("run", f"--include={script}", str(script))
    coverage("json", "-q", "-o", str(script.with_name("lines.json")))
    (lines,) = json.loads(script.with_name("lines.json").read_text())["files"].values()
    assert lines["missing_lines"] == [7]


def test_calls_in_subinterpreters_are_named_as_missing(tmp_path: Path) -> None:
    script = tmp_path / "sub.py"
    script.write_text(
        """\
import sys, fastprof
try:
    import _interpreters
except ImportError:
    import _xxsubinterpreters as _interpreters
for create in (False, True, False):
    with fastprof.profile(python_calls=True, sample_hz=100) as prof:
        if create:
            _interpreters.destroy(_interpreters.create())
    for name in ("python_calls", "sample_hz"):
        print("subinterpreters" in prof.missing.get(name, ""), end=" ")
"""
    )
    done = python(script)
    expected = ["False", "False", "True", "True", "False", "False"]
    assert done.stdout.split() == expected, done.stderr
