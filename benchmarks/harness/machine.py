# SPDX-License-Identifier: Apache-2.0
"""Facts about the machine on which a benchmark runs."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return ""


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def _version(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()[
        0
    ]


def facts() -> dict[str, str | int | float]:
    """Return the facts needed to interpret a figure: CPU, clock source, page policy, compilers, load at the start."""
    return {
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "load_1min": os.getloadavg()[0],
        "kernel": platform.release().split("-")[0],
        "libc": " ".join(platform.libc_ver()),
        "clock_source": _first_line(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "huge_pages": _first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "compiler": _version("c++", "--version"),
        "python": platform.python_version(),
    }
