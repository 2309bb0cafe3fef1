# SPDX-License-Identifier: Apache-2.0
"""RankEvents: the columns of a shard as NumPy arrays, and the classes of its events that answers are made of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.communication import is_communication
from fastprof.analysis.intervals import union_of
from fastprof.base import errors
from fastprof.ranks.collective_calls import UNMATCHED, is_host_collective
from fastprof.ranks.places import read_parquet

__all__ = ["Collectives", "RankEvents", "naming_damage", "read_events"]

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


def read_events(path: str) -> RankEvents:
    """Read a shard. Raises errors.FormatError, naming the file, if it is damaged or lacks a column. Any thread."""
    with naming_damage(path):
        table = read_parquet(path, list(_READ))
        table = table.unify_dictionaries().combine_chunks()
        start, duration = (table[name].to_numpy() for name in ("start_ns", "duration_ns"))
        (name, names), (category, categories) = (_codes(table[n]) for n in ("name", "category"))
        (kind, kinds), (group, groups) = (_codes(table[n]) for n in ("collective", "group"))
        rows = np.flatnonzero(kind >= 0)
        of_calls = table.select(["sequence", "size_bytes"]).take(rows)
        sequence, size_bytes = (
            of_calls[n].fill_null(UNMATCHED).to_numpy() for n in ("sequence", "size_bytes")
        )
    end = start + duration
    order = np.argsort(start[rows], kind="stable")
    rows = rows[order]
    calls = Collectives(
        start[rows], end[rows], kind[rows], group[rows], sequence[order], size_bytes[order], kinds, groups
    )  # fmt: skip
    return RankEvents(start, end, name, category, names, categories, calls)


@contextlib.contextmanager
def naming_damage(path: str) -> Iterator[None]:
    """Raise errors.FormatError, naming the file, for what reading a damaged shard within the block raises."""
    try:
        yield
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        NotImplementedError,
    ) as error:  # pyarrow's derive from these
        reason = str(error).split("\n", 1)[0]
        raise errors.FormatError(
            f"{path}: not a readable shard: {reason}. Leave it out, or write it again."
        ) from error


def _codes(column: Any) -> tuple[Array, list[str]]:
    chunks = column.chunks
    if not chunks:
        return np.zeros(0, np.int64), []
    codes = np.concatenate([c.indices.fill_null(-1).to_numpy(zero_copy_only=False) for c in chunks])
    return codes, chunks[0].dictionary.to_pylist()
