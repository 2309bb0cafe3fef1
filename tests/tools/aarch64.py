# SPDX-License-Identifier: Apache-2.0
"""Build C++ tests for aarch64 with Debian's cross compiler and run them under qemu-user: ``aarch64.py [all|TEST ...]``.

Without arguments, only tests of code that differs by processor run: clock, thread-local storage, memory order, native
stacks. Installs missing Debian packages; if that is impossible, prints the reason and exits with status 0.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("g++-aarch64-linux-gnu", "qemu-user", "libc6-dev-arm64-cross")
PROGRAMS = ("aarch64-linux-gnu-g++", "qemu-aarch64")
JOBS = "2"
# About two minutes of processor time to build; all of them take six and a half.
CHOSEN = (
    "test_cpp_stack", "test_live_drain", "test_nesting", "test_propagate", "test_recorder_clock",
    "test_recorder_exactness", "test_recorder_modes", "test_recorder_records", "test_recorder_reservations",
    "test_recorder_sessions", "test_thread_local_sessions", "stress_fork_exit", "stress_signals",
    "stress_threads",
)  # fmt: skip


def install_missing() -> str | None:
    """Install missing packages; return why that failed, or None if all are installed."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not missing:
        return None
    if shutil.which("apt-get") is None:
        return f"{' and '.join(missing)} missing, and there is no apt-get to install {' '.join(PACKAGES)} with"
    for command in (
        ["apt-get", "update"],
        ["apt-get", "install", "-qy", "--no-install-recommends", *PACKAGES],
    ):
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            return f"{' '.join(command)} took longer than 10 minutes"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        lines = result.stderr.strip().splitlines()
        return f"{' and '.join(missing)} missing: {lines[-1] if lines else 'apt-get installed nothing'}"
    return None


def main(arguments: list[str]) -> int:
    if platform.machine() == "aarch64":
        print(
            "SKIPPED aarch64 under an emulator: this machine is one; `make test-cpp` runs the tests"
        )
        return 0
    reason = install_missing()
    if reason is not None:
        print(f"SKIPPED aarch64 under an emulator: {reason}")
        return 0
    every = arguments == ["all"]
    chosen = [] if every else arguments or list(CHOSEN)
    commands = [
        ["cmake", "--preset", "aarch64", f"-DFASTPROF_TESTS={';'.join(chosen)}"],
        ["cmake", "--build", "--preset", "aarch64", "-j", JOBS],
        ["ctest", "--preset", "aarch64"],
    ]
    for command in commands:
        print("+", *command, flush=True)
        status = subprocess.run(command, cwd=ROOT).returncode
        if status != 0:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
