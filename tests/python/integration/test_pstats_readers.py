# SPDX-License-Identifier: Apache-2.0
"""export_pstats(): snakeviz, gprof2dot and tuna read the file, and find cProfile's numbers in it."""

from __future__ import annotations

import importlib
import pstats
from pathlib import Path
from typing import Any

import pytest
from processes import python

import fastprof

pytestmark = pytest.mark.integrations


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def program() -> list[int]:
    return sorted([fib(5), fib(4)])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with fastprof.profile(python_calls=True) as profile:
        program()
    path = tmp_path_factory.mktemp("calls") / "calls.pstats"
    profile.python_calls().export_pstats(path)
    return path


def reader(name: str) -> Any:
    pytest.importorskip(name.split(".")[0])
    return importlib.import_module(name)


def test_snakeviz(file: Path) -> None:
    snakeviz = reader("snakeviz.stats")
    read = pstats.Stats(str(file))
    rows = {row[-2].rpartition("(")[2].rstrip(")"): row[0] for row in snakeviz.table_rows(read)}
    assert rows["program"] == ["1", 1]
    assert rows["fib"] == ["24/2", 24]
    shown = snakeviz.json_stats(read)
    (around,) = [value for key, value in shown.items() if key.endswith("(program)")]
    assert any(called.endswith("(fib)") for called in around["children"])


def test_gprof2dot(file: Path) -> None:
    reader("gprof2dot")
    words = ("-f", "pstats", "-n", "0", "-e", "0", file)
    done = python("-m", "gprof2dot", *words, check=True)
    assert done.stdout.startswith("digraph") and ":program" in done.stdout
    node = next(line for line in done.stdout.splitlines() if ":fib" in line and "label=" in line)
    assert "24" in node and "->" not in node


def test_tuna(file: Path) -> None:
    tree = reader("tuna.main").read(str(file))

    def names(node: dict[str, Any]) -> set[str]:
        found = {str(text) for text in node["text"]}
        return found.union(*map(names, node.get("children", [])))

    found = names(tree)
    assert any("program" in name for name in found) and any("fib" in name for name in found)
