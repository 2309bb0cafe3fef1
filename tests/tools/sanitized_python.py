# SPDX-License-Identifier: Apache-2.0
"""Run Python tests with AddressSanitizer and UndefinedBehaviorSanitizer in _core: ``sanitized_python.py [TEST ...]``.

Without arguments: the tests of traced calls and of tasks. Everything is built in build/sanitized; the module in
python/fastprof stays. Objects of Python lie in memory of malloc, so that a use after their end is seen. Leaks are
not looked for, since an interpreter leaves much behind. Needs g++ and, in the interpreter that runs this, pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "sanitized"
CHOSEN = (
    "tests/python/integration/test_python_calls.py",
    "tests/python/integration/test_call_life.py",
    "tests/python/integration/test_call_threads.py",
    "tests/python/unit/test_call_filter.py",
    "tests/python/unit/test_short_calls.py",
    "tests/python/unit/test_tasks.py",
    "tests/python/unit/test_random_tasks.py",
)
# A sanitized module takes several times the memory, which is what these look at or use up.
NOT_CHOSEN = "not memory_flat and not deep_recursion"


def build() -> Path:
    """Build the module; return the folder of a package with it, for PYTHONPATH."""
    jobs = os.environ.get("JOBS", "2")
    settings = {
        "CMAKE_BUILD_TYPE": "RelWithDebInfo",
        "CMAKE_CXX_FLAGS_RELWITHDEBINFO": "-O1 -g1",
        "CMAKE_INTERPROCEDURAL_OPTIMIZATION": "OFF",
        "FASTPROF_SANITIZE": "address,undefined",
        "FASTPROF_BUILD_PYTHON": "ON",
        "FASTPROF_BUILD_TESTS": "OFF",
        "FASTPROF_HEADER_CHECKS": "OFF",
        "Python_EXECUTABLE": sys.executable,
    }
    defines = [f"-D{name}={value}" for name, value in settings.items()]
    configure = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(BUILD), *defines]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(BUILD), "-j", jobs], check=True)
    package = BUILD / "package" / "fastprof"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "python" / "fastprof", package, ignore=shutil.ignore_patterns("_core.*.so")
    )
    (module,) = (BUILD / "csrc" / "bindings").glob("_core.*.so")
    shutil.copy(module, package)
    return package.parent


def library(name: str) -> str:
    """Path of one of the compiler's libraries."""
    printed = subprocess.run(
        [os.environ.get("CXX", "g++"), f"-print-file-name={name}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return printed.stdout.strip()


def main(tests: list[str]) -> int:
    """Build, run the tests, and return pytest's exit status."""
    package = build()
    # libstdc++ as well: AddressSanitizer looks for __cxa_throw when the process starts.
    preloaded = [library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so")]
    environment = {
        **os.environ,
        "PYTHONPATH": str(package),
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": ":".join(preloaded),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    chosen = tests or [*CHOSEN, "-k", NOT_CHOSEN]
    paths = f"pythonpath={package} tests/tools"
    command = [sys.executable, "-m", "pytest", "-q", "-o", paths, *chosen]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
