# SPDX-License-Identifier: Apache-2.0
"""with_modules: TorchScript modules of ops as torch.profiler reports them, calls of eager modules, their ops."""

from __future__ import annotations

import json
import textwrap
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from known_torch import needs_inputs, torch
from processes import python

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


# ---- eager modules -------------------------------------------------------------------------------


def named_modules(profile: fastprof.profile) -> list[tuple[str, str]]:
    """Return (module, the one whose call it is in) in the order of their begins."""
    table = profile.event_table
    rows = [i for i in range(len(table)) if table.name(i).startswith("nn.Module: ")]
    return [(table.name(i), enclosing_module(table, i)) for i in rows]


def enclosing_module(table: fastprof.EventTable, row: int) -> str:
    """Return the name of the nearest call of a module around a row, "" for none."""
    parent = table.column("parent")
    while (row := int(parent[row])) >= 0:
        if table.name(row).startswith("nn.Module: "):
            return table.name(row)
    return ""


def modules_of_ops(profile: fastprof.profile) -> set[tuple[str, str]]:
    column = profile.event_table.coded["module_hierarchy"]
    names = [profile.event_table.name(i) for i in range(len(profile.event_table))]
    return {
        (name, column.values[code])
        for name, code in zip(names, column.codes.tolist(), strict=True)
        if code >= 0
    }


EAGER = [
    ("nn.Module: Outer_0", ""),
    ("nn.Module: Linear_0", "nn.Module: Outer_0"),
    ("nn.Module: Inner_0", "nn.Module: Outer_0"),
]


def test_eager_modules_need_no_other_calls() -> None:
    model, inputs = Outer(), torch.ones(2, 4)
    with fastprof.profile(with_modules=True) as profile:
        model(inputs).sum().backward()
        model(inputs)
        Outer()(inputs)
    assert not profile.missing
    calls = [e for e in profile.events() if e.is_python_function]
    assert {e.name.partition(": ")[0] for e in calls} == {"nn.Module"}
    again = [(name.replace("_0", "_1"), around.replace("_0", "_1")) for name, around in EAGER]
    assert named_modules(profile) == [*EAGER, *EAGER, *again]
    of_ops = modules_of_ops(profile)
    assert {
        ("aten::linear", "Outer_0.Linear_0"),
        ("aten::relu", "Outer_0.Inner_0"),
        ("aten::mul", "Outer_0"),
        ("aten::linear", "Outer_1.Linear_1"),
    } <= of_ops
    assert not [name for name, _ in of_ops if "Backward" in name or name == "aten::sum"]
    assert not [row for row in profile.key_averages() if row.key.startswith("nn.Module")]
    shown = profile.key_averages(include_python_functions=True).table()
    assert "nn.Module: Linear_0" in shown


def test_traces_have_eager_modules(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with fastprof.profile(with_modules=True) as profile:
        model(torch.ones(2, 4))
    profile.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    modules = [e for e in events if e.get("cat") == "python_function"]
    assert [(e["name"], e["args"]["Python module id"]) for e in modules] == [
        ("nn.Module: Sequential_0", 0),
        ("nn.Module: Linear_0", 0),
        ("nn.Module: ReLU_0", 0),
    ]
    assert [e["args"]["Python parent id"] for e in modules] == [
        None,
        *[modules[0]["args"]["Python id"]] * 2,
    ]
    (linear,) = [e for e in events if e.get("name") == "aten::linear"]
    assert linear["args"][HERE] == "Sequential_0.Linear_0"
    profile.export_perfetto_trace(str(tmp_path / "trace.pftrace"))
    loaded = fastprof.load(tmp_path / "trace.pftrace")
    assert "Sequential_0.ReLU_0" in loaded.coded["module_hierarchy"].values


def test_exceptions_overriding_calls_and_threads() -> None:
    class Failing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError(1)

    class Overriding(torch.nn.Module):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    def on_thread() -> None:
        Overriding()(torch.ones(1))

    with fastprof.profile(with_modules=True) as profile:
        with pytest.raises(KeyError):
            torch.nn.Sequential(Failing())(torch.ones(1))
        thread = threading.Thread(target=on_thread)
        thread.start()
        thread.join()
        with pytest.raises(TypeError):
            torch.nn.Module.__call__()
    assert named_modules(profile) == [
        ("nn.Module: Sequential_0", ""),
        ("nn.Module: Failing_0", "nn.Module: Sequential_0"),
        ("nn.Module: Overriding_0", ""),
    ]
    assert profile.event_table.unfinished == 0
    assert ("aten::add", "Overriding_0") in modules_of_ops(profile)
    with fastprof.profile() as after:
        Overriding()(torch.ones(1))
    assert named_modules(after) == [] and "module_hierarchy" not in after.event_table.coded


IMPORTED_MEANWHILE = """
    import fastprof, os, sys
    with fastprof.profile(**{sys.argv[1]: True}) as prof:
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
        model(torch.ones(2, 4))
        child = os.fork()
        if child == 0:
            with fastprof.profile(with_modules=True) as own:
                model(torch.ones(2, 4))
            os._exit(0 if "nn.Module: ReLU_0" in own.event_table.names else 1)
        assert os.waitpid(child, 0)[1] == 0
    names = {name for name in prof.event_table.names if name.startswith("nn.Module")}
    assert names == {"nn.Module: Sequential_0", "nn.Module: Linear_0", "nn.Module: ReLU_0"}, names
"""


@pytest.mark.parametrize("option", ["with_modules", "with_stack"])
def test_torch_imported_during_the_profile_and_a_forked_child(option: str) -> None:
    python("-c", textwrap.dedent(IMPORTED_MEANWHILE), option, check=True)
