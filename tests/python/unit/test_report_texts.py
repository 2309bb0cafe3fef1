# SPDX-License-Identifier: Apache-2.0
"""Texts of a report: bounded texts, source files within their limits."""

from __future__ import annotations

import linecache
import os
from pathlib import Path

import pytest

from fastprof.report import sources
from fastprof.report.sources import source_texts
from fastprof.report.texts import Strings, bounded


def test_texts_are_bounded() -> None:
    assert [bounded("abc", limit) for limit in (4, 3, 2)] == [
        "abc",
        "abc",
        "ab\u2026 (1 more characters)",
    ]
    assert bounded("x" * 4000) == "x" * 4000
    assert bounded("x" * 6000) == "x" * 4000 + "\u2026 (2,000 more characters)"
    strings = Strings()
    assert [strings.number(text) for text in ("a", 5, "a", "5", None)] == [0, 1, 0, 1, 2]
    assert strings.texts() == ["a", "5", "None"]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(sources, "MAX_TOTAL_BYTES", 250)


def test_sources_are_read_within_limits(limits: None, tmp_path: Path) -> None:
    def made(name: str, size: int) -> str:
        path = tmp_path / name
        path.write_bytes(b"x" * size)
        return str(path)

    exact, large, second = made("a.py", 100), made("b.py", 101), made("c.cu", 100)
    rest, over, small = made("d.h", 50), made("e.rs", 1), made("f.py", 0)
    texts, left_out = source_texts([exact, large, second, rest, over, small])
    assert {name: len(text) for name, text in texts.items()} == {
        exact: 100,
        second: 100,
        rest: 50,
        small: 0,
    }
    assert left_out == [large, over]
    others = [made("g.txt", 5), made("h", 5), str(tmp_path / "absent.py"), "\0.py", str(tmp_path)]
    os.mkdir(tmp_path / "folder.py")
    assert source_texts([*others, str(tmp_path / "folder.py")]) == ({}, [])
    (tmp_path / "bad.py").write_bytes(b"# \xff")
    assert source_texts([str(tmp_path / "bad.py")])[0] == {str(tmp_path / "bad.py"): "# \ufffd"}


def test_cells_of_notebooks_are_sources(limits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def cell(name: str, size: int, time: float | None = None) -> str:
        entry = (size, time, ["y" * (size - 1), "\n"], name)
        monkeypatch.setitem(linecache.cache, name, entry)
        return name

    first, large, second = cell("<cell 1>", 100), cell("<cell 2>", 101), cell("<cell 3>", 100)
    over, last = cell("<cell 4>", 51), cell("<cell 5>", 50)
    texts, left_out = source_texts([first, large, second, over, last])
    assert {name: len(text) for name, text in texts.items()} == {first: 100, second: 100, last: 50}
    assert left_out == [large, over] and texts[last].endswith("y\n")
    of_file = cell("<of a file>", 5, time=1.0)
    monkeypatch.setitem(linecache.cache, "<lazy>", (lambda: "x",))
    assert source_texts([of_file, "<lazy>", "<unknown>"]) == ({}, [])
