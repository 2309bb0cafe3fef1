# SPDX-License-Identifier: Apache-2.0
"""Texts of a report: bounded texts, source files within their limits."""

from __future__ import annotations

import linecache
import os
import types
from pathlib import Path
from typing import Any

import pytest

from fastprof.base.device_type import device_type_name
from fastprof.model.table import EventTable, Site
from fastprof.report import details, sources
from fastprof.report.sources import source_texts
from fastprof.report.texts import Strings, bounded, json_value


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


def test_values_for_people() -> None:
    ring: list[Any] = []
    ring.append(ring)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert json_value({"a": [1, "\u00fc", None]}) == '{"a": [1, "\u00fc", null]}'
    assert json_value({"a": {1}}) == '{"a": "{1}"}'
    assert json_value(ring) == "[[...]]"
    assert json_value({(1, 2): 3}) == "{(1, 2): 3}"
    assert json_value("x" * 5000).endswith("\u2026 (1,002 more characters)")


def test_devices_that_are_not_known_have_their_number() -> None:
    assert [device_type_name(number) for number in (0, 1, 20, 21, 99)] == [
        "cpu", "cuda", "privateuse1", "device21", "device99",
    ]  # fmt: skip


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


def test_arguments_of_too_many_marks_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    table = EventTable(
        {"start_ns": [0, 5, 6], "end_ns": [9, 5, 6], "site": [0, 1, 1], "kind": [0, 2, 2]},
        sites=[Site("a"), Site("here", kind=2)],
    )  # fmt: skip
    rows: Any = types.SimpleNamespace(table=table)
    notes: list[str] = []
    monkeypatch.setattr(details, "MAX_DECODED", 2)
    details.add_mark_arguments(rows, notes)
    assert notes == []
    monkeypatch.setattr(details, "MAX_DECODED", 1)
    assert details.add_mark_arguments(rows, notes) == {}
    assert notes == ["arguments of 2 marks are not in this report"]
