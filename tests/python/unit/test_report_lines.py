# SPDX-License-Identifier: Apache-2.0
"""What the commands say beside the table: what stands out, what failed, which columns a list of a trace has."""

from __future__ import annotations

import io
import json
import types
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.analysis import explanation
from fastprof.cli.main import main
from fastprof.cli.summary_lines import summary_lines
from fastprof.model import memory_rows
from fastprof.model.table import EventTable, Site

Capsys = pytest.CaptureFixture[str]


def table_of(**more: Any) -> EventTable:
    columns = {"start_ns": [0, 10], "end_ns": [100, 90], "site": [0, 1], "parent": [-1, 0], **more}
    others = {name: columns.pop(name) for name in ("kernels", "payload_words") if name in columns}
    sites = [
        Site("a"),
        Site("[memory]", kind=6, device_type=0) if "payload" in columns else Site("b"),
    ]
    return EventTable(columns, sites=sites, **others)


@pytest.mark.parametrize(
    ("texts", "first", "sizes", "lines"),
    [
        ([], None, [], []),
        (["x"], None, [], ["What stands out:", "  x"]),
        (["x", "y", "z"], "mend x", [], ["What stands out:", "  x", "  y", "  z", "What to do first: mend x"]),
        (
            ["x", "y", "z", "w", "v"], None, [],
            ["What stands out:", "  x", "  y", "  z", "  2 more: see `fastprof explain`"],
        ),
        (["x", "y", "z", "w"], None, [], ["What stands out:", "  x", "  y", "  z", "  1 more: see `fastprof explain`"]),
        ([], "never shown alone", [5, 2048, 7], [
            "Out of memory: 3 requests failed, the largest of 2.00 KB: see `fastprof report --memory`"]),
    ],
)  # fmt: skip
def test_lines_below_the_table(
    monkeypatch: pytest.MonkeyPatch, texts: list[str], first: str | None, sizes: list[int], lines: list[str]
) -> None:  # fmt: skip
    def explain(table: Any, breakdown: bool) -> Any:
        assert breakdown is False
        claim = None if first is None else types.SimpleNamespace(text=first)
        return types.SimpleNamespace(findings=lambda: [(text, [1]) for text in texts], first=claim)

    monkeypatch.setattr(explanation, "explain", explain)
    failed = [types.SimpleNamespace(size_bytes=size) for size in sizes]
    monkeypatch.setattr(memory_rows, "failed_requests", lambda table: failed)
    assert summary_lines(None) == lines


def test_an_explanation_in_a_file(tmp_path: Path, capsys: Capsys) -> None:
    trace, text, data = (str(tmp_path / name) for name in ("a.fastprof", "why.txt", "why.json"))
    fastprof.save(table_of(), trace)
    assert main(["explain", trace]) == 0
    printed = capsys.readouterr().out
    assert main(["explain", trace, "--explanation", text]) == 0
    assert main(["explain", trace, "--as-json", "--explanation", data]) == 0
    said = capsys.readouterr()
    assert "Where the time went" not in said.out + said.err
    assert Path(text).read_text() == printed
    assert json.loads(Path(data).read_text())["total_ns"] == 100


def test_a_trace_from_standard_input(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.fastprof"
    fastprof.save(table_of(), path)
    assert main(["report", str(path)]) == 0
    head, rest = capsys.readouterr().out.split("\n", 1)
    assert head == f"{path} (fastprof, {path.stat().st_size} bytes)"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert main(["report", "-"]) == 0
    assert capsys.readouterr().out == f"standard input (fastprof)\n{rest}"
