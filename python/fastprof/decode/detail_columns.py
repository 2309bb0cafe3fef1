# SPDX-License-Identifier: Apache-2.0
"""What the details of a capture's rows say, as columns: by the capture itself, or by NumPy.

A session's capture finds them in one walk (csrc/include/fastprof/range_detail/detail_columns.hpp).
What NumPy finds here is the same, for captures that cannot, and what the tests hold that to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fastprof.decode.op_columns import OpInputColumns, formula_sites
from fastprof.model.table import EventFlag, SiteTable

__all__ = ["COUNTERS_BEGIN", "COUNTERS_END", "DetailReader", "Details", "find_details"]

Array: TypeAlias = NDArray[Any]
Blocks: TypeAlias = Iterator[tuple[Array, Array]]

# DetailType in csrc/include/fastprof/recorder/site.hpp.
COUNTERS_BEGIN, COUNTERS_END = 1, 2
_PYTHON_STACK, _OP, _SHAPES, _JSON, _MODULES, _SHAPES_AT, _OVERLOAD = 4, 5, 6, 7, 9, 10, 11
_TEXTS = {"stack": _PYTHON_STACK, "modules": _MODULES, "json": _JSON, "overload": _OVERLOAD}
_NUMBERS = ("sequence_nr", "fwd_thread", "record_function_id", "node_id")

# Names of the ranges that PyTorch's autograd engine puts around each backward function.
_ENGINE_PREFIX = "autograd::engine::evaluate_function: "


@runtime_checkable
class DetailReader(Protocol):
    """A capture that reads its rows' details itself: csrc/bindings/register_blocks.cpp."""

    def read_details(self, pair_sites: Sequence[bool]) -> dict[str, Any]:
        """Columns by name; what no row has is left out."""

    def flops_of(
        self,
        inputs: Array,
        pairs: Sequence[tuple[int, int]],
        estimates: Sequence[float],
        covering: Sequence[bool],
    ) -> Array:
        """FLOPs by row: the estimate of its (site, code) of inputs, less what is covered."""

    def find_blocks(self, types: Sequence[int]) -> list[tuple[Array, Array]]:
        """(rows, index in the payload words of the first content word) for each type, int64."""


@dataclass(frozen=True)
class Details:
    """numbers: sequence_nr, fwd_thread and node_id, where some row has one, -1 for none;
    record_function_id, 0 for none.

    texts: (code of each row, -1 for none; index of the text in the capture's strings, by code) of
    "stack", "modules", "json" and "overload", where some row has one. blocks_of: (rows, index in the payload
    words of the first content word) of the blocks of a type.
    """

    numbers: Mapping[str, Array]
    texts: Mapping[str, tuple[Array, Sequence[int]]]
    inputs: OpInputColumns
    blocks_of: Callable[[int], Blocks]


class _Flops(NamedTuple):
    pairs: Sequence[tuple[int, int]]
    flops_of: Callable[..., Array]


def find_details(
    capture: Any,
    columns: Mapping[str, Array],
    sites: SiteTable,
    words: Array,
    with_flops: bool,
) -> Details:
    """The details of a capture with these columns, sites and payload words.

    Raises errors.ValueError when a row's details are cut short or refer to what is not there.
    """
    if not isinstance(capture, DetailReader):
        return _Finder(columns, sites, words).details()
    found = capture.read_details(formula_sites(sites.names) if with_flops else [])
    codes, blocks, pairs = found.get("inputs", (None, [], []))
    reader = capture
    return Details(
        {name: found[name] for name in _NUMBERS if name in found},
        {name: found[name] for name in _TEXTS if name in found},
        OpInputColumns(codes, blocks, _Flops(pairs, capture.flops_of)),
        lambda kind: iter(reader.find_blocks([kind])),
    )


class _Finder:
    """The same by NumPy, block after block of all rows at once."""

    def __init__(self, columns: Mapping[str, Array], sites: SiteTable, words: Array) -> None:
        self._columns, self._sites, self._words = columns, sites, words
        self._size = len(columns["site"])
        self._blocks = list(self._find())

    def details(self) -> Details:
        texts = {name: self._texts(kind) for name, kind in _TEXTS.items()}
        return Details(
            self._numbers(),
            {name: found for name, found in texts.items() if found is not None},
            OpInputColumns.find(self._of(_SHAPES), self._words, self._size),
            self._of,
        )

    def _find(self) -> Iterator[tuple[int, Array, Array]]:
        """(type, rows, index of the first content word) of all detail blocks, a layer at a time."""
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
                if kind == _SHAPES_AT:
                    shared = (block[chosen] >> np.uint64(32)).astype(np.int64)
                    yield _SHAPES, rows[chosen], shared + 1
                else:
                    yield int(kind), rows[chosen], at[chosen] + 1
            rows, at, last = rows[known], at[known] + 1 + counts[known], last[known]

    def _of(self, kind: int) -> Blocks:
        return ((rows, at) for found, rows, at in self._blocks if found == kind)

    def _numbers(self) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for rows, at in self._of(_OP):
            # Ops carry as many of (sequence number, forward thread, record function id, node) as they have.
            count = (self._words[at - 1] >> np.uint64(16)) & np.uint64(0xFFFF)
            for name, word in zip(_NUMBERS, (0, 1, 2, 3), strict=True):
                given = count > word
                self._gather(found, name, rows[given], at[given] + word)
        self._complete_links(found)
        return found

    def _gather(self, found: dict[str, Array], name: str, rows: Array, at: Array) -> None:
        """Put the words at `at` into a column, made when some row has a value."""
        values = self._words[at].view(np.int64)
        counts_from_one = name in ("fwd_thread", "record_function_id")
        given = values > 0 if counts_from_one else values >= 0
        if given.any():
            dtype: Any = np.int32 if name == "node_id" else np.int64
            none = 0 if name == "record_function_id" else -1
            column = found.setdefault(name, np.full(self._size, none, dtype))
            column[rows[given]] = values[given]

    def _complete_links(self, found: dict[str, Array]) -> None:
        """PyTorch's rule: the engine's range around a backward function shows that one's numbers.

        Without a sequence number there is no forward thread (AccumulateGrad has one of its own).
        """
        if "fwd_thread" not in found:
            return
        site, parent = self._columns["site"], self._columns["parent"]
        forward = found["fwd_thread"]
        sequence = found.setdefault("sequence_nr", np.full(self._size, -1, np.int64))
        forward[sequence < 0] = -1
        names = self._sites.names
        wrapper = np.array([name.startswith(_ENGINE_PREFIX) for name in names], np.bool_)
        rows = np.flatnonzero(forward > 0)
        parents = parent[rows]
        rows, parents = rows[parents >= 0], parents[parents >= 0]
        inside = wrapper[site[parents]]
        rows, parents = rows[inside], parents[inside]
        sequence[parents], forward[parents] = sequence[rows], forward[rows]

    def _texts(self, kind: int) -> tuple[Array, list[int]] | None:
        """Codes by row and what they stand for, from blocks that hold an index of a text."""
        blocks = list(self._of(kind))
        if not blocks:
            return None
        rows = np.concatenate([rows for rows, _ in blocks])
        at = np.concatenate([at for _, at in blocks])
        indices, which = np.unique(self._words[at].astype(np.int64), return_inverse=True)
        codes = np.full(self._size, -1, np.int32)
        codes[rows] = which.reshape(-1)
        return codes, indices.tolist()
