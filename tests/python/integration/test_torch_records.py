# SPDX-License-Identifier: Apache-2.0
"""torch's own parser of legacy records as oracle: from the same records, events and tables are the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from known_torch import with_units_of_bytes

from fastprof.compat.records import LegacyRecord, parse_records

pytestmark = pytest.mark.integrations

torch = pytest.importorskip("torch")
profiler_legacy = pytest.importorskip("torch.autograd.profiler_legacy")


class AsMethods:
    """A LegacyRecord with the interface of torch's records, whose fields are methods."""

    def __init__(self, record: LegacyRecord) -> None:
        self.record = record

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.record, name)
        return lambda: list(value) if isinstance(value, tuple) else value

    def cpu_elapsed_us(self, other: AsMethods) -> float:
        return self.record.cpu_elapsed_us(other.record)

    def cuda_elapsed_us(self, other: AsMethods) -> float:
        return self.record.cuda_elapsed_us(other.record)


NAMES = ["aten::add", "aten::add", "aten::is_leaf", "outer", "ProfilerStep#3", "aten::_version"]
STACK = ("model.py(3): f", "torch/autograd/__init__.py(1): backward", "main.py(1): main")


def random_list(rng: random.Random, thread: int, node: int, remote: bool) -> list[LegacyRecord]:
    clock = rng.randint(1, 1000) * 1000
    records: list[LegacyRecord] = []
    open_: list[LegacyRecord] = []
    device = rng.choice([-1, 0])
    for handle in range(1, rng.randint(2, 14)):
        clock += rng.randint(0, 5) * 1000
        on_device = {"device": device, "device_us": clock / 500} if device >= 0 else {}
        action = rng.choice(["push", "push", "pop", "memory", "mark"])
        common: dict[str, Any] = {
            "thread_id": thread,
            "node_id": node,
            "cpu_ns": clock,
            "is_remote": remote,
        }
        if action == "push":
            record = LegacyRecord(
                "push", rng.choice(NAMES), handle=handle, shapes=[[2, handle]], stack=STACK,
                sequence_nr=rng.randint(-1, 4), scope=rng.choice([0, 0, 1]), flops=rng.choice([0, 7]),
                is_async=rng.random() < 0.1, fwd_thread_id=1, **on_device, **common,
            )  # fmt: skip
            open_.append(record)
            records.append(record)
        elif action == "pop" and open_:
            records.append(pop_of(rng, open_.pop(), clock, on_device))
        elif action == "memory":
            records.append(
                LegacyRecord("memory_alloc", cpu_memory_usage=rng.randint(-9, 9),
                             cuda_memory_usage=rng.randint(0, 9), **common)
            )  # fmt: skip
        elif action == "mark":
            records.append(LegacyRecord("mark", "a mark", **common))
    while open_ and rng.random() < 0.9:
        clock += 1000
        on_device = {"device": device, "device_us": clock / 500} if device >= 0 else {}
        records.append(pop_of(rng, open_.pop(), clock, on_device))
    return records


def pop_of(rng: random.Random, push: LegacyRecord, clock: int, on_device: Any) -> LegacyRecord:
    thread = push.thread_id + (rng.random() < 0.1)
    return LegacyRecord(
        "pop", "", thread_id=thread, handle=push.handle, node_id=push.node_id, cpu_ns=clock,
        is_remote=push.is_remote, **on_device,
    )  # fmt: skip


FIELDS = [
    "id", "node_id", "name", "trace_name", "thread", "fwd_thread", "input_shapes", "stack",
    "scope", "use_device", "cpu_memory_usage", "device_memory_usage", "is_async", "is_remote",
    "sequence_nr", "is_legacy", "flops",
]  # fmt: skip


def assert_same(theirs: list[Any], ours: Any) -> None:
    assert len(theirs) == len(ours)
    for t, o in zip(theirs, ours, strict=True):
        for name in FIELDS:
            assert getattr(o, name) == getattr(t, name), name
        assert (o.time_range.start, o.time_range.end) == (t.time_range.start, t.time_range.end)
        assert [tuple(k) for k in o.kernels] == [tuple(k) for k in t.kernels]


@pytest.mark.parametrize("seed", range(120))
def test_same_events(seed: int) -> None:
    rng = random.Random(seed)
    lists = [random_list(rng, thread, rng.choice([-1, 0]), False) for thread in (1, 2)]
    lists += [random_list(rng, thread, 5, True) for thread in (1, 3)]
    lists[seed % 2].insert(0, LegacyRecord("mark", "__start_profile", cpu_ns=500))
    theirs = profiler_legacy._parse_legacy_records([[AsMethods(r) for r in rs] for rs in lists])
    ours = parse_records(lists)
    assert_same(theirs, ours)
    assert_same(theirs, parse_records([[AsMethods(r) for r in rs] for rs in lists]))


def test_records_of_a_real_run() -> None:
    """Both parsers make the same table from the records of torch's own legacy profiler."""
    from torch.autograd.profiler_util import EventList

    config = torch.autograd.ProfilerConfig(
        torch.autograd.ProfilerState.CPU, True, True, False, False, False,
        torch._C._profiler._ExperimentalConfig(),
    )  # fmt: skip
    torch.autograd._enable_profiler_legacy(config)
    x = torch.ones(4, 4, requires_grad=True)
    (x @ x).relu().sum().backward()
    records = torch.autograd._disable_profiler_legacy()
    theirs = EventList(profiler_legacy._parse_legacy_records(records), profile_memory=True)
    ours = parse_records(records, profile_memory=True)
    assert len(ours) > 5
    assert_same(theirs, ours)
    theirs._build_tree()
    averages = ours.key_averages(group_by_input_shape=True)
    other = theirs.key_averages(group_by_input_shapes=True)
    assert averages.table() == with_units_of_bytes(other.table())
    ours._build_tree()
    text = theirs.table(sort_by="cpu_time_total")
    assert ours.table(sort_by="cpu_time_total") == with_units_of_bytes(text)
