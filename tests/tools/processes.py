# SPDX-License-Identifier: Apache-2.0
"""Measure the memory of this process, name its threads, and run programs in new ones."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path


def resident_kilobytes() -> int:
    """Return the resident memory of this process in KiB. Linux."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def anonymous_kilobytes() -> int:
    """Return the anonymous memory of this process in KiB, without pages of libraries, which come and go. Linux."""
    with open("/proc/self/status") as f:
        sizes = dict(line.split(":", 1) for line in f)
    return sum(int(sizes[name].split()[0]) for name in ("RssAnon", "RssShmem", "VmSwap"))


def thread_names() -> set[str]:
    """Return the kernel's names of this process's threads. Linux."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.add((task / "comm").read_text().rstrip("\n"))
    return found


def python(
    *words: object,
    cwd: Path | None = None,
    check: bool = False,
    stdin: str | None = None,
    **environment: object,
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with arguments; return its exit status and output, as text.

    check: fail with the output if the status is not 0. environment: variables to add to those of this process.
    Raises subprocess.TimeoutExpired after 10 minutes.
    """
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=600,
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stdout[-9000:] + done.stderr[-9000:]
    return done


def run_python(code: str, **environment: str) -> str:
    """Run indented code in a new interpreter with this one's import path; return its output. Warnings are errors.

    environment: variables to add to those of this process.
    Fails with the output when it does not end with status 0; raises subprocess.TimeoutExpired after 10 minutes.
    """
    words = ("-W", "error", "-c", textwrap.dedent(code))
    return python(*words, check=True, PYTHONPATH=os.pathsep.join(sys.path), **environment).stdout
