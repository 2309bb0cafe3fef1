# SPDX-License-Identifier: Apache-2.0
"""PyTorch's functions for nvprof databases, which this build does not read."""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import TYPE_CHECKING

from fastprof.base import errors

if TYPE_CHECKING:
    from fastprof.views import EventList, FunctionEvent

__all__ = ["EnforceUnique", "load_nvprof", "parse_nvprof_trace"]


def load_nvprof(path: str | os.PathLike[str]) -> EventList[FunctionEvent]:
    """Raise errors.UnavailableError: nvprof databases are not supported."""
    raise errors.UnavailableError(
        f"databases of nvprof are not read ({os.fspath(path)}): nvprof ended with CUDA 12; "
        "fastprof.load() reads Chrome, Kineto and Perfetto traces"
    )


parse_nvprof_trace = load_nvprof


class EnforceUnique:
    """A set of keys; `see` raises errors.StateError (a RuntimeError) for a key that it contains."""

    def __init__(self) -> None:
        self.seen: set[tuple[Hashable, ...]] = set()

    def see(self, *key: Hashable) -> None:
        """Add a key; errors.StateError if it was added before."""
        if key in self.seen:
            raise errors.StateError(f"the key {key!r} was seen twice: each may come once")
        self.seen.add(key)
