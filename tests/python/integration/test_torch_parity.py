# SPDX-License-Identifier: Apache-2.0
"""The same seeded work under torch.profiler and under fastprof: what either saw must be equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.integrations

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
if not str(torch.__version__).startswith("2.13."):
    pytest.skip("the oracle is torch 2.13", allow_module_level=True)

import torch_parity as parity  # noqa: E402
from torch_workloads import WORKLOADS, prepared  # noqa: E402

# torch.profiler looks at these with profile_all_threads: else it sees neither threads that the program starts nor those
# of parallel regions.
THREADED = {"threaded_backward", "attention"}


def settled(profiled: Callable[[], Any]) -> Any:
    """A profile in which no function went on on another thread, as one may that waits for a fork."""
    for _ in range(50):
        profile = profiled()
        if not any(event.is_async for event in profile.events()):
            return profile
    raise AssertionError("a function went on on another thread 50 times")


class Pair:
    """A workload's two profiles, with shapes and without."""

    def __init__(self, name: str) -> None:
        step = prepared(name)
        self.all_threads = name in THREADED

        def profiles(**options: Any) -> tuple[Any, Any]:
            return (
                settled(lambda: parity.ours(step, **options)),
                settled(lambda: parity.theirs(step, all_threads=self.all_threads, **options)),
            )

        self.plain = profiles()
        self.shaped = profiles(record_shapes=True)


@pytest.fixture(scope="module", params=list(WORKLOADS))
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    torch.set_num_threads(1)  # or what runs in a parallel region would be a matter of load
    yield Pair(request.param)
    torch.compiler.reset()


def test_places(pair: Pair) -> None:
    a, b = pair.shaped
    assert parity.difference(a.events(), b.events()) == []


def test_shapes_change_nothing_else(pair: Pair) -> None:
    a, b = pair.plain

    def named(profile: Any) -> Counter[tuple[str, str | None]]:
        return Counter((e.name, e.cpu_parent and e.cpu_parent.name) for e in profile.events())

    # Not the scope: without shapes PyTorch does not look at the one that a fast range asks for.
    assert named(a) == named(b)


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
