# SPDX-License-Identifier: Apache-2.0
"""ITT: tasks of genuine programs received, and tasks emitted to a collector that shares no code with ours."""

from __future__ import annotations

import os
from pathlib import Path

import abi_tables
import pytest
from annotation_doubles import build, injected, run_python

pytestmark = pytest.mark.integrations


def test_our_declarations_are_those_of_the_genuine_header() -> None:
    torch = pytest.importorskip("torch")  # its package carries ittnotify.h
    include = Path(torch.__file__).parent / "include"
    if not (include / "ittnotify.h").exists():
        pytest.skip("this torch has no ittnotify.h")
    abi_tables.compare("itt.txt", ["-isystem", str(include)])


def test_the_python_package_is_received() -> None:
    pytest.importorskip("ittapi")
    rows = run_python(
        """
import json
import fastprof
fastprof.receive_itt()
import ittapi
with fastprof.profile() as prof:
    with fastprof.record_function("ours"):
        with ittapi.task("outer", domain="package"):
            with ittapi.task("inner", domain="other"):
                pass
    overlapped = ittapi.task("overlapped", domain="package", overlapped=True)
    overlapped.begin()
    event = ittapi.event("an event")
    event.begin()
    overlapped.end()
    event.end()
    ittapi.thread_set_name("named by ittapi")
table = prof.event_table
parent = table.column("parent")
print(json.dumps([[[table.name(r), table.name(int(parent[r])) if parent[r] >= 0 else None]
                  for r in range(len(table))], [track.name for track in table.tracks]]))
""",
        {k: v for k, v in os.environ.items() if k != "INTEL_LIBITTNOTIFY64"},
    )
    assert rows[0][:3] == [["ours", None], ["outer", "ours"], ["inner", "outer"]]
    assert sorted(name for name, _ in rows[0][3:]) == ["an event", "overlapped"]
    assert "named by ittapi" in rows[1]


def test_torchs_own_ranges_are_received() -> None:
    torch = pytest.importorskip("torch")
    if not torch.profiler.itt.is_available():
        pytest.skip("this torch is built without ITT")
    rows = run_python(
        """
import json
import torch
import fastprof
with fastprof.profile() as prof:
    with torch.profiler.itt.range("by torch"):
        with torch.autograd.profiler.emit_itt():
            torch.ones(2) + 1
names = [e.name for e in prof.events()]
print(json.dumps([names.count("by torch"), names.count("aten::add")]))
""",
        injected(),
    )
    assert rows == [1, 2]  # the op, and torch's task for it


def test_emitted_tasks_are_those_of_pytorch(tmp_path: Path) -> None:
    """PyTorch's own emitter and ours run at once, under one collector: the same tasks, each in its domain."""
    torch = pytest.importorskip("torch")
    if not torch.profiler.itt.is_available():
        pytest.skip("this torch is built without ITT")
    collector = build("itt/collector.cpp", tmp_path / "collector.so")
    log = tmp_path / "log"
    program = """
import torch
import fastprof
a = torch.ones(3, 4, requires_grad=True)
with fastprof.emit_itt(), torch.autograd.profiler.emit_itt():
    with torch.profiler.record_function("user's"):
        (a * 2).sum().backward()
with fastprof.itt.range("pushed"):
    fastprof.itt.mark("marked")
print(1)
"""
    run_python(
        program, {**os.environ, "INTEL_LIBITTNOTIFY64": str(collector), "COLLECTOR_LOG": str(log)}
    )
    calls = [line.split(" ", 3) for line in log.read_text().splitlines()]
    torchs = [(tid, call, name) for tid, call, domain, name in calls if domain == "PyTorch"]
    ours = [(tid, call, name) for tid, call, domain, name in calls if domain == "fastprof"]
    assert len(torchs) > 20 and ours[: len(torchs)] == torchs
    assert [(call, name) for _, call, name in ours[len(torchs) :]] == [
        ("begin", "pushed"), ("begin", "marked"), ("end", ""), ("end", ""),
    ]  # fmt: skip
