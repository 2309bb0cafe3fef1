# SPDX-License-Identifier: Apache-2.0
"""Stacks of the backward pass: an op under a backward function shows where its forward op was."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.table import CodedColumn
from fastprof.tree import EventTree

__all__ = ["BACKWARD_FUNCTION", "forward_stacks", "set_forward_stacks"]

Array: TypeAlias = NDArray[Any]
BACKWARD_FUNCTION = 1  # RecordScope::BACKWARD_FUNCTION


def forward_stacks(tree: EventTree, order: Array | None) -> CodedColumn | None:
    """Stack of each tree row by PyTorch's rule; None when the table has no stacks.

    Rows under a range of scope BACKWARD_FUNCTION (it included) get the stack of the first row in
    list order (`order`) that is under none, has a stack, and has the range's (sequence number,
    forward thread) as (sequence number, thread); an empty stack when there is no such row.
    """
    stacks = tree.table.coded.get("stack")
    if stacks is None:
        return None
    if tree.rows is not None:
        stacks = stacks.take(tree.rows)
    scope = tree.column("scope")
    if not bool((scope == BACKWARD_FUNCTION).any()):
        return stacks
    backward = np.where(scope == BACKWARD_FUNCTION, np.arange(len(tree)), -1)
    for level in tree.levels[1:]:
        inherit = level[backward[level] < 0]
        backward[inherit] = backward[tree.parent[inherit]]
    under = np.flatnonzero(backward >= 0)
    functions, function_of = np.unique(backward[under], return_inverse=True)
    sequence, thread = tree.column("sequence_nr"), tree.take(tree.table.thread)
    listed = np.arange(len(tree)) if order is None else order
    forward = listed[(backward[listed] < 0) & (stacks.codes[listed] >= 0)]
    forward = forward[np.isin(sequence[forward], sequence[functions])]
    found: dict[tuple[int, int], int] = {}
    keys = zip(sequence[forward].tolist(), thread[forward].tolist(), strict=True)
    for key, code in zip(keys, stacks.codes[forward].tolist(), strict=True):
        found.setdefault(key, code)
    empty = len(stacks.values)
    fwd_thread = tree.column("fwd_thread")[functions]
    wanted = zip(sequence[functions].tolist(), fwd_thread.tolist(), strict=True)
    function_codes = np.array([found.get(key, empty) for key in wanted], np.int64)
    codes = stacks.codes.copy()
    codes[under] = function_codes[function_of]
    return CodedColumn(codes, [*stacks.values, ()])


def set_forward_stacks(events: list[Any]) -> None:
    """The same rule on linked FunctionEvents; assigns their `stack`."""
    backward: dict[int, Any] = {}

    def above(event: Any) -> Any:
        path = []
        while event is not None and id(event) not in backward and event.scope != BACKWARD_FUNCTION:
            path.append(event)
            event = event.cpu_parent
        found = None if event is None else backward.get(id(event), event)
        for passed in path:
            backward[id(passed)] = found
        return found

    stacks: dict[Hashable, Any] = {}
    for event in events:
        if above(event) is None and event.stack is not None:
            stacks.setdefault((event.sequence_nr, event.thread), event.stack)
    for event in events:
        parent = above(event)
        if parent is not None:
            event.stack = stacks.get((parent.sequence_nr, parent.fwd_thread), [])
