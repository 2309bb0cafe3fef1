# SPDX-License-Identifier: Apache-2.0
"""The raw events of a torch.profiler run as an EventTable: events and averages are the same."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from known_torch import RELEASE, known_fields

from fastprof.analysis.memory_attribution import attribute_memory
from fastprof.base.device_type import as_device_type
from fastprof.model.table import NO_PAYLOAD, CodedColumn, EventKind, EventTable, Site, Track
from fastprof.views import EventList
from fastprof.views.names import keeps_stack_entry

pytestmark = pytest.mark.integrations

torch = pytest.importorskip("torch")

# torch 2.6 has no overload names.
OVERLOADS = bool(known_fields(["overload_name"]))
# Before 2.11 torch.profiler counts allocations close to an op's begin or end to another op, because it rounds times
# first; test_torch_parity.py compares fastprof's memory with exact counts of the raw events there.
MEMORY = RELEASE >= (2, 11)


def _signed(thread: int) -> int:
    """libtorch gives unknown threads the number 2^64 - 1, which is -1 in a column of integers."""
    return thread - 2**64 if thread >= 2**63 else thread


def table_of_kineto(result: Any) -> EventTable:
    """Return a table of torch's raw events, in torch's order."""
    raw = list(result.events())
    names: dict[tuple[str, bool, int], int] = {}
    kinds = {"[memory]": EventKind.MEMORY, "[OutOfMemory]": EventKind.OUT_OF_MEMORY}
    sites, payload, words = [], [], []
    for e in raw:
        key = (e.name(), e.is_user_annotation(), int(e.device_type().value))
        sites.append(names.setdefault(key, len(names)))
        memory = e.name() == "[memory]"
        payload.append(len(words) if memory else NO_PAYLOAD)
        words += [0, e.nbytes(), 0, 0] if memory else []
    threads: dict[int, int] = {}
    columns: dict[str, Any] = {
        "start_ns": [e.start_ns() for e in raw],
        "end_ns": [e.end_ns() for e in raw],
        "site": sites,
        "track": [threads.setdefault(e.start_thread_id(), len(threads)) for e in raw],
        "kind": [kinds.get(e.name(), EventKind.RANGE) for e in raw],
        "payload": payload,
        "is_python_function": [getattr(e, "is_python_function", bool)() for e in raw],
        "is_async": [e.is_async() or e.start_thread_id() != e.end_thread_id() for e in raw],
        "id": [e.correlation_id() for e in raw],
        "sequence_nr": [e.sequence_nr() for e in raw],
        "fwd_thread": [e.fwd_thread_id() for e in raw],
        "scope": [e.scope() for e in raw],
        "flops": [e.flops() for e in raw],
        "device_type": [int(as_device_type(e.device_type())) for e in raw],
    }
    coded = {
        "input_shapes": CodedColumn.encode([e.shapes() for e in raw]),
        "stack": CodedColumn.encode([[s for s in e.stack() if keeps_stack_entry(s)] for e in raw]),
    }
    if OVERLOADS:
        coded["overload_name"] = CodedColumn.encode([e.overload_name() for e in raw])
    return EventTable(
        columns,
        sites=[
            Site(name, category="user_annotation" if user else "cpu_op",
                 device_type=device if name in kinds else -1)
            for name, user, device in names
        ],
        tracks=[Track(_signed(thread)) for thread in threads],
        coded=coded,
        payload_words=np.array(words, np.int64).view(np.uint64),
        t0_ns=result.trace_start_ns(),
    )  # fmt: skip


def run(**options: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, acc_events=True, **options) as prof:
        for step in range(3):
            with torch.profiler.record_function(f"step {step % 2}"):
                with torch.profiler.record_function("forward"):
                    loss = model(torch.ones(4, 8)).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    return prof


@pytest.mark.parametrize("with_stack", [False, True])
def test_same_events_and_averages(with_stack: bool) -> None:
    prof = run(record_shapes=True, profile_memory=MEMORY, with_flops=True, with_stack=with_stack)
    theirs = prof.events()
    table = attribute_memory(table_of_kineto(prof.profiler.kineto_results), "interval")
    ours = EventList.from_table(table, profile_memory=MEMORY, with_flops=True)
    assert len(ours) == len(theirs) > 100
    for t, o in zip(theirs, ours, strict=True):
        assert (o.name, o.thread, o.trace_name) == (t.name, _signed(t.thread), t.trace_name)
        assert (o.time_range.start, o.time_range.end) == (t.time_range.start, t.time_range.end)
        assert (o.cpu_parent and o.cpu_parent.name) == (t.cpu_parent and t.cpu_parent.name)
        assert [c.name for c in o.cpu_children] == [c.name for c in t.cpu_children]
        assert o.self_cpu_time_total == pytest.approx(t.self_cpu_time_total, abs=1e-6)
        assert o.self_cpu_memory_usage == t.self_cpu_memory_usage
        if not t.is_python_function:  # torch gives the functions themselves no stack
            assert (o.stack or []) == (t.stack or [])
    for by_shapes, stack, by_overload in ((False, 0, False), (True, 0, True), (False, 3, False)):
        grouping = (by_shapes, stack, *([by_overload] if OVERLOADS else []))
        left = theirs.key_averages(*grouping)
        # PyTorch has had the choice since 2.14, and counted the calls of Python functions before.
        choice = "include_python_functions" in inspect.signature(theirs.key_averages).parameters
        right = ours.key_averages(*grouping, include_python_functions=not choice)
        if choice:
            everything = ours.key_averages(*grouping, include_python_functions=True)
            wanted = theirs.key_averages(*grouping, include_python_functions=True)
            assert [(a.key, a.count) for a in everything] == [(a.key, a.count) for a in wanted]
            assert (len(everything) > len(right)) == with_stack
        assert [(a.key, a.count) for a in right] == [(a.key, a.count) for a in left]
        for t, o in zip(left, right, strict=True):
            assert o.self_cpu_time_total == pytest.approx(t.self_cpu_time_total, abs=1e-6)
            assert o.cpu_time_total == pytest.approx(t.cpu_time_total, abs=1e-6)
            assert o.self_cpu_memory_usage == t.self_cpu_memory_usage
            assert (o.flops or 0) == (t.flops or 0)
            assert (o.input_shapes, o.stack) == (t.input_shapes, t.stack)
            assert not OVERLOADS or o.overload_name == t.overload_name
        assert same_layout(right.table(row_limit=-1), left.table(row_limit=-1))


def same_layout(ours: str, theirs: str) -> bool:
    """Return whether texts are equal up to digits: sums of ns and of floats may round to different last digits."""
    mine, other = ours.splitlines(), theirs.splitlines()
    return mine[:2] == other[:2] and [len(line) for line in mine] == [len(line) for line in other]
