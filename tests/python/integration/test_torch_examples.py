# SPDX-License-Identifier: Apache-2.0
"""The PyTorch examples, with fastprof and with torch's profilers: only the import changes, the tables agree."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from known_torch import CXX11_ABI
from processes import python

pytestmark = pytest.mark.integrations

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

# Rows that are not ops, in tables with stacks: calls of Python functions, which 2.13 adds to its averages.
PYTHON_CALL = re.compile(
    r".+\.pyx?\(\d+\): .+|<built-in .+|nn\.Module: .+|<.+>\(\d+\): .+|PyTorch Profiler.*"
)


def tables(text: str) -> list[Counter[tuple[str, str]]]:
    """Return, for each printed table, (name, input shapes if shown) -> calls; rows with different stacks are added."""
    found: list[Counter[tuple[str, str]]] = []
    starts: dict[str, int] = {}
    for line in text.splitlines():
        if "# of Calls" in line:
            starts = {m[0]: m.end() for m in re.finditer(r"\S+( \S+)*", line)}
            found.append(Counter())
        elif line.startswith("Self CPU time total"):
            starts = {}
        elif starts and line.strip() and not line.startswith("---"):
            cells = re.split(r"\s{2,}", line.strip())
            headers = list(starts)
            # The further lines of a stack have empty columns of numbers.
            if len(cells) < headers.index("# of Calls") or PYTHON_CALL.fullmatch(cells[0]):
                continue
            calls = cells[headers.index("# of Calls")]
            shown_shapes = CXX11_ABI and "Input Shapes" in starts
            shapes = headers.index("Input Shapes") if shown_shapes else None
            shown = cells[shapes] if shapes is not None and shapes < len(cells) else ""
            found[-1][cells[0], shown] += int(calls)
    return found


def printed(name: str, folder: Path, *arguments: str) -> str:
    out = [] if name == "torch_module" else ["--out", str(folder)]
    return python(
        "-W", "ignore", EXAMPLES / f"{name}.py", "--rows", "1000", *out, *arguments, cwd=folder, check=True,
        PYTHONPATH=os.pathsep.join(sys.path),
    ).stdout  # fmt: skip


@pytest.mark.parametrize("name", ["torch_recipe", "torch_training", "torch_module"])
def test_same_tables(name: str, tmp_path: Path) -> None:
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    for folder in folders:
        folder.mkdir()
    ours = tables(printed(name, folders[0]))
    theirs = tables(printed(name, folders[1], "--torch"))
    assert len(ours) == len(theirs) > 0 and all(ours)
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if name == "torch_module":  # memory outside of ops belongs to Python calls from 2.11 on
            for table in (a, b):
                del table["[memory]", ""]
        assert a == b, f"table {number}"
    written, wanted = ([path.name for path in sorted(folder.rglob("*.json"))] for folder in folders)
    assert len(written) == len(wanted)
