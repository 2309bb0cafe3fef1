# SPDX-License-Identifier: Apache-2.0
"""PyTorch's functions for nvprof databases."""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import TYPE_CHECKING

from fastprof.base import errors

if TYPE_CHECKING:
    from fastprof.views import EventList, FunctionEvent

__all__ = ["EnforceUnique", "load_nvprof", "parse_nvprof_trace"]


def load_nvprof(path: str | os.PathLike[str]) -> EventList[FunctionEvent]:
    """Read a database of nvprof (`nvprof -o FILE`) and return its NVTX ranges as events, by begin.

    An event has the kernels whose launch lies inside of it; device times are in the columns of CUDA. As in
    PyTorch, all events are on thread 0 of node 0, and the id is the marker's. Unlike in PyTorch, times are right
    (the file's ns are converted to us) and kernels have their names. fastprof.load() also returns launches and
    kernels as rows.

    Raises errors.IoError if the file cannot be read and errors.FormatError if it is malformed, or if a marker, or a
    launch within a marker, comes twice.
    """
    from fastprof.importers.databases import load_nvprof_ranges
    from fastprof.views import EventList

    return EventList.from_table(load_nvprof_ranges(path), use_device="cuda", dedupe=False)


parse_nvprof_trace = load_nvprof


class EnforceUnique:
    """A set of keys; `see` raises errors.StateError (a RuntimeError) for a key that it contains.

    An instance belongs to one thread.
    """

    def __init__(self) -> None:
        self.seen: set[tuple[Hashable, ...]] = set()

    def see(self, *key: Hashable) -> None:
        """Add a key; errors.StateError if it was added before."""
        if key in self.seen:
            raise errors.StateError(
                f"the key {key!r} was seen twice: keys must be unique. Pass each key once."
            )
        self.seen.add(key)
