# SPDX-License-Identifier: Apache-2.0
"""Columns from the detail blocks of a capture's rows, which the capture finds in one pass.

csrc/include/fastprof/payload/blocks/detail_columns.hpp has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from numpy.typing import NDArray

from fastprof.decode.op_columns import OpInputColumns
from fastprof.model.table import SiteTable

__all__ = ["DetailReader", "Details", "find_details"]

Array: TypeAlias = NDArray[Any]
Blocks: TypeAlias = Iterator[tuple[Array, Array]]

_TEXTS = ("stack", "modules", "json", "overload")
_NUMBERS = ("sequence_nr", "fwd_thread", "record_function_id", "node_id")


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


def find_details(capture: DetailReader, sites: SiteTable, with_flops: bool) -> Details:
    """Return the details of a capture with these sites.

    Raises errors.ValueError if a row's details are truncated or contain an invalid reference.
    """
    with_formula: list[bool] = []
    if with_flops:
        from fastprof.analysis.flops import have_formulas

        with_formula = have_formulas(sites.names)
    found = capture.read_details(with_formula)
    codes, blocks, site_inputs = found.get("inputs", (None, [], []))
    return Details(
        {name: found[name] for name in _NUMBERS if name in found},
        {name: found[name] for name in _TEXTS if name in found},
        OpInputColumns(codes, blocks, _Flops(site_inputs, capture.flops_of)),
        lambda kind: iter(capture.find_blocks([kind])),
    )
