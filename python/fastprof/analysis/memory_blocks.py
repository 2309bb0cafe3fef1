# SPDX-License-Identifier: Apache-2.0
"""Blocks of memory of a device or allocator: its allocations and frees, matched by address. Any thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.cached_property import cached_property
from fastprof.model.memory_rows import is_sampled, memory_rows, sampling_variance
from fastprof.model.table import EventTable

__all__ = ["Blocks", "MemorySums", "memory_blocks"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class MemorySums:
    """Bytes of one device or allocator: in_use_at_begin + allocated - freed == in_use_at_end.

    in_use_at_begin contains only blocks that were freed during the recording: others are unknown. in_use_at_end is
    the sum of the blocks that were not freed, so the equation can fail: difference_bytes is then not 0, for
    example because a free reported another size than its allocation. lost_frees: number of blocks at whose
    address another one was allocated without a free in between; they count as in use.
    allocated_error, in_use_at_end_error: standard errors of a sampled device's sums, 0 for others.
    """

    device: str
    in_use_at_begin: int
    allocated: int
    freed: int
    in_use_at_end: int
    lost_frees: int
    allocated_error: int = 0
    in_use_at_end_error: int = 0

    @property
    def difference_bytes(self) -> int:
        """Left side of the equation minus its right side; 0 for a recording whose records agree."""
        return self.in_use_at_begin + self.allocated - self.freed - self.in_use_at_end


class Blocks:
    """The blocks of one device or allocator, on columns.

    One element per block, int64, in order of the first record: address, size_bytes; created, destroyed: index of
    the record of its allocation and free, -1 for outside the recording. sampled: each block stands for many
    (count(), error_bytes()).
    One element per record, in time order: record_rows (table row), record_ns (Unix time), record_bytes (signed),
    addresses.
    """

    def __init__(self, device: str, table: EventTable, rows: Array, words: Array) -> None:
        self.device = device
        self.table = table
        self.record_rows = rows
        self.record_ns: Array = table.start_ns[rows]
        self.record_bytes: Array = words[:, 1]
        self.addresses: Array = words[:, 0]
        self.sampled = is_sampled(device)
        self._words = words
        number = np.arange(len(rows))
        known = number[(self.addresses != 0) & (self.record_bytes != 0)]
        order = known[np.argsort(self.addresses[known], kind="stable")]
        is_free = self.record_bytes[order] < 0
        same = np.append(self.addresses[order][1:] == self.addresses[order][:-1], False)
        next_is_free = np.append(is_free[1:], False)
        # An allocation whose next record at the same address is a free: both belong to one block.
        matched = same & ~is_free & next_is_free
        after_match = np.append(False, matched[:-1])
        created = np.where(is_free, -1, order)
        destroyed = np.where(is_free, order, -1)
        destroyed[matched] = order[np.flatnonzero(matched) + 1]
        kept = ~(is_free & after_match)
        self.lost_frees = int((same & ~is_free & ~next_is_free).sum())
        first = order[kept]
        by_time = np.argsort(first, kind="stable")
        self.created: Array = created[kept][by_time]
        self.destroyed: Array = destroyed[kept][by_time]
        self.address: Array = self.addresses[first][by_time]
        self.size_bytes: Array = np.abs(self.record_bytes[first])[by_time]
        self._first: Array = first[by_time]

    def __len__(self) -> int:
        return len(self.created)

    @cached_property
    def in_use_bytes(self) -> Array:
        """Bytes in use after each record, without blocks that existed before and were never freed."""
        before = int(self.size_bytes[self.created < 0].sum())
        sums: Array = before + np.cumsum(self.record_bytes)
        return sums

    @property
    def peak(self) -> int:
        """Index of the first record after which the most bytes were in use."""
        return int(np.argmax(self.in_use_bytes))

    @property
    def peak_bytes(self) -> int:
        """The most bytes that were in use, including what was freed later and allocated before the recording."""
        return int(self.in_use_bytes[self.peak])

    def count(self, blocks: Array) -> int:
        """Return the number of blocks that these stand for: an estimate if the device is sampled."""
        if not self.sampled:
            return len(blocks)
        return round(float((self.size_bytes[blocks] / self.own_bytes(blocks)).sum()))

    def own_bytes(self, blocks: Array) -> Array:
        """Return the size of each of these blocks, without the others that a sampled one stands for."""
        if not self.sampled:
            return self.size_bytes[blocks]
        own: Array = np.maximum(self._words[self._first[blocks], 2], 1)
        return own

    def error_bytes(self, blocks: Array) -> int:
        """Return the standard error of the sum of the blocks' bytes: 0 if the device is not sampled."""
        return _error(self._words[self._first[blocks]]) if self.sampled else 0

    def live_after(self, record: int) -> Array:
        """Return the indices of the blocks in use after a record, largest first."""
        alive = (self.created <= record) & ((self.destroyed < 0) | (self.destroyed > record))
        found = np.flatnonzero(alive)
        return found[np.argsort(-self.size_bytes[found], kind="stable")]

    def sums(self) -> MemorySums:
        """Return the sums of the device; records without an address count as one block."""
        sizes = self.record_bytes
        nameless = int(sizes[self.addresses == 0].sum())
        kept = np.flatnonzero(self.destroyed < 0)
        return MemorySums(
            self.device,
            int(self.size_bytes[self.created < 0].sum()) + max(-nameless, 0),
            int(sizes[sizes > 0].sum()),
            -int(sizes[sizes < 0].sum()),
            int(self.size_bytes[self.destroyed < 0].sum()) + max(nameless, 0),
            self.lost_frees,
            _error(self._words[sizes > 0]) if self.sampled else 0,
            self.error_bytes(kept),
        )

    def allocating_rows(self, blocks: Array) -> Array:
        """Return the table row of the innermost range, call or op around the allocation of each block.

        -1: outside of any; -2: allocated before the recording.
        """
        records = self.created[blocks]
        if not self.table.has("parent"):
            return np.where(records < 0, -2, -1)
        rows = self.record_rows[np.maximum(records, 0)] if len(self.record_rows) else records
        parents = self.table.column("parent")[rows].astype(np.int64)
        found: Array = np.where(records < 0, -2, parents)
        return found


def _error(words: Array) -> int:
    return round(float(np.sqrt(sampling_variance(words).sum())))


def memory_blocks(table: EventTable) -> list[Blocks]:
    """Return the blocks of each device and allocator that has memory records, by device.

    Each process has an address space of its own. In a table of several processes, blocks of a process other
    than the table's have a device such as "cpu:0 of process 123".
    """
    pids = np.array([track.pid for track in table.tracks] or [0], np.int64)
    found = []
    for device, rows, words in memory_rows(table):
        pid = pids[table.column("track")[rows]] if len(pids) > 1 else np.full(len(rows), pids[0])
        own = table.pid or int(pids[0])
        for process in sorted(set(pid.tolist()), key=lambda one: (one != own, one)):
            label = device if process == own or len(pids) == 1 else f"{device} of process {process}"
            mine = pid == process
            found.append(Blocks(label, table, rows[mine], words[mine]))
    return found
