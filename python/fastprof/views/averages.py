# SPDX-License-Identifier: Apache-2.0
"""Group the rows of an EventFrame by key and sum them: key_averages without one object per event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.model.grouping import group_firsts, group_floats, group_times, group_usage
from fastprof.model.table import CodedColumn
from fastprof.model.tree import EventTree, sum_by
from fastprof.views.frame import EventFrame

__all__ = ["Grouping", "average", "group_rows"]

Array: TypeAlias = NDArray[Any]


class Grouping(NamedTuple):
    """Rows by group. codes: group number of each row. first: first row of each group in list order."""

    codes: Array
    first: Array


def group_rows(
    frame: EventFrame,
    tree: EventTree,
    by_shapes: bool = False,
    by_stack_n: int = 0,
    by_overload: bool = False,
) -> Grouping:
    """Group rows by (name, node, device type, legacy, annotation[, overload][, shapes][, frames]).

    Groups are numbered in the order of their first row in the list.

    tree: the tree that the frame was made from. Cost: O(rows).
    """
    codes = frame.key.codes
    size = len(frame.key.values)
    columns = [frame.node_id, frame.device_type, frame.is_legacy]
    if not frame.annotation_in_key:
        columns.append(frame.is_user_annotation)
    for column in columns:
        if frame.size and column.strides != (0,):
            codes, size = _split(codes, size, *_small_codes(column))
    if by_overload and frame.overload_name is not None:
        codes, size = _split(codes, size, *_text_codes(frame.overload_name, None))
    if by_shapes and frame.input_shapes is not None:
        codes, size = _split(codes, size, *_text_codes(frame.input_shapes, None))
    if by_stack_n > 0 and frame.stack is not None:
        codes, size = _split(codes, size, *_text_codes(frame.stack, by_stack_n))
    first = group_firsts(tree, codes, size, frame.order)
    present = np.flatnonzero(first >= 0)
    ranked = present[np.argsort(_list_position(first[present], frame), kind="stable")]
    if len(ranked) == size and bool((ranked[1:] > ranked[:-1]).all()):
        return Grouping(codes, first)
    rank = np.full(size, -1, np.int32)
    rank[ranked] = np.arange(len(ranked), dtype=np.int32)
    return Grouping(rank[codes], first[ranked])


def average(
    frame: EventFrame,
    grouping: Grouping,
    tree: EventTree,
    by_shapes: bool = False,
    by_stack_n: int = 0,
    by_overload: bool = False,
) -> EventFrame:
    """Return the summed frame, one row per group; fields not grouped by are blank, as in PyTorch.

    tree: the tree that the frame was made from. CPU times, memory and FLOPs are summed from it
    (model/grouping.py) and the frame's own are not read, so a frame made by
    EventFrame.from_tree(..., times=False) suffices.
    """
    codes, first = grouping
    groups = len(first)
    sums: dict[str, Any] = {}
    times = group_times(tree, codes, groups)
    sums["cpu_time_total"], sums["self_cpu_time_total"], sums["count"] = times
    for column in ("cpu_memory_usage", "device_memory_usage"):
        if tree.table.has(column):
            usage = group_usage(tree, column, codes, groups)
            sums[column], sums[f"self_{column}"] = usage
    for field in ("device_time_total", "self_device_time_total"):
        values = getattr(frame, field)
        sums[field] = None if values is None else sum_by(codes, values, groups)
    flops = None
    if tree.table.has("flops"):
        flops = group_floats(tree, "flops", codes, groups, frame.order)
    blank = CodedColumn(np.full(groups, 0, np.int32), ("",))
    no_stack = CodedColumn(np.full(groups, 0, np.int32), ((),))
    stack = no_stack
    if by_stack_n > 0 and frame.stack is not None:
        cut = [list(value)[:by_stack_n] for value in frame.stack.values]
        # Code -1 (a row without a stack) becomes the last value, an empty stack.
        stack = CodedColumn(frame.stack.codes[first] % (len(cut) + 1), [*cut, []])
    return replace(
        frame,
        size=groups,
        key=frame.key.take(first),
        annotation_in_key=False,
        flops=flops,
        node_id=frame.node_id[first],
        device_type=frame.device_type[first],
        is_async=frame.is_async[first],
        is_legacy=frame.is_legacy[first],
        is_user_annotation=frame.is_user_annotation[first],
        has_parent=tree.parent[first] >= 0,
        overload_name=_taken(frame.overload_name, first) if by_overload else blank,
        input_shapes=_taken(frame.input_shapes, first) if by_shapes else blank,
        stack=stack,
        order=None,
        **sums,
    )


def _taken(column: CodedColumn | None, rows: Array) -> CodedColumn | None:
    return None if column is None else column.take(rows)


def _small_codes(column: Array) -> tuple[Array, int]:
    values, codes = np.unique(column, return_inverse=True)
    return codes, len(values)


def _text_codes(column: CodedColumn, n_frames: int | None) -> tuple[Array, int]:
    """Return codes by the compared key: a value's text, or the first n_frames of a stack."""
    index: dict[Any, int] = {}
    table = np.empty(len(column.values) + 1, np.int32)
    for position, value in enumerate(column.values):
        key = str(value) if n_frames is None else tuple(value)[:n_frames]
        table[position] = index.setdefault(key, len(index))
    table[-1] = index.setdefault("None" if n_frames is None else (), len(index))
    return table[column.codes], len(index)  # code -1 selects the last entry


def _split(codes: Array, size: int, other: Array, other_size: int) -> tuple[Array, int]:
    """Return compact codes of the pairs (codes, other) that occur, and their number."""
    if other_size <= 1:
        return codes, size
    pairs = codes.astype(np.int64) * other_size + other
    if size * other_size > max(4 * len(pairs), 1 << 16):
        _, compact = np.unique(pairs, return_inverse=True)
        return compact, int(compact.max()) + 1 if len(compact) else 0
    used = np.zeros(size * other_size, np.bool_)
    used[pairs] = True
    position = np.cumsum(used) - 1
    return position[pairs], int(position[-1]) + 1 if len(position) else 0


def _list_position(rows: Array, frame: EventFrame) -> Array:
    if frame.order is None:
        return rows
    position = np.empty(frame.size, np.int64)
    position[frame.order] = np.arange(frame.size)
    return position[rows]
