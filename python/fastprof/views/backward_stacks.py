# SPDX-License-Identifier: Apache-2.0
"""Stacks of the backward pass: an op under a backward function gets its forward op's stack."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.record_scope import RecordScope
from fastprof.model.table import CodedColumn
from fastprof.model.tree import EventTree

__all__ = ["BACKWARD_FUNCTION", "forward_stacks", "set_forward_stacks"]

Array: TypeAlias = NDArray[Any]
BACKWARD_FUNCTION = int(RecordScope.BACKWARD_FUNCTION)


def forward_stacks(tree: EventTree, order: Array | None) -> CodedColumn | None:
    """Return the stack of each tree row by PyTorch's rule; None if the table has no stacks.

    Rows under a range of scope BACKWARD_FUNCTION (that range included) get the stack of the forward
    op: the first row in list order (`order`) that is not under such a range, has a stack, and whose
    (sequence number, thread) equals the range's (sequence number, forward thread). If no such row
    exists, they get an empty stack.
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
    functions = np.flatnonzero(scope == BACKWARD_FUNCTION)
    position = np.empty(len(tree), np.int64)
    position[functions] = np.arange(len(functions))
    sequence, thread = tree.column("sequence_nr"), tree.take(tree.table.recording_thread)
    listed = np.arange(len(tree)) if order is None else order
    forward = listed[(backward[listed] < 0) & (stacks.codes[listed] >= 0)]
    forward = forward[np.isin(sequence[forward], sequence[functions])]
    empty = len(stacks.values)
    function_codes = _first_of_key(
        (sequence[forward], thread[forward]),
        stacks.codes[forward],
        (sequence[functions], tree.column("fwd_thread")[functions]),
        empty,
    )
    codes = stacks.codes.copy()
    codes[under] = function_codes[position[backward[under]]]
    return CodedColumn(codes, [*stacks.values, ()])


def _first_of_key(
    keys: tuple[Array, Array], values: Array, wanted: tuple[Array, Array], default: int
) -> Array:
    """Return for each wanted pair the value of the first equal key, or `default`."""
    result = np.full(len(wanted[0]), default, np.int64)
    if not len(values) or not len(result):
        return result
    # Sequence numbers and threads of a profile are dense, so a table of all pairs is small. It is
    # filled from the last row to the first, so that the first wins.
    low = [int(part.min()) for part in keys]
    size = [int(part.max()) - at + 1 for part, at in zip(keys, low, strict=True)]
    if size[0] * size[1] > 8 * (len(values) + len(result)) + (1 << 20):
        first: dict[tuple[int, int], int] = {}
        for *key, value in zip(*(part.tolist() for part in keys), values.tolist(), strict=True):
            first.setdefault((key[0], key[1]), value)
        pairs = zip(*(part.tolist() for part in wanted), strict=True)
        return np.array([first.get(pair, default) for pair in pairs], np.int64)
    table = np.full(size[0] * size[1], default, np.int64)
    at = [part[::-1].astype(np.int64) - start for part, start in zip(keys, low, strict=True)]
    table[at[0] * size[1] + at[1]] = values[::-1]
    at = [part.astype(np.int64) - start for part, start in zip(wanted, low, strict=True)]
    inside = (at[0] >= 0) & (at[0] < size[0]) & (at[1] >= 0) & (at[1] < size[1])
    result[inside] = table[at[0][inside] * size[1] + at[1][inside]]
    return result


def set_forward_stacks(events: list[Any]) -> None:
    """Apply the same rule to linked FunctionEvents; assigns their `stack`."""
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
