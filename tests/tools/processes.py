# SPDX-License-Identifier: Apache-2.0
"""Measure the memory of this process, and run code in a new one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

__all__ = ["resident_kilobytes", "run_python"]


def resident_kilobytes() -> int:
    """Return the resident memory of this process in KiB. Linux."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def run_python(code: str, **environment: str) -> str:
    """Run indented code in a new interpreter with this one's import path; return its output. Warnings are errors.

    environment: variables to add to those of this process.
    Raises subprocess.CalledProcessError when it does not end with status 0, subprocess.TimeoutExpired after 5 minutes.
    """
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        check=True, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    ).stdout  # fmt: skip
