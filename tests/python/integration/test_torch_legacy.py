# SPDX-License-Identifier: Apache-2.0
"""profiler_legacy compared with torch.autograd.profiler_legacy: the same ranges, and the same parsed records."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest

import fastprof
from fastprof import profiler_legacy

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
oracle: Any = pytest.importorskip("torch.autograd.profiler_legacy")

pytestmark = pytest.mark.integrations


def ranges(record_function: Any) -> None:
    with record_function("outer"):
        for _ in range(3):
            with record_function("inner"), record_function("innermost"):
                pass
    with record_function("second"):
        pass


def both(**options: bool) -> tuple[Any, Any]:
    """Return PyTorch's profile, without its ops, and ours of the same ranges."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with oracle.profile(**options) as theirs:
            ranges(torch.profiler.record_function)
    with profiler_legacy.profile(**options) as ours:
        ranges(fastprof.record_function)
    return theirs, ours


def shown(events: Any) -> list[tuple[Any, ...]]:
    return [
        (
            e.name, e.trace_name, e.count, e.node_id, e.is_async, e.is_remote, e.is_legacy, int(e.scope),
            e.sequence_nr, e.fwd_thread, e.flops,
            [list(shape) for shape in e.input_shapes],
            int(e.device_type),
            None if e.cpu_parent is None else e.cpu_parent.name,
            [child.name for child in e.cpu_children],
            len(e.stack) > 0,
        )
        for e in events
        if e.name in ("outer", "inner", "innermost", "second")
    ]  # fmt: skip


def test_the_interface_is_pytorchs() -> None:
    ours, theirs = (
        inspect.signature(c.__init__) for c in (profiler_legacy.profile, oracle.profile)
    )
    *same, added = ours.parameters.values()
    assert [(p.name, p.kind, p.default) for p in same] == [
        (p.name, p.kind, p.default) for p in theirs.parameters.values()
    ]
    assert (added.name, added.kind, added.default) == ("use_device", added.KEYWORD_ONLY, None)
    public = {name for name in dir(oracle.profile) if not name.startswith("_")} - {"config"}
    assert public <= set(dir(profiler_legacy.profile))


@pytest.mark.parametrize("options", [{}, {"record_shapes": True}, {"with_flops": True},
                                     {"profile_memory": True}, {"with_stack": True}])  # fmt: skip
def test_the_same_ranges_give_the_same_events(options: dict[str, bool]) -> None:
    theirs, ours = both(**options)
    assert shown(ours.function_events) == shown(theirs.function_events)
    # Only the rows of ranges: PyTorch's list contains its ops as well.
    counts = {a.key: a.count for a in theirs.key_averages()}
    assert {a.key: a.count for a in ours.key_averages()} == {
        a.key: counts[a.key] for a in ours.key_averages()
    }


def test_both_run_at_once() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with oracle.profile() as theirs, profiler_legacy.profile() as ours:
            ranges(fastprof.record_function)
            torch.ones(2)
    assert len(ours.function_events) == 8
    assert any(e.name == "aten::ones" for e in theirs.function_events)
