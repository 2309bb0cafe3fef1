# SPDX-License-Identifier: Apache-2.0
"""RankEvents: the columns of a shard that answers are made of, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.ranks.manifest import Shard
from fastprof.ranks.shard_columns import read_columns

__all__ = ["Collectives", "RankEvents", "read_events"]

Array: TypeAlias = NDArray[Any]
_OF_EVENTS = ("start_ns", "duration_ns", "name", "category")
_OF_COLLECTIVES = ("collective", "group", "sequence", "size_bytes")


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
    """Columns of one shard: begin and duration in ns, codes of name and category with their texts."""

    start: Array
    duration: Array
    name: Array
    category: Array
    names: list[str]
    categories: list[str]
    collectives: Collectives

    @property
    def on_device(self) -> bool:
        """Whether work of a device was recorded; otherwise the ops of the host are the computation."""
        kernel = self.categories.index("kernel") if "kernel" in self.categories else None
        return kernel is not None and bool((self.category == kernel).any())


def read_events(shard: Shard) -> RankEvents:
    """Read a shard. Raises errors.FormatError, naming the file, if it is damaged or lacks a column. Any thread."""
    column, texts = read_columns(shard, _OF_EVENTS, _OF_COLLECTIVES)
    start, duration, row = column["start_ns"], column["duration_ns"], column["row"]
    kept = np.flatnonzero(column["collective"] >= 0)
    kept = kept[np.argsort(start[row[kept]], kind="stable")]
    kind, group, sequence, size_bytes = (column[name][kept] for name in _OF_COLLECTIVES)
    begin = start[row[kept]]
    end = begin + duration[row[kept]]
    calls = Collectives(
        begin, end, kind, group, sequence, size_bytes, texts["collective"], texts["group"]
    )
    return RankEvents(
        start, duration, column["name"], column["category"], texts["name"], texts["category"], calls
    )
