# SPDX-License-Identifier: Apache-2.0
"""Anti-patterns in ops: each function returns (rows of the events, estimated gain in ns)."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.named_rows import NamedRows
from fastprof.base.distinct import distinct

__all__ = [
    "conv_bias",
    "extra_copies",
    "fp32_matmul",
    "loop_indexing",
    "misaligned_half",
    "single_tensor_optimizer",
    "tiny_ops",
    "zeroed_gradients",
]

Array: TypeAlias = NDArray[Any]
_NOTHING: tuple[Array, float] = (np.zeros(0, np.int64), 0.0)
_FILLS = frozenset({"aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_"})
_SINGLE = re.compile(r"_single_tensor_(adam|sgd|adamw)$")
_ZERO_GRAD = re.compile(r"(: zero_grad|^Optimizer\.zero_grad#.*)$")
_ROUNDS = 10  # least number of repetitions that count as a loop
_TINY_NS, _TINY_COUNT = 20_000, 1000


def _rows(found: list[int]) -> Array:
    return np.array(found, np.int64)


def extra_copies(rows: NamedRows) -> tuple[Array, float]:
    """Find each aten::to that copies a tensor without a change of dtype right after an op that filled it on the CPU."""
    if not rows.table.has("device_type") or not rows.table.has("input_dtypes"):
        return _NOTHING
    found = []
    for row in rows.named("aten::to").tolist():
        convert = rows.last_child(row)
        copy = -1 if convert < 0 or rows.name(convert) != "aten::_to_copy" else convert
        copy = rows.last_child(copy) if copy >= 0 else -1
        if copy < 0 or rows.name(copy) != "aten::copy_":
            continue
        dtypes = rows.detail(copy, "input_dtypes") or []
        if len(dtypes) < 2 or not dtypes[0] or dtypes[0] != dtypes[1]:
            continue
        # The filling op precedes the move itself, or the Python call that made it.
        before = rows.sibling(row, -1)
        if before < 0 and rows.parent[row] >= 0:
            before = rows.sibling(int(rows.parent[row]), -1)
        while before >= 0 and rows.name(before) not in _FILLS:
            before = rows.last_child(before)
        if before >= 0:
            found.append(row)
    return _rows(found), rows.total_ns(_rows(found))


def loop_indexing(rows: NamedRows) -> tuple[Array, float]:
    """Find loops: aten::select and the ops after it, repeated at least ten times among siblings."""
    selects = rows.named("aten::select")
    if len(selects) < _ROUNDS:
        return _NOTHING
    keys = np.stack([rows.thread[selects], rows.parent[selects]])
    _, group, count = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    found: list[int] = []
    gain = 0.0
    for number in np.flatnonzero(count >= _ROUNDS):
        inside = selects[group == number]
        mask = (rows.parent == rows.parent[inside[0]]) & (rows.thread == rows.thread[inside[0]])
        siblings = np.flatnonzero(mask)
        siblings = siblings[np.argsort(rows.start[siblings], kind="stable")]
        first, lost = _repeats(rows, siblings, int(rows.name_id[inside[0]]))
        found += first
        gain += lost
    return _rows(found), gain


def _repeats(rows: NamedRows, siblings: Array, select: int) -> tuple[list[int], float]:
    """Return the first row of each loop, and the time of all its rounds but one. select: id of the name."""
    names = rows.name_id[siblings]
    at = np.flatnonzero(names == select)
    found: list[int] = []
    gain, index = 0.0, 0
    while index + 1 < len(at):
        begin, length = int(at[index]), int(at[index + 1] - at[index])
        end = begin + length
        while np.array_equal(names[end : end + length], names[begin : begin + length]):
            end += length
        if end - begin >= _ROUNDS * length:
            found.append(int(siblings[begin]))
            gain += rows.total_ns(siblings[begin + length : end])
        index = max(index + 1, int(np.searchsorted(at, end)))
    return found, gain


def fp32_matmul(rows: NamedRows) -> tuple[Array, float]:
    """Find matrix products whose kernel is a plain sgemm."""
    kernels = rows.table.kernels
    if kernels is None or not len(kernels):
        return _NOTHING
    plain = [
        "sgemm" in name and not re.search("tf32|tensorop|s1688", name) for name in kernels.names
    ]
    chosen = np.array(plain, np.bool_)[kernels.name] if plain else np.zeros(0, np.bool_)
    products = rows.named("aten::mm", "aten::addmm", "aten::bmm")
    table_rows = products if rows.tree.rows is None else rows.tree.rows[products]
    mine = chosen & np.isin(kernels.row, table_rows)
    found = products[np.isin(table_rows, kernels.row[mine])]
    return found, float(kernels.duration_ns[mine].sum()) / 2


def single_tensor_optimizer(rows: NamedRows) -> tuple[Array, float]:
    """Find updates of an optimizer that go parameter by parameter though a multi-tensor form exists."""
    found = rows.where(_SINGLE.search)
    return found, rows.total_ns(rows.outermost(found)) / 2


def zeroed_gradients(rows: NamedRows) -> tuple[Array, float]:
    """Find calls of zero_grad that write zeros."""
    calls = rows.where(_ZERO_GRAD.search)
    if not len(calls):
        return _NOTHING
    zeroing = rows.named("aten::zero_", "aten::_foreach_zero_")
    fresh = rows.named("aten::zeros")
    zeroing = zeroing[~np.isin(rows.parent[zeroing], fresh)]
    by_call = rows.nearest(zeroing, rows.outermost(calls))
    inside = zeroing[by_call >= 0]
    return distinct(by_call[by_call >= 0]), rows.total_ns(rows.outermost(inside))


def conv_bias(rows: NamedRows) -> tuple[Array, float]:
    """Find convolutions with a bias whose next op is a batch norm."""
    tops = rows.top_ops
    # In training, a batch norm first counts its batches by an add_.
    tops = tops[~np.isin(tops, rows.named("aten::add_"))]
    if len(tops) < 2 or not rows.table.has("input_dtypes"):
        return _NOTHING
    convolutions = np.isin(tops, rows.named("aten::conv2d"))
    norms = np.isin(tops, rows.named("aten::batch_norm"))
    same_thread = rows.thread[tops[:-1]] == rows.thread[tops[1:]]
    candidates = tops[:-1][convolutions[:-1] & norms[1:] & same_thread]
    found = []
    for row in candidates.tolist():
        dtypes = rows.detail(row, "input_dtypes") or []
        shapes = rows.detail(row, "input_shapes") or []
        if len(dtypes) > 2 and dtypes[2] and len(shapes) > 2 and shapes[2]:
            found.append(row)
    return _rows(found), rows.total_ns(_rows(found)) * 0.03


def misaligned_half(rows: NamedRows) -> tuple[Array, float]:
    """Find products of 16-bit matrices of which a dimension is not a multiple of 8."""
    if not rows.table.has("input_dtypes") or not rows.table.has("input_shapes"):
        return _NOTHING
    found = []
    for row in rows.named("aten::mm", "aten::bmm", "aten::addmm").tolist():
        dtypes = rows.detail(row, "input_dtypes") or [""]
        if not dtypes or not re.search("half|bfloat16", str(dtypes[0]), re.IGNORECASE):
            continue
        shapes = [s for s in rows.detail(row, "input_shapes") or [] if s]
        if any(size % 8 for shape in shapes for size in shape[-2:] if isinstance(size, int)):
            found.append(row)
    kernels = rows.table.kernels
    events = _rows(found)
    if kernels is None or not len(events):
        return events, 0.0  # on a CPU, alignment gains nothing that could be estimated
    table_rows = [rows.tree.table_row(row) for row in found]
    return events, float(kernels.duration_ns[np.isin(kernels.row, table_rows)].sum()) / 2


def tiny_ops(rows: NamedRows) -> tuple[Array, float]:
    """Find ops shorter than 20 us, if there are at least 1000 and they take at least half of all ops' time."""
    tops = rows.top_ops
    duration = rows.end[tops] - rows.start[tops]
    tiny = tops[duration < _TINY_NS]
    if len(tiny) < _TINY_COUNT or rows.total_ns(tiny) * 2 < float(duration.sum()):
        return _NOTHING
    floor = float(np.percentile(rows.end[tiny] - rows.start[tiny], 5))
    return tiny, floor * len(tiny) * 0.75
