# SPDX-License-Identifier: Apache-2.0
"""Events of compiled graphs get the source of their node: which markers count, and which node an event is in."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from fastprof.analysis.fx_mapping import map_recorded_events_to_aten_ops_with_stack_trace as mapped

REGISTRY = {
    "a.py": {
        "node_metadata": {3: {"stack_trace": "at 3", "name": "mul"}, 4: {"stack_trace": "at 4"}, -5: {"name": "n"}},
    },
    "b.py": {"node_metadata": {3: {"stack_trace": "b 3", "name": "other"}}},
    "empty.py": None,
}  # fmt: skip


def row(name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "cat": "cpu_op", "ts": ts, "dur": dur, "pid": 1, "tid": 1, **more}


def found(*events: Any) -> dict[str, Any]:
    """Return the args of each event that got some, by name."""
    result = mapped({"traceEvents": list(events), "other": 7}, REGISTRY)
    assert result["other"] == 7 and len(result["traceEvents"]) == len(events)
    return {
        e["name"]: e["args"] for e in result["traceEvents"] if isinstance(e, dict) and "args" in e
    }


@pytest.mark.parametrize(
    ("marker", "counts"),
    [
        ("## 3 ##", True), ("## -5 ##", True), ("## 3", False), ("3 ##", False), ("##3 ##", False), ("## 3##", False),
        ("## ##", False), ("##  ##", False), ("## x ##", False), ("## 99 ##", False), (7, False),
    ],
)  # fmt: skip
def test_markers_of_nodes(marker: Any, counts: bool) -> None:
    args = found(row("## a.py ##", 0, 100), row(marker, 10, 50), row("aten::mul", 20, 5))
    assert ("aten::mul" in args) == counts
    in_range = row(marker, 10, 50) | {"cat": "user_annotation"}
    assert "aten::mul" not in found(row("## a.py ##", 0, 100), in_range, row("aten::mul", 20, 5))


def test_an_event_is_in_the_innermost_node_of_its_thread() -> None:
    args = found(
        row("## a.py ##", 0, 1000),
        row("## 3 ##", 0, 100),  # encloses what begins with it
        row("begins with it", 0, 5),
        row("## 4 ##", 10, 20),
        row("inner", 15, 2, args={"own": 1}),
        row("at its end", 30, 1),
        row("outer", 40, 2),
        row("elsewhere", 41, 2, tid=2),
        row("another process", 42, 2, pid=2),
        row("between", 200, 1),
        row("## b.py ##", 300, 100),
        row("## 4 ##", 310, 10),  # b.py has no such node
        row("none", 311, 1),
        row("## 3 ##", 330, 10),
        row("of b", 331, 1),
        row("## empty.py ##", 500, 10),
        row("## 3 ##", 501, 5),
        row("of nothing", 502, 1),
    )
    three = {"stack_trace": "at 3", "node_name": "mul"}
    assert args == {
        "begins with it": three,
        "inner": {"own": 1, "stack_trace": "at 4"},
        "at its end": three,
        "outer": three,
        "of b": {"stack_trace": "b 3", "node_name": "other"},
    }


def test_what_is_no_complete_event_stays_as_it_is() -> None:
    odd: list[Any] = [3, {"name": "no times"}, {"name": "a", "ts": 1}, {"name": "b", "dur": 1}]
    given = {"traceEvents": odd}
    assert mapped(given, REGISTRY) == given
    assert mapped({}, REGISTRY) == {"traceEvents": []}
    (event,) = mapped(
        {"traceEvents": [row("## a.py ##", 0, 9), row("## -5 ##", 0, 9), row("x", 1, 2)]}, REGISTRY
    )["traceEvents"][2:]
    assert event["args"]["node_name"] == "n" and isinstance(event["args"]["stack_trace"], str)


def test_the_registry_is_torchs_where_torch_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [row("## a.py ##", 0, 100), row("## 3 ##", 10, 50), row("aten::mul", 20, 5)]
    monkeypatch.setitem(
        sys.modules, "torch.fx.traceback", SimpleNamespace(_FX_METADATA_REGISTRY=REGISTRY)
    )
    assert mapped({"traceEvents": events})["traceEvents"][2]["args"]["node_name"] == "mul"
    monkeypatch.setitem(sys.modules, "torch.fx.traceback", SimpleNamespace())
    assert "args" not in mapped({"traceEvents": events})["traceEvents"][2]
