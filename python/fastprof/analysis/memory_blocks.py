# SPDX-License-Identifier: Apache-2.0
"""Blocks: what a device's or an allocator's memory records allocate and free, matched by address. Any thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.model.memory_rows import memory_rows
from fastprof.model.table import EventTable

__all__ = ["Blocks", "MemorySums", "memory_blocks"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class MemorySums:
    """Bytes of one device or allocator: in_use_at_begin + allocated - freed == in_use_at_end.

    in_use_at_begin: only what the recording shows, because it was freed. in_use_at_end is summed over the blocks
    that were not freed, so that the equation can fail: difference_bytes is then not 0, for example because a
    free reported another size than its allocation. lost_frees: blocks at whose address another one was
    allocated without a free in between; they count as in use.
    """

    device: str
    in_use_at_begin: int
    allocated: int
    freed: int
    in_use_at_end: int
    lost_frees: int

    @property
    def difference_bytes(self) -> int:
        """What the equation lacks; 0 for a recording whose records agree."""
        return self.in_use_at_begin + self.allocated - self.freed - self.in_use_at_end


class Blocks:
    """The blocks of one device. int64 arrays of equal length, a block each, by time of allocation or first record.

    address, size_bytes; created, destroyed: numbers of records (see record_rows), -1 for outside the recording.
    record_rows, record_ns, record_bytes: table row, Unix time and signed bytes of each record, in time order.
    """

    def __init__(self, device: str, table: EventTable, rows: Array, words: Array) -> None:
        self.device = device
        self.table = table
        self.record_rows = rows
        self.record_ns: Array = table.start_ns[rows]
        self.record_bytes: Array = words[:, 1]
        self.addresses: Array = words[:, 0]
        number = np.arange(len(rows))
        known = number[(self.addresses != 0) & (self.record_bytes != 0)]
        order = known[np.argsort(self.addresses[known], kind="stable")]
        is_free = self.record_bytes[order] < 0
        same = np.append(self.addresses[order][1:] == self.addresses[order][:-1], False)
        next_is_free = np.append(is_free[1:], False)
        # A record and its successor at one address: allocation and free are a block's.
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

    def __len__(self) -> int:
        return len(self.created)

    @cached_property
    def held(self) -> Array:
        """Bytes in use after each record, without what existed before and was never freed."""
        before = int(self.size_bytes[self.created < 0].sum())
        sums: Array = before + np.cumsum(self.record_bytes)
        return sums

    @property
    def peak(self) -> int:
        """Number of the first record after which most was in use."""
        return int(np.argmax(self.held))

    def live_after(self, record: int) -> Array:
        """Return the blocks in use after a record, largest first."""
        alive = (self.created <= record) & ((self.destroyed < 0) | (self.destroyed > record))
        found = np.flatnonzero(alive)
        return found[np.argsort(-self.size_bytes[found], kind="stable")]

    def sums(self) -> MemorySums:
        """Return the sums of the device; records without an address count as one block."""
        sizes = self.record_bytes
        nameless = int(sizes[self.addresses == 0].sum())
        return MemorySums(
            self.device,
            int(self.size_bytes[self.created < 0].sum()) + max(-nameless, 0),
            int(sizes[sizes > 0].sum()),
            -int(sizes[sizes < 0].sum()),
            int(self.size_bytes[self.destroyed < 0].sum()) + max(nameless, 0),
            self.lost_frees,
        )

    def allocating_rows(self, blocks: Array) -> Array:
        """Return the table row around the allocation of each block: a range, call or op.

        -1: outside of any; -2: allocated before the recording.
        """
        records = self.created[blocks]
        if not self.table.has("parent"):
            return np.where(records < 0, -2, -1)
        rows = self.record_rows[np.maximum(records, 0)] if len(self.record_rows) else records
        parents = self.table.column("parent")[rows].astype(np.int64)
        found: Array = np.where(records < 0, -2, parents)
        return found


def memory_blocks(table: EventTable) -> list[Blocks]:
    """Return the blocks of each device and allocator that has memory records, by device.

    Addresses are a process's own: in a table of several processes, those of another process than the
    table's have devices like "cpu:0 of process 123".
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
