# SPDX-License-Identifier: Apache-2.0
"""fastprof run: a script runs as under python, and its records are kept however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import python

import fastprof

TIMEOUT_S = 120


def start(
    folder: Path, *args: str, profiled: bool = True, module: bool = False
) -> subprocess.CompletedProcess[str]:
    runner = ["-m", "fastprof", "run", "-o", "t.fastprof"] if profiled else []
    runner += ["-m"] if module else []
    return python(*runner, *args, cwd=folder)


def names(folder: Path) -> list[str]:
    """Return the names of the recorded ranges."""
    table = fastprof.load(folder / "t.fastprof")
    calls = table.column("is_python_function")
    return sorted(table.name(row) for row in range(len(table)) if not calls[row])


@pytest.mark.parametrize(
    "ending",
    [
        "raise SystemExit",
        "sys.exit(7)",
        "sys.exit('a message')",
        "sys.exit(True)",
        "f(0)",
        "raise KeyboardInterrupt",
        "sys.excepthook = lambda *a: print('own hook', a[0], a[2].tb_lineno, a[2].tb_frame.f_code.co_name)\nf(0)",
        "threading.Thread(target=late).start()",
    ],
)
def test_every_ending_is_the_scripts_own(tmp_path: Path, ending: str) -> None:
    (tmp_path / "s.py").write_text(
        "import sys, threading, time\n"
        "import fastprof\n"
        "def late():\n"
        "    time.sleep(0.05)\n"
        "    with fastprof.record_function('late'): pass\n"
        "def f(x): return 1 / x\n"
        "with fastprof.record_function('work'): pass\n"
        f"{ending}\n"
    )
    plain = start(tmp_path, "s.py", profiled=False)
    profiled = start(tmp_path, "s.py")
    assert profiled.returncode == plain.returncode
    assert profiled.stdout == plain.stdout
    assert profiled.stderr.endswith(plain.stderr)
    expected = ["late", "s.py", "work"] if "late" in ending else ["s.py", "work"]
    assert names(tmp_path) == expected


def test_a_script_that_does_not_compile_or_exist(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = (\n")
    profiled = start(tmp_path, "bad.py")
    assert profiled.returncode == 1
    assert profiled.stderr.startswith("  File") and "SyntaxError" in profiled.stderr
    absent = start(tmp_path, "absent.py")
    assert absent.returncode == 2 and "absent.py: No such file" in absent.stderr
    assert "no_such_module" in start(tmp_path, "no_such_module", module=True).stderr
    assert list(tmp_path.glob("t.*")) == []


@pytest.mark.usefixtures("sigint")
def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import time, fastprof\n"
        "with fastprof.record_function('before'): pass\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "fastprof", "run", "-o", "t.fastprof", "s.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -signal.SIGINT
    assert stderr.rstrip().endswith("KeyboardInterrupt") and "fastprof/cli" not in stderr
    assert "before" in stderr  # the table
    assert names(tmp_path) == ["before", "s.py"]


def test_a_forked_child_leaves_the_result_to_its_parent(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import os, sys, fastprof\n"
        "pid = os.fork()\n"
        "if pid:\n"
        "    assert os.waitpid(pid, 0)[1] == 5 << 8\n"
        "    with fastprof.record_function('parent'): pass\n"
        "else:\n"
        "    sys.exit(5)\n"
    )
    profiled = start(tmp_path, "s.py")
    assert profiled.returncode == 0, profiled.stderr
    assert profiled.stderr.count("Self CPU time total") == 1
    assert names(tmp_path) == ["parent", "s.py"]
