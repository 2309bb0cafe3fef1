# SPDX-License-Identifier: Apache-2.0
"""Stacks of backward functions and of what they call: those of the forward op, by PyTorch's rule."""

from __future__ import annotations

import random

import pytest
from made_events import both_forms, event


def test_backward_ops_show_the_forward_stack() -> None:
    for events in both_forms(
        event("fwd", 0, 5, sequence_nr=4, stack=["model.py"]),
        event("later", 6, 7, sequence_nr=4, stack=["other.py"]),
        event("bwd", 10, 20, thread=2, scope=1, sequence_nr=4, fwd_thread=1, stack=["engine"]),
        event("mm", 11, 12, thread=2, stack=["engine"]),
        event("lost", 30, 31, thread=2, scope=1, sequence_nr=9, fwd_thread=1, stack=["engine"]),
        event("wrapper", 40, 41, thread=2, stack=["engine"]),
    ):
        stacks = {e.name: e.stack for e in events}
        assert stacks == {
            "fwd": ["model.py"], "later": ["other.py"], "bwd": ["model.py"], "mm": ["model.py"],
            "lost": [], "wrapper": ["engine"],
        }  # fmt: skip


@pytest.mark.parametrize("apart", [1, 1 << 40], ids=["close", "far apart"])
def test_forward_stacks_are_those_of_the_first_op(apart: int) -> None:
    drawn = random.Random(7)
    rows = []
    for i in range(400):
        forward = drawn.random() < 0.6
        rows.append(
            event(
                f"op{i}", 10 * i, 10 * i + drawn.choice([5, 25]), thread=drawn.randrange(1, 4),
                scope=0 if forward else 1, sequence_nr=drawn.randrange(-1, 40) * apart,
                fwd_thread=-1 if forward else drawn.randrange(1, 5),
                stack=[f"line {i}"] if drawn.random() < 0.9 else None,
            )
        )  # fmt: skip
    objects, columns = ({e.name: e.stack for e in events} for events in both_forms(*rows))
    assert objects == columns
    assert sum(stack == [] for stack in columns.values()) > 10
    repeated = [stack[0] for name, stack in columns.items() if stack and stack[0][5:] != name[2:]]
    assert len(repeated) > len(set(repeated)) > 10


def test_without_a_forward_op_the_stack_is_empty() -> None:
    rows = [
        event("b", i, i + 1, id=i, scope=1, sequence_nr=i, fwd_thread=1, stack=["own"])
        for i in range(2)
    ]
    for events in both_forms(*rows):
        assert [e.stack for e in events] == [[], []]
    for events in both_forms(event("op", 0, 1, sequence_nr=1, stack=["own"])):
        assert events[0].stack == ["own"]


def test_lists_without_stacks_have_none() -> None:
    for events in both_forms(event("f", 0, 1), event("b", 2, 3, scope=1, fwd_thread=1)):
        assert not events[0].stack and not events[1].stack
