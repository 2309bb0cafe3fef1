# SPDX-License-Identifier: Apache-2.0
"""Try wheels on this machine: ``try_here.py [--torch torch==2.13.0] [--unit-tests] WHEEL...``.

Installs each wheel into a fresh environment under ``build/wheels/here`` and runs ``try_wheel.py`` there with a PATH on
which no compiler is. Interpreters: those of this machine, and those that `make wheels` fetched.
Ends with status 1 when one of the wheels fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from commands import CommandFailed, Unavailable, exit_on_signals, run
from interpreters import ROOT, SYSTEM, environment_without, install, make_environment, version_of

sys.path.insert(0, str(ROOT / "tests" / "tools"))
from requirements import requirements

TRY = Path(__file__).resolve().parent / "try_wheel.py"


def try_wheel(python: Path, torch: str | None) -> str:
    """Profile a program with the fastprof of an environment and no compiler on PATH; return what was recorded.

    torch: a requirement to install and profile beside it, where it has a wheel for the interpreter.
    Raises CommandFailed.
    """
    options, remark = [], ""
    if torch is not None:
        try:
            install(python, "--only-binary=:all:", torch)
            options = ["--torch"]
        except CommandFailed as error:
            remark = f"; tried without {torch}: {str(error).strip().splitlines()[-1]}"
    with (
        tempfile.TemporaryDirectory() as empty
    ):  # nothing that a compiler once found out is kept there
        variables = {**environment_without("CXX"), "PATH": empty, "XDG_CACHE_HOME": empty}
        return run(python, TRY, *options, env=variables).strip() + remark


def run_unit_tests(python: Path, arguments: list[str]) -> int:
    """Run tests/python/unit against the fastprof that is installed for ``python``, on the terminal; the exit status."""
    install(python, *requirements(["test"]))
    variables = environment_without("PYTEST_ADDOPTS")
    code = "import fastprof; print(fastprof.__file__)"
    where = Path(run(python, "-c", code, cwd=ROOT, env=variables).strip())
    if not where.is_relative_to(python.parent.parent):
        raise Unavailable(f"{python} imports fastprof from {where}, which is not the wheel")
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "-o",
        "pythonpath=tests/tools",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [*command, "tests/python/unit", *arguments], cwd=ROOT, env=variables
    ).returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    parser.add_argument(
        "--torch",
        metavar="REQUIREMENT",
        help="profile a training step of this beside the wheel, for example torch==2.13.0 (large)",
    )
    parser.add_argument(
        "--unit-tests", action="store_true", help="run tests/python/unit against the wheel, too"
    )
    parser.add_argument(
        "--pytest",
        default="",
        metavar="OPTIONS",
        help='more options of pytest, as in --pytest="-x"',
    )
    options = parser.parse_args(arguments)
    failed = False
    for wheel in options.wheels:
        try:
            folder = SYSTEM.parent / "here" / version_of(wheel)
            python = make_environment(folder, wheel)
            if options.unit_tests:  # without torch, as in continuous integration
                print(f"{wheel.name}: tests/python/unit", flush=True)
                failed |= run_unit_tests(python, options.pytest.split()) != 0
            print(try_wheel(python, options.torch), flush=True)
        except (Unavailable, subprocess.TimeoutExpired) as error:
            print(f"try_here.py: {wheel.name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    exit_on_signals()
    sys.exit(main(sys.argv[1:]))
