# SPDX-License-Identifier: Apache-2.0
"""ShardRows: what step graphs need of a shard, with what its rows are, found once for all steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.event_names import DEVICE_WORK
from fastprof.ranks.event_names import SYNC, is_host_collective
from fastprof.ranks.manifest import Shard
from fastprof.ranks.shard_columns import read_columns

__all__ = ["ShardRows", "read_rows"]

Array: TypeAlias = NDArray[Any]
_READ = (
    *("start_ns", "duration_ns", "thread", "parent", "correlation"),
    *("name", "category", "group", "sequence", "waits_for"),
)
_BUSY = re.compile(r"cpu_op$|.*(runtime|driver)$")
_SYNCHRONISES = re.compile(r"(cuda|cu|hip)\w*Synchronize|(cuda|cu|hip)Memcpy(?!.*Async)")
_ISSUES = ("c10d::", "_c10d_functional::")  # ops that issue collectives or wait for them


class ShardRows:
    """Rows of a shard. columns: COLUMNS of it by name; codes of texts, whose texts are in `texts`. end_ns: of each row.

    Masks of rows: device: work of devices; sync: recorded waits; host: events of the host, but steps and gloo's work;
    busy: ops and runtime calls that are no waits for collectives; gloo: its collectives; step: steps; synchronises:
    calls that wait for a device. waits_recorded: whether waits between streams were.
    """

    def __init__(self, columns: dict[str, Array], texts: dict[str, list[str]]) -> None:
        self.columns, self.texts = columns, texts
        self.end_ns: Array = columns["start_ns"] + columns["duration_ns"]
        self.step = self._named(lambda n: n.startswith("ProfilerStep#"))
        gloo = self._named(is_host_collective)
        self.device = self._of(lambda c: c in DEVICE_WORK)
        self.sync = self._of(lambda c: c == SYNC)
        hidden = self._of(lambda c: c.startswith("gpu_")) | self.sync
        self.host = ~self.device & ~hidden & ~self.step & ~gloo
        issues = self._named(lambda n: n.startswith(_ISSUES))
        self.busy = self._of(lambda c: _BUSY.match(c) is not None) & self.host & ~issues
        self.busy &= ~_around(np.flatnonzero(issues), columns["parent"])
        self.gloo = gloo & (columns["group"] >= 0)
        self.gloo_work = gloo
        self.synchronises = self._named(lambda n: _SYNCHRONISES.match(n) is not None) & self.busy
        self.waits_recorded = bool(self.sync.any())

    def _named(self, predicate: Callable[[str], bool]) -> Array:
        return self._coded("name", predicate)

    def _of(self, predicate: Callable[[str], bool]) -> Array:
        return self._coded("category", predicate)

    def _coded(self, column: str, predicate: Callable[[str], bool]) -> Array:
        found = np.array([*(predicate(each) for each in self.texts[column]), False], np.bool_)
        chosen: Array = found[self.columns[column]]
        return chosen

    def between(self, low: int, high: int) -> Array:
        """Return the rows that reach into a time."""
        return np.flatnonzero((self.end_ns > low) & (self.columns["start_ns"] < high))


def read_rows(shard: Shard) -> ShardRows:
    """Read what graphs need of a shard. Raises errors.FormatError, naming the file, if it is damaged."""
    return ShardRows(*read_columns(shard, _READ))


def _around(inner: Array, parent: Array) -> Array:
    """Return which rows enclose others, at any depth."""
    found = np.zeros(len(parent), np.bool_)
    at = parent[inner]
    while len(at):
        at = at[at >= 0]
        at = np.unique(at[~found[at]])
        found[at] = True
        at = parent[at]
    return found
