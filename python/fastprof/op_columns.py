# SPDX-License-Identifier: Apache-2.0
"""Columns of the inputs of ops: what of a capture's payload says shapes, dtypes, values and FLOPs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.flops import FLOP_FORMULAS, estimate_flops
from fastprof.op_inputs import OpInputs, code_blocks, decode_op_inputs
from fastprof.table import CodedColumn, SiteTable

__all__ = ["OpInputColumns", "overload_names"]

Array: TypeAlias = NDArray[Any]


class OpInputColumns:
    """The inputs of a capture's rows. Falsy when no row has any.

    rows, codes: the rows that have inputs, and which of `blocks`, the distinct contents of their
    DetailType::shapes blocks, each has. size: of all rows.
    """

    def __init__(
        self, rows: Array, codes: Array, blocks: Sequence[Sequence[int]], size: int
    ) -> None:
        self._size, self._rows, self._codes = size, rows, codes
        self._inputs = [decode_op_inputs(block) for block in blocks]

    @classmethod
    def find(cls, blocks: Iterable[tuple[Array, Array]], words: Array, size: int) -> OpInputColumns:
        """From rows and, for each, the index in `words` of its block's first word."""
        found = [(rows, at) for rows, at in blocks if len(rows)]
        if not found:
            return cls(np.empty(0, np.int64), np.empty(0, np.int32), [], size)
        at = np.concatenate([at for _, at in found])
        count = ((words[at - 1] >> np.uint64(16)) & np.uint64(0xFFFF)).astype(np.int64)
        return cls(
            np.concatenate([rows for rows, _ in found]), *code_blocks(words, at, count), size
        )

    def __bool__(self) -> bool:
        return bool(self._inputs)

    def coded(self, others: Mapping[str, CodedColumn]) -> dict[str, CodedColumn]:
        """The columns of objects; rows without inputs keep what `others` say of them."""
        found = {}
        nothing = len(self._inputs)  # the code of rows without inputs, which the columns share
        shared = np.full(self._size, nothing, np.int32)
        shared[self._rows] = self._codes
        for name in OpInputs._fields:
            values: list[Any] = [getattr(inputs, name) for inputs in self._inputs]
            other = others.get(name)
            if other is not None:
                codes = np.where(shared == nothing, np.int32(-1), shared)
                kept = (codes < 0) & (other.codes >= 0)
                codes[kept] = other.codes[kept] + len(values)
                found[name] = CodedColumn(codes, _Joined(values, other.values))
                continue
            values.append(
                {} if name == "kwinputs" else []
            )  # the others have nothing, as in PyTorch
            found[name] = CodedColumn(shared, tuple(values))
        return found

    def flops(self, site: Array, names: Sequence[str], parent: Array) -> Array:
        """FLOPs by row: 0 for what has no formula (flops.py), as in PyTorch.

        An op whose formula covers what ops inside it are counted for has 0.
        """
        flops = np.zeros(self._size)
        with_formula = np.array(
            [name.removeprefix("aten::") in FLOP_FORMULAS for name in names], np.bool_
        )
        chosen = with_formula[site[self._rows]]
        rows, codes = self._rows[chosen], self._codes[chosen]
        pair_of = site[rows].astype(np.int64) * len(self._inputs) + codes
        pairs, which = _distinct(pair_of, len(names) * len(self._inputs))
        estimates = []
        for pair in pairs.tolist():
            inputs = self._inputs[pair % len(self._inputs)]
            name = names[pair // len(self._inputs)]
            known = inputs.input_dtypes[:1] != [""]  # a nested tensor has no sizes
            estimate = estimate_flops(name, inputs.input_shapes, inputs.concrete_inputs)
            estimates.append(estimate.flops if known and estimate is not None else 0)
        flops[rows] = np.array(estimates, np.float64)[which]
        covering = np.array([name.endswith("dot_product_attention") for name in names], np.bool_)
        if covering.any():
            _leave_out_covered(flops, covering[site], parent)
        return flops


def _distinct(values: Array, size: int) -> tuple[Array, Array]:
    """np.unique with its inverse, of integers in [0, size): without sorting when that is cheaper."""
    if size > 4 * len(values) + (1 << 16):
        found, which = np.unique(values, return_inverse=True)
        return found, which.reshape(-1)
    position = np.zeros(size, np.int32)
    position[values] = 1
    found = np.flatnonzero(position)
    position[found] = np.arange(len(found), dtype=np.int32)
    return found, position[values]


def _leave_out_covered(flops: Array, covering: Array, parent: Array) -> None:
    at = parent[np.flatnonzero((flops > 0) & ~covering)]
    while len(at):
        at = np.unique(at[at >= 0])
        flops[at[covering[at]]] = 0.0
        at = parent[at]


def overload_names(site: Array, sites: SiteTable) -> CodedColumn | None:
    """Overload names of ops, which their sites carry in place of a function; None without any."""
    categories, files = sites.field("category"), sites.field("file")
    names = [
        function if category == "cpu_op" and not file else ""
        for category, file, function in zip(categories, files, sites.field("function"), strict=True)
    ]
    if not any(names):
        return None
    values = sorted(set(names))
    by_site = np.array([values.index(name) for name in names], np.int32)
    return CodedColumn(by_site[site], tuple(values))


class _Joined(Sequence[Any]):
    """Two sequences, one behind the other; the second may make its values when they are read."""

    def __init__(self, first: Sequence[Any], second: Sequence[Any]) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        split = len(self._first)
        return self._first[index] if index < split else self._second[index - split]
