# SPDX-License-Identifier: Apache-2.0
"""Run Python tests with AddressSanitizer and UndefinedBehaviorSanitizer in _core.

    python tests/tools/sanitized_python.py                  the tests of traced calls and of tasks
    python tests/tools/sanitized_python.py TEST ...         others
    python tests/tools/sanitized_python.py --python 3.13    with another CPython, whose calls another file traces

Another CPython is that of build/python_versions, which `make test-interpreters VERSIONS=3.13` creates. Everything is
built in build/sanitized; the module in python/fastprof is not replaced. 100 files take 13 minutes of CPU time.
Later runs build only what has changed; set CMAKE_CXX_COMPILER_LAUNCHER=ccache to cache objects for longer. Python
allocates its objects with malloc, so that a use after free is detected. Leaks are not detected, since an interpreter
does not free all of its memory. Needs g++ and, in the interpreter that runs the tests, pytest.
"""

from __future__ import annotations

import argparse
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
# Removes the finder of an editable installation, which precedes every folder of PYTHONPATH; in children, too.
WITHOUT_EDITABLE = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "ScikitBuildRedirectingFinder"]
"""
# These tests measure memory or exhaust the stack, and a sanitized module needs several times as much of both.
NOT_CHOSEN = "not memory_flat and not deep_recursion"


def build(python: str, folder: Path) -> Path:
    """Build the module for an interpreter; return the folder of a package with it, for PYTHONPATH."""
    jobs = os.environ.get("JOBS", "2")
    settings = {
        "CMAKE_BUILD_TYPE": "RelWithDebInfo",
        "CMAKE_CXX_FLAGS_RELWITHDEBINFO": "-O1 -g1",
        "CMAKE_INTERPROCEDURAL_OPTIMIZATION": "OFF",
        "FASTPROF_SANITIZE": "address,undefined",
        "FASTPROF_BUILD_PYTHON": "ON",
        "FASTPROF_BUILD_TESTS": "OFF",
        "FASTPROF_HEADER_CHECKS": "OFF",
        "Python_EXECUTABLE": python,
    }
    defines = [f"-D{name}={value}" for name, value in settings.items()]
    configure = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(folder), *defines]
    # CMake asks the first python on PATH for pybind11.
    environment = {**os.environ, "PATH": f"{Path(python).parent}:{os.environ.get('PATH', '')}"}
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL, env=environment)
    # Without the library that receives NVTX's and ITT's calls, which these tests do not load.
    subprocess.run(["cmake", "--build", str(folder), "-j", jobs, "--target", "_core"], check=True)
    package = folder / "package" / "fastprof"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "python" / "fastprof", package, ignore=shutil.ignore_patterns("_core.*.so")
    )
    (module,) = (folder / "csrc" / "bindings").glob("_core.*.so")
    shutil.copy(module, package)
    (package.parent / "sitecustomize.py").write_text(WITHOUT_EDITABLE)
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


def main(arguments: list[str]) -> int:
    """Build, run the tests, and return pytest's exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="*", metavar="TEST")
    parser.add_argument("--python", metavar="VERSION", help="another CPython, such as 3.13")
    options = parser.parse_args(arguments)
    python, folder = sys.executable, BUILD
    if options.python:
        python = str(ROOT / "build" / "python_versions" / options.python / "bin" / "python")
        folder = BUILD.with_name(f"sanitized-{options.python}")
        if not os.access(python, os.X_OK):
            print(f"no {python}: first run make test-interpreters VERSIONS={options.python}")
            return 2
    package = build(python, folder)
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
    tested = subprocess.run(
        [python, "-c", "import fastprof._core as core; print(core.__file__)"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    ).stdout.strip()
    if not Path(tested).is_relative_to(package):
        print(f"the tests would run with {tested}, not with the module in {package}")
        return 2
    chosen = options.tests or [*CHOSEN, "-k", NOT_CHOSEN]
    paths = f"pythonpath={package} tests/tools"
    command = [python, "-m", "pytest", "-q", "-o", paths, *chosen]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
