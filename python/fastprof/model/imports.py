# SPDX-License-Identifier: Apache-2.0
"""Imports: the rows of a table that import modules, and what ran inside of them; time by package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.cached_property import cached_property
from fastprof.base.formatting import format_time
from fastprof.model.call_origins import call_origins, is_import
from fastprof.model.parents import skip_rows
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["Imports", "own_code"]

Array: TypeAlias = NDArray[Any]
_SHOWN = 5


class Imports:
    """The imports of a table: rows named "import MODULE", which the tracing of calls records. Any thread.

    rows: mask of the outermost imports. inside: mask of the rows inside of imports, nested imports included.
    Masks are by table row.
    """

    def __init__(self, table: EventTable) -> None:
        self.table = table
        calls = table.sites.column("is_python_function")
        self._of_site = np.array(
            [
                bool(call) and is_import(name)
                for name, call in zip(table.sites.names, calls, strict=True)
            ],
            np.bool_,
        )
        none = np.zeros(len(table), np.bool_)
        self._is_import = self._of_site[table.column("site")] if self._of_site.any() else none
        self._outer: Array = np.full(len(table), -1, np.int64)  # the nearest enclosing import
        if self._is_import.any():
            tree = EventTree.of(table)
            self._outer = np.asarray(skip_rows(tree.parent_rows(), self._is_import), np.int64)
        self.inside: Array = self._outer >= 0
        self.rows: Array = self._is_import & ~self.inside

    def __bool__(self) -> bool:
        return bool(self.rows.any())

    @cached_property
    def total_ns(self) -> int:
        """Time of all imports."""
        return int(self.table.duration_ns[self.rows].sum())

    @cached_property
    def packages(self) -> list[tuple[str, int]]:
        """(package, ns without the imports of other packages inside of it), most time first; sums to total_ns."""
        rows = np.flatnonzero(self._is_import)
        nested = rows[self._outer[rows] >= 0]
        own: Array = np.array(self.table.duration_ns, np.int64)
        np.subtract.at(own, self._outer[nested], self.table.duration_ns[nested])
        sums: dict[str, int] = {}
        sites = self.table.column("site")[rows]
        for site, ns in zip(*_sums(sites, own[rows]), strict=True):
            package = self.table.sites.names[site].removeprefix("import ").split(".")[0]
            sums[package] = sums.get(package, 0) + int(ns)
        return sorted(sums.items(), key=lambda pair: -pair[1])

    def text(self) -> str:
        """Return one line, "7.5s: torch 5.1s, numpy 1.2s"; "" without imports."""
        if not self:
            return ""
        parts = [f"{name} {format_time(ns / 1e3)}" for name, ns in self.packages[:_SHOWN]]
        more = len(self.packages) - len(parts)
        parts += [f"{more} more"] if more else []
        return f"{format_time(self.total_ns / 1e3)}: {', '.join(parts)}"

    @cached_property
    def details(self) -> Array:
        """Mask of the calls inside of imports that are neither imports, the program's own code, nor called by it."""
        if not self:
            return self.inside
        origin = call_origins(self.table)
        parent = EventTree.of(self.table).parent_rows()
        by_own = (parent >= 0) & (origin[parent] == "own")
        kept = self._is_import | (origin == "") | (origin == "own") | ((origin == "c") & by_own)
        result: Array = self.inside & ~kept
        return result

    def folded(self) -> EventTable:
        """Return the table without the rows inside of imports: their time is that of the outermost import."""
        return self.table if not self else self.table[~self.inside]


def _sums(codes: Array, values: Array) -> tuple[Sequence[int], Sequence[int]]:
    distinct, number = np.unique(codes, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, number.reshape(-1), values)
    return distinct.tolist(), sums.tolist()


def own_code(table: EventTable) -> EventTable:
    """Return the table with the program's own calls alone: the time of others is their callers'.

    Calls of functions in C and of installed packages are left out; ranges, ops and the outermost imports stay.
    Any thread.
    """
    origin = call_origins(table)
    return table[~(np.isin(origin, ("c", "installed")) | Imports(table).inside)]
