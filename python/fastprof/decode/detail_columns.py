# SPDX-License-Identifier: Apache-2.0
"""Columns from the detail blocks of a capture's rows, found by the native capture or by NumPy.

A native capture finds them in one pass (csrc/include/fastprof/payload/blocks/detail_columns.hpp). The
NumPy form here has the same result; it serves other captures, and tests as the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fastprof.base.native_numbers import DetailType
from fastprof.base.record_scope import ENGINE_RANGE_PREFIX
from fastprof.decode.op_columns import OpInputColumns, formula_sites
from fastprof.model.table import EventFlag, SiteTable

__all__ = ["DetailReader", "Details", "find_details"]

Array: TypeAlias = NDArray[Any]
Blocks: TypeAlias = Iterator[tuple[Array, Array]]

_TEXTS = {
    "stack": DetailType.PYTHON_STACK,
    "modules": DetailType.MODULES,
    "json": DetailType.JSON,
    "overload": DetailType.OVERLOAD,
}
_NUMBERS = ("sequence_nr", "fwd_thread", "record_function_id", "node_id")


@runtime_checkable
class DetailReader(Protocol):
    """A capture that reads its rows' detail blocks itself: csrc/bindings/register_blocks.cpp."""

    def read_details(self, pair_sites: Sequence[bool]) -> dict[str, Any]:
        """Return columns by name, without those for which no row has a value."""

    def flops_of(
        self,
        inputs: Array,
        site_inputs: Sequence[tuple[int, int]],
        estimates: Sequence[float],
        wrappers: Sequence[bool],
    ) -> Array:
        """Return FLOPs by row: the estimate of its (site, inputs code); 0 for wrappers of counted ops."""

    def find_blocks(self, types: Sequence[int]) -> list[tuple[Array, Array]]:
        """Return for each type (rows, index of the first content word in the payload words), int64."""


@dataclass(frozen=True)
class Details:
    """The columns found in detail blocks; columns for which no row has a value are absent.

    numbers: sequence_nr, fwd_thread and node_id, -1 for none; record_function_id, 0 for none.
    texts: for "stack", "modules", "json" and "overload" (code of each row, -1 for none; index of each
    code's text in the capture's strings).
    blocks_of: type -> (rows, index of the first content word in the payload words) of its blocks.
    """

    numbers: Mapping[str, Array]
    texts: Mapping[str, tuple[Array, Sequence[int]]]
    inputs: OpInputColumns
    blocks_of: Callable[[int], Blocks]


class _Flops(NamedTuple):
    site_inputs: Sequence[tuple[int, int]]
    flops_of: Callable[..., Array]


def find_details(
    capture: Any,
    columns: Mapping[str, Array],
    sites: SiteTable,
    words: Array,
    with_flops: bool,
) -> Details:
    """Return the details of a capture with these columns, sites and payload words.

    Raises errors.ValueError if a row's details are truncated or contain an invalid reference.
    """
    if not isinstance(capture, DetailReader):
        return _Finder(columns, sites, words).details()
    found = capture.read_details(formula_sites(sites.names) if with_flops else [])
    codes, blocks, site_inputs = found.get("inputs", (None, [], []))
    reader = capture
    return Details(
        {name: found[name] for name in _NUMBERS if name in found},
        {name: found[name] for name in _TEXTS if name in found},
        OpInputColumns(codes, blocks, _Flops(site_inputs, capture.flops_of)),
        lambda kind: iter(reader.find_blocks([kind])),
    )


