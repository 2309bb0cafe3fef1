# SPDX-License-Identifier: Apache-2.0
"""What sees Python.h compiles against the headers of a CPython without a GIL.

No such CPython runs it, since none can be had: the macro Py_GIL_DISABLED makes an ordinary CPython's headers those.
"""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from compilers import ROOT, STRICT, need, run

sys.path.insert(0, str(ROOT / "packaging"))

import interpreters

pytestmark = pytest.mark.nightly  # compiles forty files

# Types written by hand, callbacks of the interpreter, and whatever touches its threads.
_TOUCHES_PYTHON = re.compile(
    r"PyType_Spec|PyMethodDef|PyTypeObject|PyCFunction|PyGILState|PyThreadState"
)


def sources() -> list[Path]:
    found = sorted((ROOT / "csrc" / "adapters" / "python").glob("*.cpp"))
    for source in sorted((ROOT / "csrc" / "bindings").glob("*.cpp")):
        if _TOUCHES_PYTHON.search(source.read_text()):
            found.append(source)
    return found


def headers() -> Path:
    """Return the folder of Python.h of the newest CPython >= 3.13 of this machine."""
    for version in ("3.15", "3.14", "3.13"):
        for python in interpreters.installed(version):
            code = "import sysconfig; print(sysconfig.get_path('include'))"
            folder = Path(run([python, "-c", code]).strip())
            if (folder / "Python.h").is_file():
                return folder
    pytest.skip("no headers of CPython >= 3.13 are on this machine")


def test_it_compiles_without_a_gil() -> None:
    compiler = need("g++")
    pybind11 = pytest.importorskip("pybind11")
    folders = ["-isystem", headers(), "-isystem", pybind11.get_include()]
    command = [compiler, "-std=c++17", "-fsyntax-only", "-fvisibility=hidden", *STRICT]
    command += ["-DPy_GIL_DISABLED=1", f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'include'}"]
    found = sources()
    names = {source.name for source in found}
    assert {"monitoring.cpp", "task_switches.cpp", "range_type.cpp"} <= names
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda source: run([*command, *folders, source]), found))
