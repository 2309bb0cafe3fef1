# SPDX-License-Identifier: Apache-2.0
"""RankEvents: the columns of a shard as NumPy arrays, and the classes of its events that answers are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.communication import is_communication
from fastprof.analysis.intervals import union_of
from fastprof.ranks.collective_calls import is_host_collective
from fastprof.ranks.manifest import Shard
from fastprof.ranks.shard_columns import read_columns

__all__ = ["Collectives", "RankEvents", "read_events"]

Array: TypeAlias = NDArray[Any]
_READ = ("start_ns", "duration_ns", "name", "category", "collective", "group", "sequence", "size_bytes")  # fmt: skip


@dataclass
class Collectives:
    """Collectives of one rank, by start; times in ns of its clock. group, kind: codes into groups, kinds."""

    start: Array
    end: Array
    kind: Array
    group: Array
    sequence: Array
    size_bytes: Array
    kinds: list[str]
    groups: list[str]


@dataclass
class RankEvents:
    """Columns of one shard: begin and end in ns, codes of name and category with their texts."""

    start: Array
    end: Array
    name: Array
    category: Array
    names: list[str]
    categories: list[str]
    collectives: Collectives

    def _of(self, *categories: str) -> Array:
        wanted = np.array([each in categories for each in self.categories], np.bool_)
        return wanted[self.category] if len(wanted) else np.zeros(len(self.start), np.bool_)

    def named(self, predicate: Any) -> Array:
        """Return a mask of the rows whose name satisfies a predicate, which is called once for each name."""
        wanted = np.array([bool(predicate(each)) for each in self.names], np.bool_)
        return wanted[self.name] if len(wanted) else np.zeros(len(self.start), np.bool_)

    @property
    def on_device(self) -> bool:
        """Whether work of a device was recorded; otherwise the ops of the host are the computation."""
        return bool(self._of("kernel").any())

    def computation(self) -> Array:
        """Return a mask of computation: kernels but those of NCCL or RCCL; without kernels, ops but c10d's."""
        if self.on_device:
            return self._of("kernel") & ~self.named(is_communication)
        calls = self.named(lambda name: name.startswith("c10d::") or is_host_collective(name))
        return self._of("cpu_op") & ~calls

    def communication(self) -> Array:
        """Return a mask of communication: kernels of NCCL or RCCL; without kernels, gloo's work."""
        if self.on_device:
            return self._of("kernel") & self.named(is_communication)
        return self.named(is_host_collective)

    def copies(self) -> Array:
        """Return a mask of copies and fills of device memory."""
        return self._of("gpu_memcpy", "gpu_memset")

    def union(self, mask: Array) -> tuple[Array, Array]:
        """Return the union of the rows' times, as intervals.union_of() does."""
        return union_of(self.start[mask], self.end[mask])


def read_events(shard: Shard) -> RankEvents:
    """Read a shard. Raises errors.FormatError, naming the file, if it is damaged or lacks a column. Any thread."""
    column, texts = read_columns(shard, _READ)
    start = column["start_ns"]
    end = start + column["duration_ns"]
    rows = np.flatnonzero(column["collective"] >= 0)
    rows = rows[np.argsort(start[rows], kind="stable")]
    kind, group, sequence, size_bytes = (
        column[name][rows] for name in ("collective", "group", "sequence", "size_bytes")
    )
    calls = Collectives(
        start[rows], end[rows], kind, group, sequence, size_bytes, texts["collective"], texts["group"]
    )  # fmt: skip
    return RankEvents(
        start, end, column["name"], column["category"], texts["name"], texts["category"], calls
    )
