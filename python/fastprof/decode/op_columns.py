# SPDX-License-Identifier: Apache-2.0
"""Columns of the inputs of ops: shapes, dtypes, values and FLOPs from a capture's payload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.decode.op_inputs import OpInputs, decode_op_inputs
from fastprof.model.columns import CodedBySite
from fastprof.model.table import CodedColumn, SiteTable

__all__ = ["FoundInputs", "OpInputColumns", "overload_names"]

Array: TypeAlias = NDArray[Any]


class FoundInputs(Protocol):
    """What a capture finds of its rows' FLOPs: csrc/include/fastprof/payload/blocks/op_flops.hpp."""

    @property
    def site_inputs(self) -> Sequence[tuple[int, int]]:
        """The distinct (site, block) pairs of the rows of ops with a formula."""

    @property
    def flops_of(self) -> Callable[..., Array]:
        """Function of codes, site_inputs, one estimate per pair, and per site whether it is a wrapper."""


class OpInputColumns:
    """The inputs of a capture's rows. False if no row has any.

    codes: per row 1 + the index of its block in `blocks`, 0 for none; None if no row has any.
    blocks: the distinct contents of DetailType::op_inputs blocks, decoded on first access.
    """

    def __init__(
        self, codes: Array | None, blocks: Sequence[Sequence[int]], found: FoundInputs
    ) -> None:
        self._codes = codes
        self._inputs = _Decoded(blocks)
        self._found = found

    def __bool__(self) -> bool:
        return self._codes is not None

    def coded(
        self, others: Mapping[str, CodedColumn], with_storages: bool = False
    ) -> dict[str, CodedColumn]:
        """Return the coded columns; rows without inputs keep their value in `others`.

        with_storages: include input_storages, which only sessions that record allocations have.
        """
        found: dict[str, CodedColumn] = {}
        if self._codes is None:
            return found
        for name in OpInputs._fields:
            if name == "input_storages" and not with_storages:
                continue
            other = others.get(name)
            if other is None:  # rows without inputs have an empty value, as in PyTorch
                nothing: Any = {} if name == "kwinputs" else []
                found[name] = CodedColumn(self._codes, _Field(self._inputs, name, (nothing,)))
                continue
            codes = self._codes - np.int32(1)
            kept = (codes < 0) & (other.codes >= 0)
            codes[kept] = other.codes[kept] + len(self._inputs)
            found[name] = CodedColumn(codes, _Joined(_Field(self._inputs, name), other.values))
        return found

    def flops(self, site: Array, names: Sequence[str]) -> Array:
        """Return FLOPs by row; 0 for ops without a formula (flops.py), as in PyTorch.

        An attention op is 0 if ops inside it are counted themselves.
        """
        if self._codes is None:
            return np.zeros(len(site))
        from fastprof.analysis.flops import are_wrappers, recorded_flops

        site_inputs = self._found.site_inputs
        estimates = []
        for at, block in site_inputs:
            it = self._inputs[block]
            estimates.append(
                recorded_flops(names[at], it.input_shapes, it.input_dtypes, it.concrete_inputs)
            )
        return self._found.flops_of(self._codes, site_inputs, estimates, are_wrappers(names))


def overload_names(
    site: Array, sites: SiteTable, recorded: CodedColumn | None = None
) -> CodedColumn | None:
    """Return the overload names of ops; None without any.

    recorded: names recorded with the row, by C++ RecordFunctions. PyTorch's ops have theirs in the
    function field of their site, whose file is empty.
    """
    categories, files = sites.field("category"), sites.field("file")
    names = [
        function if category == "cpu_op" and not file else ""
        for category, file, function in zip(categories, files, sites.field("function"), strict=True)
    ]
    if not any(names):
        return recorded
    values = sorted(set(names))
    code_of = {name: code for code, name in enumerate(values)}
    by_site = np.array([code_of[name] for name in names], np.int32)
    if recorded is None:
        return CodedBySite(site, by_site, values)
    codes = np.where(recorded.codes >= 0, recorded.codes + len(values), by_site[site])
    return CodedColumn(codes.astype(np.int32), (*values, *recorded.values))


class _Decoded(Sequence[OpInputs]):
    """Input blocks, each decoded once, on first access."""

    def __init__(self, blocks: Sequence[Sequence[int]]) -> None:
        self._blocks = blocks
        self._made: list[OpInputs | None] = [None] * len(blocks)

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, index: Any) -> Any:
        made = self._made[index]
        if made is None:
            try:
                made = decode_op_inputs(self._blocks[index])
            except IndexError:  # would otherwise end an iteration silently
                raise errors.FormatError("the recorded inputs of an op are incomplete") from None
            self._made[index] = made
        return made


class _Field(Sequence[Any]):
    """One field of all inputs, after the values `lead`."""

    def __init__(self, inputs: Sequence[OpInputs], name: str, lead: Sequence[Any] = ()) -> None:
        self._inputs, self._name, self._lead = inputs, name, lead

    def __len__(self) -> int:
        return len(self._lead) + len(self._inputs)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        at = index % len(self) - len(self._lead)
        return self._lead[at] if at < 0 else getattr(self._inputs[at], self._name)


class _Joined(Sequence[Any]):
    """Two concatenated sequences; the values of both may be computed on access."""

    def __init__(self, first: Sequence[Any], second: Sequence[Any]) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        split = len(self._first)
        return self._first[index] if index < split else self._second[index - split]
