# SPDX-License-Identifier: Apache-2.0
"""with_stack=True: the Python calls of a training step equal those in the traces of torch.profiler."""

from __future__ import annotations

import contextlib
import gc
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from known_torch import torch

import fastprof

pytestmark = pytest.mark.integrations

Calls: TypeAlias = "Counter[tuple[str, str]]"

# While fastprof records, it replaces torch.profiler's ranges, which then make no Python calls. Those of optimizers, by
# operators of torch.ops, are left out, because they would overlap the range.
RANGES_OF_TORCH = re.compile(
    "(__enter__|__exit__|__init__|push_user_annotation|is_scripting)$|^_ops.py: |record_function"
)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)
        self.act = torch.nn.ReLU()

    def forward(self, x: Any) -> Any:
        return self.act(self.inner(x)) + x


def numbers(count: int) -> Iterator[int]:
    yield from range(count)


def deeper(depth: int) -> int:
    return 0 if depth == 0 else 1 + deeper(depth - 1)


def plain_work() -> None:
    sum(numbers(3))
    deeper(4)
    with contextlib.suppress(ValueError):
        int("not a number")
    sorted([3, 1, 2], key=lambda value: -value)
    "a b".upper()


def training() -> Callable[[], None]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(), Block(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    inputs = torch.randn(4, 8)

    def the_step() -> None:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()
        plain_work()

    for _ in range(2):
        the_step()
    return the_step


def shown(name: str) -> str:
    """Return a name without addresses, folders and, for functions in Python, the line."""
    name = re.sub(r" at 0x[0-9a-f]+", "", name)
    return re.sub(r"^(?:.*/)?([^/]+)\(\d+\): ", r"\1: ", name)


def calls_in(path: Path) -> tuple[Calls, list[dict[str, Any]]]:
    """Return (name, caller's name) of the calls made by the_step, and their events."""
    events = [
        e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "python_function"
    ]
    by_id = {e["args"]["Python id"]: e for e in events}
    assert len(by_id) == len(events) > 0

    def callers(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        while (number := event["args"]["Python parent id"]) is not None:
            event = by_id[number]
            yield event

    inside = [e for e in events if any(c["name"].endswith(": the_step") for c in callers(e))]
    pairs = Counter((shown(e["name"]), shown(next(callers(e))["name"])) for e in inside)
    return pairs, inside


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, fastprof.profile]:
    folder = tmp_path_factory.mktemp("calls")
    step = training()
    gc.disable()  # packages that other tests have imported are called by the collector
    try:
        with torch.profiler.profile():  # only the first profile of a process calls these
            step()
        with torch.profiler.profile(with_stack=True) as theirs:
            step()
        with fastprof.profile(with_stack=True) as ours:
            step()
    finally:
        gc.enable()
    theirs.export_chrome_trace(str(folder / "theirs.json"))
    assert ours.missing == {}
    ours.export_chrome_trace(folder / "ours.json")
    return folder / "ours.json", folder / "theirs.json", ours


def test_same_functions_callers_and_counts(traces: Any) -> None:
    ours, _ = calls_in(traces[0])
    theirs, _ = calls_in(traces[1])
    differing = (ours - theirs) + (theirs - ours)
    unexpected = {
        pair: count
        for pair, count in differing.items()
        if not any(RANGES_OF_TORCH.search(name) for name in pair)
    }
    assert unexpected == {}
    assert sum(ours.values()) > 200 and sum(differing.values()) < 60


def test_ranges_of_optimizers_nest_among_calls(traces: Any) -> None:
    """A viewer shows them on the thread's own row."""
    ours, _, profile = traces
    events = json.loads(ours.read_text())["traceEvents"]
    (row,) = {e["tid"] for e in events if e["name"].startswith("Optimizer.step#")}
    assert row in {e["tid"] for e in events if e["name"].endswith(": the_step")}
    assert not [e for e in events if "overlapping" in str(e.get("args", {}).get("name"))]
    assert not [e for e in profile.events() if "_record_function_e" in e.name]


def test_modules_have_torchs_names_and_numbers(traces: Any) -> None:
    def modules(path: Path) -> Counter[tuple[str, int]]:
        events = calls_in(path)[1]
        named = [e for e in events if e["name"].startswith("nn.Module: ")]
        return Counter((e["name"], e["args"]["Python module id"]) for e in named)

    ours = modules(traces[0])
    assert ours == modules(traces[1])
    assert {("nn.Module: Block_0", 0), ("nn.Module: Block_1", 1), ("nn.Module: Linear_2", 2)} <= {
        *ours
    }