class _Finder:
    """Finds details with NumPy: the first block of all rows, then the second, and so on."""

    def __init__(self, columns: Mapping[str, Array], sites: SiteTable, words: Array) -> None:
        self._columns, self._sites, self._words = columns, sites, words
        self._size = len(columns["site"])
        self._blocks = list(self._find())

    def details(self) -> Details:
        texts = {name: self._texts(kind) for name, kind in _TEXTS.items()}
        return Details(
            self._numbers(),
            {name: found for name, found in texts.items() if found is not None},
            OpInputColumns.find(self._of(DetailType.OP_INPUTS), self._words, self._size),
            self._of,
        )

    def _find(self) -> Iterator[tuple[int, Array, Array]]:
        """Yield (type, rows, index of the first content word) of all blocks, one position at a time."""
        rows = np.flatnonzero(self._columns["flags"] & EventFlag.DETAIL)
        if not len(rows):
            return
        arguments = np.array([len(names) for names in self._sites.field("arg_names")], np.int64)
        at = self._columns["payload"][rows].astype(np.int64)
        at += arguments[self._columns["site"][rows]]
        last = at + 1 + (self._words[at] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        at += 1
        while len(rows):
            inside = at < last
            rows, at, last = rows[inside], at[inside], last[inside]
            block = self._words[at]
            kinds = (block & np.uint64(0xFFFF)).astype(np.int64)
            counts = ((block >> np.uint64(16)) & np.uint64(0xFFFF)).astype(np.int64)
            known = kinds != 0
            for kind in np.unique(kinds[known]):
                chosen = kinds == kind
                if kind == DetailType.OP_INPUTS_REF:
                    shared = (block[chosen] >> np.uint64(32)).astype(np.int64)
                    yield int(DetailType.OP_INPUTS), rows[chosen], shared + 1
                else:
                    yield int(kind), rows[chosen], at[chosen] + 1
            rows, at, last = rows[known], at[known] + 1 + counts[known], last[known]

    def _of(self, kind: int) -> Blocks:
        return ((rows, at) for found, rows, at in self._blocks if found == kind)

    def _numbers(self) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for rows, at in self._of(DetailType.OP):
            # An op has the first `count` of sequence number, forward thread, record function id, node.
            count = (self._words[at - 1] >> np.uint64(16)) & np.uint64(0xFFFF)
            for name, word in zip(_NUMBERS, (0, 1, 2, 3), strict=True):
                given = count > word
                self._gather(found, name, rows[given], at[given] + word)
        self._complete_links(found)
        return found

    def _gather(self, found: dict[str, Array], name: str, rows: Array, at: Array) -> None:
        """Store the words at `at` in a column, which is created with its first valid value."""
        values = self._words[at].view(np.int64)
        counts_from_one = name in ("fwd_thread", "record_function_id")
        given = values > 0 if counts_from_one else values >= 0
        if given.any():
            dtype: Any = np.int32 if name == "node_id" else np.int64
            none = 0 if name == "record_function_id" else -1
            column = found.setdefault(name, np.full(self._size, none, dtype))
            column[rows[given]] = values[given]

    def _complete_links(self, found: dict[str, Array]) -> None:
        """Copy a backward function's numbers to the engine's range around it, as PyTorch does.

        Rows without a sequence number lose their forward thread (AccumulateGrad sets its own).
        """
        if "fwd_thread" not in found:
            return
        site, parent = self._columns["site"], self._columns["parent"]
        forward = found["fwd_thread"]
        sequence = found.setdefault("sequence_nr", np.full(self._size, -1, np.int64))
        forward[sequence < 0] = -1
        names = self._sites.names
        wrapper = np.array([name.startswith(ENGINE_RANGE_PREFIX) for name in names], np.bool_)
        rows = np.flatnonzero(forward > 0)
        parents = parent[rows]
        rows, parents = rows[parents >= 0], parents[parents >= 0]
        inside = wrapper[site[parents]]
        rows, parents = rows[inside], parents[inside]
        sequence[parents], forward[parents] = sequence[rows], forward[rows]

    def _texts(self, kind: int) -> tuple[Array, list[int]] | None:
        """Return (code by row, text index by code) of the blocks that contain a text's index."""
        blocks = list(self._of(kind))
        if not blocks:
            return None
        rows = np.concatenate([rows for rows, _ in blocks])
        at = np.concatenate([at for _, at in blocks])
        indices, which = np.unique(self._words[at].astype(np.int64), return_inverse=True)
        codes = np.full(self._size, -1, np.int32)
        codes[rows] = which.reshape(-1)
        return codes, indices.tolist()
