# SPDX-License-Identifier: Apache-2.0
"""Which versions of storages are activations, inputs of the forward pass or the optimizer's: op by op."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastprof.analysis.memory_categories.kinds import Category
from fastprof.analysis.memory_categories.rules import (
    Categories,
    _activations,
    _autograd_detail,
    _optimizer_state,
)

I, A, P, T, G = (  # noqa: E741
    Category.INPUT, Category.ACTIVATION, Category.PARAMETER, Category.TEMPORARY, Category.GRADIENT,
)  # fmt: skip
OF = {I: 1, A: 2, P: 3, T: 4, G: 5, None: 6}  # a storage of each category
MADE = (9, 0)


def known() -> Categories:
    found = Categories()
    found.of_storage = {OF[P]: P, OF[G]: G}
    found.temporaries = {OF[T]}
    found.of_version = {(OF[I], 0): I, (OF[A], 0): A}
    return found


def node(*reads: Any, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "in_backward": False, "makes": {MADE}, "freed": set(), "created": set(), "written": set(),
        "step": SimpleNamespace(is_op=True),
    }  # fmt: skip
    return SimpleNamespace(**(fields | more), reads={(OF[category], 0) for category in reads})


@pytest.mark.parametrize(
    ("reads", "forward", "in_phase"),
    [
        ((I,), A, None),
        ((A,), A, A),
        ((I, P), A, None),
        ((A, P), A, None),
        ((I, A), A, A),
        ((A, T), A, A),
        ((I, A, P, T), A, None),
        ((P,), None, None),  # of parameters alone: no pass
        ((T,), None, None),
        ((P, T), None, None),
        ((A, G), None, None),  # something else besides
        ((A, None), None, None),
        ((), None, None),
    ],
)
def test_what_ops_make_of_activations(
    reads: tuple[Any, ...], forward: Category | None, in_phase: Category | None
) -> None:
    """Within the optimizer's phases only what is made of activations without parameters: metrics and logs."""
    for phases, expected in (([], forward), ([range(1, 2)], forward), ([range(1)], in_phase)):
        found = known()
        _activations([node(*reads)], phases, found)
        assert found.get(MADE) is expected
    found = known()
    _activations([node(*reads, in_backward=True)], [], found)
    assert found.get(MADE) is None


def test_what_the_optimizer_keeps_until_its_next_phase() -> None:
    def state(freed_in: int | None, *reads: Any, made: int = 9, **more: Any) -> Categories:
        nodes = [node(*reads, makes={(made, 0)}, **more), *(node(makes=set()) for _ in range(4))]
        if freed_in is not None:
            nodes[freed_in].freed = {made}
        found = known()
        _optimizer_state(nodes, [range(1), range(3, 4)], found)
        return found

    kept = Category.OPTIMIZER_STATE
    assert state(None, P, G).of_storage[9] is kept
    assert state(3, P, G).of_storage[9] is state(4, P).of_storage[9] is kept
    for freed_in in (0, 1, 2):
        assert 9 not in state(freed_in, P).of_storage
        assert 9 not in state(freed_in, P).temporaries
        assert 9 in state(freed_in, P, created={9}).temporaries
    no_op = SimpleNamespace(is_op=False)
    assert 9 not in state(1, P, created={9}, step=no_op).temporaries
    assert 9 not in state(None, A).of_storage  # a metric or a log
    assert state(None, G, made=OF[P]).of_storage[OF[P]] is P
    assert state(None, P, made=OF[G]).of_storage[OF[G]] is G


def test_the_last_phase_keeps_until_the_end() -> None:
    for freed, expected in (({1: 9}, None), ({}, Category.OPTIMIZER_STATE)):
        nodes = [node(P), node(makes=set()), node(makes=set())]
        for at, storage in freed.items():
            nodes[at].freed = {storage}
        found = known()
        _optimizer_state(nodes, [range(1)], found)
        assert found.of_storage.get(9) is expected


def test_what_backward_makes_besides() -> None:
    detail = Category.AUTOGRAD_DETAIL
    found = known()
    _autograd_detail([node(makes={(9, 0), (9, 1)}, in_backward=True), node(makes={(8, 0)})], found)
    assert [found.get((9, version)) for version in (0, 1, 2)] == [detail, detail, None]
    assert found.get((8, 0)) is None
    found.of_version[7, 0] = A
    _autograd_detail([node(makes={(7, 1), (6, 3)}, in_backward=True)], found)
    assert found.get((7, 1)) is None  # a version of an activation
    assert found.get((6, 3)) is detail


def test_which_role_counts() -> None:
    found = known()
    assert [found.get((OF[c], 0)) for c in (I, A, P, T, G, None)] == [I, A, P, T, G, None]
    found.add((OF[A], 0), T)
    assert found.get((OF[A], 0)) is A  # the first of a version
    found.temporaries.add(OF[A])
    assert found.get((OF[A], 0)) is T
    found.of_storage[OF[A]] = G
    assert found.get((OF[A], 0)) is G
