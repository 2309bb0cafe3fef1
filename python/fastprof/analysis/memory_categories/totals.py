# SPDX-License-Identifier: Apache-2.0
"""Bytes in use by category over time, and their peak, from the timeline of a MemoryProfile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.memory_categories.kinds import CATEGORY_ORDER, Action
from fastprof.analysis.memory_categories.profile import MemoryProfile

__all__ = ["CategoryTotals", "LiveStorage", "Reconciled", "category_totals", "live_at", "reconcile"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class CategoryTotals:
    """Bytes in use on one device after each change.

    time_ns: int64, Unix time; storages from before the session count from the session's begin.
    bytes: int64 of shape (changes, 8), columns by CATEGORY_ORDER.
    """

    device: str
    time_ns: Array
    bytes: Array

    @property
    def total(self) -> Array:
        """Bytes of all categories, int64."""
        sums: Array = self.bytes.sum(axis=1)
        return sums

    @property
    def peak(self) -> int:
        """Index of the first change with the most bytes in use."""
        return int(np.argmax(self.total))


def category_totals(profile: MemoryProfile) -> list[CategoryTotals]:
    """Return the totals of each device, by name."""
    column = {category: i for i, category in enumerate(CATEGORY_ORDER)}
    changes: dict[str, tuple[list[int], list[int], list[int], list[int]]] = {}

    def add(device: str, time: int, category: Any, delta: int) -> None:
        times, rows, columns, deltas = changes.setdefault(device, ([], [], [], []))
        times.append(time)
        rows.append(len(rows))
        columns.append(column[category])
        deltas.append(delta)

    for time, action, storage, version, size in profile.timeline:
        device = profile.storages[storage].device
        at = profile.table.t0_ns if time < 0 else time
        category = profile.category(storage, version)
        if action is Action.INCREMENT_VERSION:
            after = profile.category(storage, version + 1)
            if after is not category:
                add(device, at, category, -size)
                add(device, at, after, size)
        else:
            add(device, at, category, -size if action is Action.DESTROY else size)
    found = []
    for device, (times, rows, columns, deltas) in sorted(changes.items()):
        grid = np.zeros((len(rows), len(CATEGORY_ORDER)), np.int64)
        grid[rows, columns] = deltas
        sums = np.cumsum(grid, axis=0)
        when = np.array(times, np.int64)
        # Of several changes at one time, only the state after the last one is listed.
        last = np.append(when[1:] != when[:-1], True)
        found.append(CategoryTotals(device, when[last], sums[last]))
    return found


@dataclass(frozen=True)
class LiveStorage:
    """A storage in use at a given time, with its version and category at that time."""

    storage: int
    version: int
    category: Any  # Category or None
    size_bytes: int


def live_at(profile: MemoryProfile, device: str, time_ns: int) -> list[LiveStorage]:
    """Return the storages in use on a device after all changes up to `time_ns`, largest first."""
    live: dict[int, int] = {}
    for time, action, storage, version, _ in profile.timeline:
        if time > time_ns:
            break
        if profile.storages[storage].device != device:
            continue
        if action is Action.DESTROY:
            live.pop(storage, None)
        else:
            live[storage] = version + (action is Action.INCREMENT_VERSION)
    found = [
        LiveStorage(
            storage,
            version,
            profile.category(storage, version),
            profile.storages[storage].size_bytes,
        )
        for storage, version in live.items()
    ]
    return sorted(found, key=lambda one: (-one.size_bytes, one.storage))


@dataclass(frozen=True)
class Reconciled:
    """Sums of a device's memory records in bytes: in_use_at_begin + allocated - freed == in_use_at_end.

    in_use_at_begin contains only memory that ops read or that was freed, since other memory is unknown.
    """

    device: str
    in_use_at_begin: int
    allocated: int
    freed: int
    in_use_at_end: int


def reconcile(profile: MemoryProfile) -> Sequence[Reconciled]:
    """Return the sums of each device, by name. in_use_at_end is the sum of the storages alive at the end."""
    found = []
    for device in sorted({storage.device for storage in profile.storages}):
        own = [storage for storage in profile.storages if storage.device == device]
        found.append(
            Reconciled(
                device,
                sum(s.size_bytes for s in own if s.created_ns is None),
                sum(s.size_bytes for s in own if s.created_ns is not None),
                sum(s.size_bytes for s in own if s.destroyed_ns is not None),
                sum(s.size_bytes for s in own if s.destroyed_ns is None),
            )
        )
    return found
