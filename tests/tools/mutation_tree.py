# SPDX-License-Identifier: Apache-2.0
"""The copy of the tree into which mutants are put, and the virtual environment that imports fastprof from it.

Both are in build/mutants. The import hook of an editable install would hide the copy from any other environment.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

from test_house_rules import repository_files

__all__ = [
    "HARMFUL",
    "PACKAGE",
    "ROOT",
    "TREE",
    "WORK",
    "copy_tree",
    "enter_environment",
    "protect_devices",
    "write_anew",
]

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
PACKAGE = "python/fastprof"
# A fault in these can remove or replace files that no test made, such as the device that a test writes to.
HARMFUL = (
    "python/fastprof/exporters/atomic_file.py",
    "csrc/include/fastprof/export/trace_file.hpp",
)
_ENVIRONMENT = WORK / "environment"
_NATIVE = "MUTANTS_NATIVE"  # environment variable: the native module
_written = int(time.time())


def copy_tree() -> None:
    """Copy all files of the repository, and the native module with the libraries beside it, into TREE."""
    shutil.rmtree(TREE, ignore_errors=True)
    for path in repository_files(ROOT):
        target = TREE / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    for library in Path(os.environ[_NATIVE]).parent.glob("*.so"):
        shutil.copy2(library, TREE / PACKAGE)
    where = subprocess.run(
        [sys.executable, "-c", "import fastprof; print(fastprof.__file__)"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    if not where.startswith(str(TREE)):
        raise SystemExit(f"mutants of {TREE} would not be tried: fastprof is imported from {where}")


def enter_environment() -> None:
    """Restart the program in a virtual environment with this one's packages that imports fastprof from the copy."""
    if Path(sys.prefix) == _ENVIRONMENT:
        return
    native = importlib.util.find_spec("fastprof._core")
    if native is None or native.origin is None:
        raise SystemExit("fastprof is not built: run make build")
    venv.EnvBuilder(clear=True, symlinks=True).create(_ENVIRONMENT)
    (site,) = _ENVIRONMENT.glob("lib/python*/site-packages")
    # In folders that a .pth file names, .pth files and the import hooks that they install are not looked at.
    folders = [
        TREE / "python",
        TREE / "tests/tools",
        *(p for p in sys.path if p.endswith("site-packages")),
    ]
    in_children = "import os; 'COVERAGE_PROCESS_START' in os.environ and __import__('coverage').process_startup()"
    (site / "mutants.pth").write_text("".join(f"{line}\n" for line in [*folders, in_children]))
    python = _ENVIRONMENT / "bin" / "python"
    os.execve(python, [str(python), *sys.argv], {**os.environ, _NATIVE: native.origin})


def write_anew(path: Path, content: bytes) -> None:
    """Write a file with a modification time that it never had, so that Python does not use an outdated .pyc."""
    global _written
    _written += 2
    path.write_bytes(content)
    os.utime(path, (_written, _written))


def protect_devices() -> None:
    """As root, restart the program in a mount namespace in which /dev is read-only."""
    private = ["unshare", "--mount", "sh", "-c"]
    read_only = "mount --rbind /dev /dev && mount -o remount,bind,ro /dev"
    if os.geteuid() != 0 or "MUTANTS_PROTECTED" in os.environ or shutil.which("unshare") is None:
        return
    if subprocess.run([*private, read_only], check=False).returncode == 0:
        os.environ["MUTANTS_PROTECTED"] = "1"
        os.execvp(
            private[0], [*private, f'{read_only} && exec "$@"', "sh", sys.executable, *sys.argv]
        )
