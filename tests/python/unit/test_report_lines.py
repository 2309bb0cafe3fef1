# SPDX-License-Identifier: Apache-2.0
"""What the commands say beside the table: what stands out, what failed, which columns a list of a trace has."""

from __future__ import annotations

import io
import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastprof
from fastprof.analysis import explanation
from fastprof.base.device_type import DEVICE_TIME_TYPES, DeviceType, as_device_type
from fastprof.cli.event_lists import device_name, list_of
from fastprof.cli.main import main
from fastprof.cli.summary_lines import summary_lines
from fastprof.model import memory_rows
from fastprof.model.table import EventTable, KernelTable, Site

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


def test_the_device_of_a_trace() -> None:
    assert device_name(table_of()) is None
    for kind in DeviceType:
        named = device_name(table_of(device_type=[0, int(kind)]))
        assert named == (kind.name.lower() if kind in DEVICE_TIME_TYPES else None), kind
    both = [int(DeviceType.XPU), int(DeviceType.CUDA)]
    assert device_name(table_of(device_type=both)) == "cuda"  # the lowest number
    none = np.zeros(0, np.int64)
    assert device_name(table_of(kernels=KernelTable(none, none, none, none, []))) is None
    one = np.array([0])
    assert device_name(table_of(kernels=KernelTable(one, one, one, one, ["k"]))) == "cuda"


def test_names_and_numbers_of_devices() -> None:
    assert as_device_type("cuda") is as_device_type("CUDA") is as_device_type(1) is DeviceType.CUDA
    assert (
        as_device_type(DeviceType.XPU)
        is as_device_type(types.SimpleNamespace(value=12))
        is DeviceType.XPU
    )
    assert str(as_device_type("privateuse1")) == "DeviceType.PrivateUse1"
    with pytest.raises(
        fastprof.errors.ValueError,
        match=r"unknown device type 'gpu'\. Use one of CPU \(0\), CUDA \(1\), ",
    ):
        as_device_type("gpu")
    with pytest.raises(ValueError, match="99"):
        as_device_type(99)


def shown(**more: Any) -> tuple[bool, bool]:
    events = list_of(table_of(**more))
    return events._profile_memory, events._with_flops


def test_a_list_shows_what_its_table_has() -> None:
    assert shown() == (False, False)
    assert shown(cpu_memory_usage=[0, 0]) == shown(device_memory_usage=[0, 0]) == (True, False)
    assert shown(flops=[np.nan, np.nan]) == (False, False)
    assert shown(flops=[np.nan, 0.0]) == (False, True)
    assert shown(kind=[0, 2], payload=[0xFFFFFFFF] * 2) == (False, False)
    words = np.array([16, 64, 0, 0], np.uint64)
    memory = list_of(table_of(kind=[0, 6], payload=[0xFFFFFFFF, 0], payload_words=words))
    assert memory._profile_memory and memory[0].cpu_memory_usage == 64
    assert memory._use_device is None


def test_an_explanation_in_a_file(tmp_path: Path, capsys: Capsys) -> None:
    trace, text, data = (str(tmp_path / name) for name in ("a.fastprof", "why.txt", "why.json"))
    fastprof.save(table_of(), trace)
    assert main(["explain", trace]) == 0
    printed = capsys.readouterr().out
    assert main(["explain", trace, "-o", text]) == 0
    assert main(["explain", trace, "--json", "-o", data]) == 0
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
