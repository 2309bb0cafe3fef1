# SPDX-License-Identifier: Apache-2.0
"""The code blocks of README.md and docs/ run unchanged.

Python blocks of a page run in order in one namespace, C++ blocks are compiled and run,
commands that begin with `fastprof` are run on a small script and its traces. Blocks with the info
string `text` require something that tests lack (a trainer, a model) and are left out.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from compilers import compile_and_link
from processes import python

import fastprof
from fastprof import _paths

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS = {
    "many_ranks.md": "pyarrow",
    "memory.md": "torch",
    "notebook.md": "matplotlib",
    "nvtx.md": "nvtx",
    "pytorch.md": "torch",
    "recipes.md": "torch",
    "results.md": "pandas",
}  # what the Python of a page imports beside fastprof
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KNOWN = {"", "python", "cpp", "cmake", "bash", "make", "text"}
TIMEOUT_S = 600  # against a hang: on a busy machine, importing torch alone takes minutes


def blocks(page: Path, language: str) -> list[str]:
    return [code for info, code in BLOCK.findall(page.read_text()) if info == language]


def test_every_block_has_a_known_language() -> None:
    found = {info for page in PAGES for info, _ in BLOCK.findall(page.read_text())}
    assert {"python", "cpp"} <= found <= KNOWN


PYTHON_PAGES = [
    pytest.param(page, marks=[pytest.mark.integrations] if page.name in NEEDS else [], id=page.name)
    for page in PAGES
    if blocks(page, "python")
]


@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_python_blocks(page: Path, tmp_path: Path) -> None:
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page, "python")))
    python(script, cwd=tmp_path, check=True)


# test_docs_cpp.py runs the programs of docs/cpp.md, tests/cpp/consumer that of the README.
ELSEWHERE = {"cpp.md", "README.md"}
CPP_PAGES = [page for page in PAGES if page.name not in ELSEWHERE and blocks(page, "cpp")]


@pytest.mark.parametrize("page", CPP_PAGES, ids=lambda p: p.name)
@pytest.mark.compilers
def test_cpp_blocks(page: Path, tmp_path: Path) -> None:
    source, flags = tmp_path / "program.cpp", ["-std=c++17", f"-I{_paths.include_dir()}"]
    for code in blocks(page, "cpp"):
        source.write_text(code)
        is_program = "int main(" in code  # otherwise a source file of an annotated library
        compile_and_link(
            "g++", tmp_path / "program", [source], *flags, *(() if is_program else ("-c",))
        )
        if is_program:
            subprocess.run(["./program"], cwd=tmp_path, check=True, timeout=TIMEOUT_S)


COMMANDS = [
    line
    for page in PAGES
    for code in blocks(page, "")
    for line in code.splitlines()
    if line.startswith("fastprof ")
]


def test_commands(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import fastprof\nwith fastprof.record_function('step'): pass\n"
    )
    with fastprof.profile() as profile:
        with fastprof.record_function("step"):
            pass
    for name in ("trace", "before", "after"):
        profile.export_chrome_trace(str(tmp_path / f"{name}.json"))
    assert COMMANDS
    for line in COMMANDS:
        words = line.partition("#")[0].split()[1:]
        python("-m", "fastprof", *words, cwd=tmp_path, check=True, BROWSER="true")
