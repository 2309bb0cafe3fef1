# SPDX-License-Identifier: Apache-2.0
"""Build fastprof for other CPythons of this machine and run tests there: ``python_versions.py [VERSION ...] [--all]``.

    python tests/tools/python_versions.py              the oldest and the newest version beside the one that runs this
    python tests/tools/python_versions.py 3.12         one version
    python tests/tools/python_versions.py 3.12 --all   the whole unit suite, and all tests of calls, tasks and children
    python tests/tools/python_versions.py 3.12 -- -k tasks     more options of pytest

Interpreters are looked for beside this one, on PATH and in pyenv. A named version that is not found is reported
and skipped. Each version has its own environment below build/python_versions, which later runs reuse.
_core is built there; Python files are used from python/. Needs g++ or clang and a package index.
Exit status 1 when a build or a test failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from requirements import requirements

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))

from interpreters import environment_without, installed  # noqa: E402

PLACE = ROOT / "build" / "python_versions"
SUPPORTED = tuple(f"3.{minor}" for minor in range(10, 16))
_UNIT, _INTEGRATION = "tests/python/unit", "tests/python/integration"
# What depends on the interpreter: frames, hooks of calls, tasks, types written by hand, forks.
CHOSEN = (
    f"{_UNIT}/test_call_lines.py",
    f"{_UNIT}/test_calls_inside_constructors.py",
    f"{_UNIT}/test_lock_waits.py",
    f"{_INTEGRATION}/test_python_calls.py",
    f"{_INTEGRATION}/test_call_life.py",
    f"{_INTEGRATION}/test_call_threads.py",
    f"{_INTEGRATION}/test_calls_beside_tracers.py",
    f"{_UNIT}/test_tasks.py",
    f"{_UNIT}/test_random_tasks.py",
    f"{_UNIT}/test_task_crossings.py",
    f"{_UNIT}/test_range_stacks.py",
    f"{_UNIT}/test_record_function.py",
    f"{_UNIT}/test_attributes.py",
    f"{_UNIT}/test_followed_work.py",
    f"{_UNIT}/test_interrupts.py",
    f"{_UNIT}/test_profile.py",
    f"{_INTEGRATION}/test_sample_shares.py",
    f"{_INTEGRATION}/test_sampled_tasks.py",
    f"{_INTEGRATION}/test_sampled_threads.py",
    f"{_INTEGRATION}/test_sampled_processes.py",
    f"{_INTEGRATION}/test_sampled_native_frames.py",
)
ALL = (
    _UNIT,
    f"{_INTEGRATION}/test_python_calls.py",
    f"{_INTEGRATION}/test_call_life.py",
    f"{_INTEGRATION}/test_call_threads.py",
    f"{_INTEGRATION}/test_calls_beside_tracers.py",
    f"{_INTEGRATION}/test_native_frames.py",
    f"{_INTEGRATION}/test_trio_tasks.py",
    f"{_INTEGRATION}/test_follow_children.py",
    f"{_INTEGRATION}/test_followed_life.py",
    f"{_INTEGRATION}/test_killed_trees.py",
    f"{_INTEGRATION}/test_recover_libraries.py",
    f"{_INTEGRATION}/test_process_life.py",
)
LOOPS = ("trio", "anyio")
# For the environment of a build by pip: half the processor time of a release build, which is what is tested everywhere
# else.
QUICKLY_BUILT = {
    "SKBUILD_CMAKE_DEFINE": "CMAKE_CXX_FLAGS_RELEASE=-O1;CMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF"
}


def here() -> str:
    """Return the version of the interpreter that runs this, such as 3.11."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def oldest_and_newest() -> list[str]:
    """Return the oldest and the newest supported version of this machine beside the one that runs this."""
    there = [v for v in SUPPORTED if v != here() and next(installed(v), None) is not None]
    return there if len(there) < 2 else [there[0], there[-1]]


def prepare(version: str, interpreter: Path, packages: tuple[str, ...]) -> Path:
    """Build fastprof for a version, editable, in its environment; return that environment's interpreter.

    Raises subprocess.CalledProcessError when packages or the build fail.
    """
    folder = PLACE / version
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    if not python.is_file():
        subprocess.run([interpreter, "-m", "venv", "--without-pip", folder], check=True)
    subprocess.run([*pip, *requirements(["build", "test"]), *packages], check=True)
    # The build backend runs with this PATH: its CMake asks the first python there for pybind11.
    environment = environment_without() | QUICKLY_BUILT
    environment["PATH"] = f"{folder / 'bin'}:{environment.get('PATH', '')}"
    environment.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", os.environ.get("JOBS", "2"))
    command = [*pip, "--no-build-isolation", "--no-deps", "-C", f"build-dir={folder / 'build'}"]
    subprocess.run([*command, "-e", str(ROOT)], check=True, env=environment)
    return python


def run_tests(python: Path, tests: tuple[str, ...], options: list[str]) -> int:
    """Run tests on the terminal; return pytest's exit status."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, *options]
    environment = environment_without("PYTEST_ADDOPTS")
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def main(arguments: list[str]) -> int:
    """Build and test each version; return the exit status."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    ours, pytest_options = arguments[:end], arguments[end + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    parser.add_argument(
        "--all", action="store_true", help="the unit suite and all of calls and tasks"
    )
    options = parser.parse_args(ours)
    versions = options.versions or oldest_and_newest()
    outcomes = []
    if not versions:
        outcomes.append("no other CPython >= 3.10 is on this machine: nothing was run")
    for version in versions:
        interpreter = next(installed(version), None)
        if interpreter is None:
            outcomes.append(f"CPython {version}: skipped, not on this machine")
            continue
        start = time.monotonic()
        try:
            python = prepare(version, interpreter, LOOPS if options.all else ())
        except subprocess.CalledProcessError as error:
            outcomes.append(f"CPython {version}: FAILED, not built: {error}")
            continue
        built = time.monotonic()
        print(f"CPython {version}: built in {built - start:.0f} s", flush=True)
        if options.all:
            status = run_tests(python, ALL, pytest_options)
        else:
            status = run_tests(python, CHOSEN, ["-m", "not integrations", *pytest_options])
        took = time.monotonic() - built
        outcomes.append(
            f"CPython {version}: {'FAILED' if status else 'passed'} (tests {took:.0f} s)"
        )
    print("\n".join(outcomes))
    return int(any("FAILED" in outcome for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
