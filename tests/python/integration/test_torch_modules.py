# SPDX-License-Identifier: Apache-2.0
"""with_modules: the TorchScript modules of ops are those that torch.profiler reports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from known_torch import needs_inputs, torch

import fastprof

pytestmark = [pytest.mark.integrations, needs_inputs]

HERE = "Module Hierarchy"


class Inner(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + 1)


class Outer(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.linear(x)) * 2


@pytest.fixture
def scripted() -> Any:
    torch.manual_seed(0)
    model = torch.jit.script(Outer())
    for _ in range(4):  # until its graph is final
        model(torch.ones(2, 4)).sum().backward()
    return model


def facts(path: Path) -> Counter[tuple[str, str | None]]:
    """Return (name, modules) of the ops in a Chrome trace."""
    events = json.loads(path.read_text())["traceEvents"]
    return Counter(
        (event["name"], event.get("args", {}).get(HERE))
        for event in events
        if event.get("cat") == "cpu_op"
    )


def traced(profile: Callable[..., Any], path: Path, work: Callable[[], Any]) -> Any:
    with profile(with_modules=True) as p:
        work()
    p.export_chrome_trace(str(path))
    return p


def test_they_are_torch_profilers(scripted: Any, tmp_path: Path) -> None:
    def forward() -> None:
        with torch.no_grad():
            torch.ones(3)
            scripted(torch.ones(2, 4))

    forward()
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    profile = traced(fastprof.profile, ours, forward)
    traced(torch.profiler.profile, theirs, forward)
    mine = facts(ours)
    assert mine == facts(theirs)
    (modules,) = (modules for name, modules in mine if name == "aten::addmm")
    assert modules is not None and modules.endswith("linear(Linear)::forward.")
    assert ("aten::ones", None) in mine
    assert not profile.missing


def test_backward_functions_have_their_own(scripted: Any, tmp_path: Path) -> None:
    """torch.profiler attributes an op's modules to the backward function before it (docs/differences.md)."""
    path = tmp_path / "trace.json"
    traced(fastprof.profile, path, lambda: scripted(torch.ones(2, 4)).sum().backward())
    told = facts(path)
    assert not [name for name, modules in told if modules and "evaluate_function" in name]
    assert any(modules == "TOP()::<backward op>." for _, modules in told)


def test_every_way_out_has_them(scripted: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    profile = traced(fastprof.profile, path, lambda: scripted(torch.ones(2, 4)))

    def modules(table: fastprof.EventTable) -> Counter[str]:
        column = table.coded["module_hierarchy"]
        return Counter(column.values[code] for code in column.codes.tolist() if code >= 0)

    expected = modules(profile.event_table)
    assert "TOP(Outer)::forward." in expected or "TOP()::<forward op>." in expected
    assert modules(fastprof.load(path)) == expected
    fastprof.save(profile.event_table, tmp_path / "own.fastprof")
    assert modules(fastprof.load(tmp_path / "own.fastprof")) == expected
    profile.export_perfetto_trace(str(tmp_path / "trace.pftrace"))
    assert modules(fastprof.load(tmp_path / "trace.pftrace")) == expected


def test_only_who_asks_has_them(scripted: Any) -> None:
    with fastprof.profile() as without, fastprof.profile(with_modules=True) as wanting:
        scripted(torch.ones(2, 4))
    assert "module_hierarchy" in wanting.event_table.coded
    assert "module_hierarchy" not in without.event_table.coded
    with fastprof.profile(with_modules=True) as eager:
        Outer()(torch.ones(2, 4))
    assert "module_hierarchy" not in eager.event_table.coded
    with fastprof.profile() as after:
        scripted(torch.ones(2, 4))
    assert "module_hierarchy" not in after.event_table.coded
