# SPDX-License-Identifier: Apache-2.0
"""Find the CPythons of this machine, and make environments of them with a wheel installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from commands import Unavailable, run

ROOT = Path(__file__).resolve().parent.parent
SYSTEM = (
    ROOT / "build" / "wheels" / "system"
)  # the old system of `make wheels`; its interpreters run here, too


def installed(version: str) -> Iterator[Path]:
    """Yield the executables of CPython ``version`` (such as 3.12): beside this interpreter, on PATH, then pyenv's."""
    places = [Path(sys.executable).resolve().parent]
    places += [Path(p) for p in os.environ.get("PATH", "").split(":")]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places += sorted((root / "versions").glob(f"{version}.*/bin"))
    for place in places:
        python = (place / f"python{version}").resolve()
        if python.is_file() and python.read_bytes()[:4] == b"\x7fELF":
            yield python  # not a script, such as pyenv's shims, that runs whatever version is configured


def version_of(wheel: Path) -> str:
    """Return the version of CPython that a wheel is for, such as 3.12. Raises Unavailable if its name has none."""
    match = re.search(r"-cp3(\d+)-cp3\1-", wheel.name)
    if match is None or not wheel.is_file():
        raise Unavailable(
            f"{wheel} is no wheel for one version of CPython: build it with make wheels"
        )
    return f"3.{match[1]}"


def interpreter_for(wheel: Path) -> Path:
    """Return an interpreter for a wheel: of this machine, or fetched by `make wheels`. Raises Unavailable."""
    version = version_of(wheel)
    fetched = SYSTEM / "opt" / f"python{version}" / "bin" / f"python{version}"
    for python in (*installed(version), fetched):
        code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        if python.is_file():
            done = subprocess.run([python, "-c", code], capture_output=True, text=True)
            if done.stdout.strip() == version:
                return python
    raise Unavailable(
        f"no CPython {version} is here: install it, or run make wheels, which fetches it"
    )


def make_environment(folder: Path, wheel: Path, requirements: Sequence[str | Path] = ()) -> Path:
    """Make an environment in ``folder`` with a wheel, its dependencies and ``requirements``; return its interpreter.

    Replaces the folder. Raises Unavailable if there is no interpreter for the wheel or pip cannot install.
    """
    shutil.rmtree(folder, ignore_errors=True)
    run(interpreter_for(wheel), "-m", "venv", "--without-pip", folder)
    install(folder / "bin" / "python", wheel, *requirements)
    return folder / "bin" / "python"


def install(python: Path, *requirements: str | Path) -> None:
    """Install requirements for ``python`` with this interpreter's pip. Raises Unavailable with pip's message."""
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", *requirements)


def environment_without(*variables: str) -> dict[str, str]:
    """Return the process's environment without ``variables`` and those that add packages to an interpreter's path."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", *variables)
    return {key: value for key, value in os.environ.items() if key not in left_out}
