# SPDX-License-Identifier: Apache-2.0
"""The same seeded work under torch.profiler and under fastprof: both must record the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from known_torch import RELEASE, known_fields, known_options, needs_inputs, torch

pytestmark = pytest.mark.integrations

import torch_parity as parity  # noqa: E402
from torch_workloads import WORKLOADS, prepared  # noqa: E402

# torch.profiler looks at these with profile_all_threads: else it does not see threads that the program starts. It then
# sees neither arguments nor memory.
THREADED = {"threaded_backward"}

# What is compared of arguments, and the events at which it differs: see docs/differences.md.
INPUTS = known_fields((
    "overload_name", "input_shapes", "structured_input_shapes", "structured_input_strides", "input_dtypes",
    "concrete_inputs", "kwinputs",
))  # fmt: skip
LEFT_OUT = {"CheckpointFunction", "given"}

# Ops whose FLOPs PyTorch counts.
COUNTED = {"mm", "addmm", "bmm", "baddbmm", "mul", "add", "conv2d"}


def settled(name: str, profiled: Callable[[], Any]) -> Any:
    """Return a profile in which no function continued on another thread, as happens while it waits for a fork."""
    for _ in range(50):
        profile = profiled()
        went_on = name == "torchscript_fork" and any(
            event.is_async or (event.name == "aten::add" and event.cpu_parent is None)
            for event in profile.events()
        )
        if not went_on:
            return profile
    raise AssertionError("a function went on on another thread 50 times")


class Pair:
    """The two profiles of a workload, with shapes and without."""

    def __init__(self, name: str) -> None:
        step = prepared(name)
        self.name = name
        self.all_threads = name in THREADED

        def profiles(**options: Any) -> tuple[Any, Any]:
            return (
                settled(name, lambda: parity.ours(step, **options)),
                settled(name, lambda: parity.theirs(step, all_threads=self.all_threads, **options)),
            )

        self.plain = profiles()
        self.shaped = profiles(record_shapes=True, with_flops=True)
        if RELEASE < (2, 10):  # it ignores the scope of fast ranges
            for event in self.shaped[1].events():
                if event.name == "a user's":
                    assert event.scope == 0
                    event.scope = 7
        everything = {"record_shapes": True, "profile_memory": True, "with_stack": True}
        everything["python_calls"] = False  # test_torch_calls.py compares these
        self.everything = settled(name, lambda: parity.ours(step, **everything))
        # PyTorch's allocator knows the sizes of blocks that were allocated during a profile, so allocate during one.
        # Without shapes: for these torch.profiler holds tensors back, which are then freed elsewhere.
        memory = {"profile_memory": True}
        parity.theirs(step, **memory)
        self.memory = (
            settled(name, lambda: parity.ours(step, **memory, memory_attribution="interval")),
            settled(name, lambda: parity.theirs(step, **memory)),
        )


@pytest.fixture(scope="module", params=list(WORKLOADS))
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    if request.param in THREADED and not known_options(["profile_all_threads"]):
        pytest.skip("this torch.profiler does not see threads that the program starts")
    torch.set_num_threads(1)  # otherwise the ops in parallel regions would depend on load
    yield Pair(request.param)
    torch.compiler.reset()


def test_places(pair: Pair) -> None:
    a, b = pair.shaped
    assert parity.difference(a.events(), b.events()) == []


def test_shapes_change_nothing_else(pair: Pair) -> None:
    a, b = pair.plain

    def named(profile: Any) -> Counter[tuple[str, str | None]]:
        return Counter((e.name, e.cpu_parent and e.cpu_parent.name) for e in profile.events())

    # Not the scope: without shapes PyTorch ignores that of fast ranges.
    assert named(a) == named(b)


def test_places_with_everything_on(pair: Pair) -> None:
    full = [event for event in pair.everything.events() if event.name != "[memory]"]
    assert parity.difference(full, pair.shaped[1].events()) == []
    assert any(event.stack for event in full if event.name.startswith("aten::"))


def test_every_event_before_repeated_ones_are_merged(pair: Pair) -> None:
    a, b = pair.plain
    table = a.event_table
    raw = Counter(event.name() for event in b.profiler.kineto_results.events())
    assert Counter(table.name(row) for row in range(len(table))) == raw


def test_trees(pair: Pair) -> None:
    a, b = pair.shaped
    assert parity.trees(a.events()) == parity.trees(b.events())


def test_counts_per_key(pair: Pair) -> None:
    a, b = pair.shaped
    assert parity.counts(a) == parity.counts(b)


def test_sequence_numbers_and_forward_links(pair: Pair) -> None:
    (a, b) = (p.events() for p in pair.shaped)
    ours, theirs = parity.sequence(a), parity.sequence(b)
    assert Counter((e.name, *ours(e)) for e in a) == Counter((e.name, *theirs(e)) for e in b)


def test_arrows_from_forward_to_backward(pair: Pair, tmp_path: Path) -> None:
    a, b = (parity.arrows(p, tmp_path / f"{i}.json") for i, p in enumerate(pair.shaped))
    assert a == b
    assert not any("no slice" in name for arrow in a for name in arrow)


@needs_inputs
@pytest.mark.parametrize("name", INPUTS)
def test_inputs(pair: Pair, name: str) -> None:
    if pair.all_threads:
        pytest.skip("torch.profiler sees no arguments on all threads")
    a, b = ([e for e in p.events() if e.name not in LEFT_OUT] for p in pair.shaped)
    assert parity.difference(a, b, lambda event: getattr(event, name)) == []


@needs_inputs
def test_flops(pair: Pair) -> None:
    if pair.all_threads:
        pytest.skip("torch.profiler sees no arguments on all threads")
    a, b = (
        [e for e in p.events() if e.name.removeprefix("aten::") in COUNTED] for p in pair.shaped
    )
    assert parity.difference(a, b, lambda event: event.flops or 0) == []
    assert all(not e.flops for e in pair.shaped[1].events() if e not in b)


@needs_inputs
@pytest.mark.parametrize("by", ["group_by_input_shape", "group_by_overload_name"])
def test_counts_by_group(pair: Pair, by: str) -> None:
    if pair.all_threads:
        pytest.skip("torch.profiler sees no arguments on all threads")

    def grouped(profile: Any) -> Counter[tuple[Any, ...]]:
        rows = [row for row in profile.key_averages(**{by: True}) if row.key not in LEFT_OUT]
        return Counter(
            {(r.key, str(r.input_shapes or ""), r.overload_name or ""): r.count for r in rows}
        )

    a, b = pair.shaped
    assert grouped(a) == grouped(b)


@pytest.mark.parametrize("name", ["cpu_memory_usage", "self_cpu_memory_usage"])
def test_memory_by_pytorchs_rule(pair: Pair, name: str) -> None:
    if pair.all_threads:
        pytest.skip("torch.profiler sees no memory on all threads")
    if pair.name == "torchscript_fork":
        pytest.skip("by that rule what another thread allocates counts for whatever runs just then")
    ours, theirs = (p.events() for p in pair.memory)
    if RELEASE < (2, 11):
        ours = [e for e in ours if e.name != "[memory]"]
        theirs = parity.exact_memory(pair.memory[1])
    # Not "a user's": PyTorch has its scope with shapes only.
    a, b = ([e for e in events if e.name != "a user's"] for events in (ours, theirs))
    assert parity.difference(a, b, lambda event: getattr(event, name)) == []
