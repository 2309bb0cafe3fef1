# SPDX-License-Identifier: Apache-2.0
"""memory_report(): per device, sums, the peak and what it consists of, the longest-lived temporaries, failed requests.

Memory of PyTorch has categories if shapes were recorded; other memory has only origins. Any thread.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fastprof.analysis.evaluation import table_of
from fastprof.analysis.memory_attribution import with_parents
from fastprof.analysis.memory_blocks import Blocks, MemorySums, memory_blocks
from fastprof.analysis.memory_categories import CATEGORY_ORDER, MemoryProfile, category_name
from fastprof.analysis.memory_categories.origins import explain_peak, longest_lived_temporaries
from fastprof.analysis.memory_categories.storages import can_categorise
from fastprof.analysis.memory_categories.totals import category_totals, reconcile
from fastprof.analysis.memory_growth import Growth, growing_memory
from fastprof.analysis.memory_origin import BEFORE, OUTSIDE, Origin, origin_around
from fastprof.base import errors
from fastprof.base.device_type import is_device
from fastprof.model.memory_rows import failed_requests, missing_text
from fastprof.model.table import EventTable

__all__ = [
    "DeviceReport",
    "Failure",
    "MemoryPart",
    "MemoryReport",
    "Temporary",
    "in_use_at_begin",
    "memory_report",
]

_PARTS, _TEMPORARIES = 20, 10


@dataclass(frozen=True)
class MemoryPart:
    """A part of the peak: bytes and blocks of one category ("" without categories) from one origin.

    error_bytes: standard error of size_bytes, 0 if not sampled; count is then an estimate.
    """

    size_bytes: int
    count: int
    category: str
    ranges: tuple[str, ...]
    stack: tuple[str, ...]
    row: int = -1  # of the innermost range around the largest of the blocks, in the table
    error_bytes: int = 0


@dataclass(frozen=True)
class Temporary:
    """A block that was allocated and freed in the recording."""

    size_bytes: int
    life_ns: int
    ranges: tuple[str, ...]
    stack: tuple[str, ...]


@dataclass(frozen=True)
class Failure:
    """A request that the allocator could not satisfy."""

    device: str
    time_ns: int  # from the session's begin
    size_bytes: int
    ranges: tuple[str, ...]
    stack: tuple[str, ...]
    row: int


@dataclass(frozen=True)
class DeviceReport:
    """Memory of one device ("cuda:0") or allocator ("python:object").

    peak_ns: from the session's begin. categories: bytes at the peak, {} without categories. parts: what the
    peak consists of, largest first. temporaries: by bytes times life, most first. growth: blocks that are
    allocated again and again and never freed. peak_error: standard error of a sampled device's peak, else 0.
    """

    device: str
    sums: MemorySums
    peak_bytes: int
    peak_ns: int
    categories: dict[str, int]
    parts: list[MemoryPart]
    temporaries: list[Temporary]
    growth: list[Growth] = field(default_factory=list)
    peak_error: int = 0


@dataclass(frozen=True)
class MemoryReport:
    """Result of memory_report(). failures: out-of-memory events of all devices, by time.

    missing: what the sums do not contain, because events were dropped; "" for nothing.
    """

    devices: list[DeviceReport]
    failures: list[Failure] = field(default_factory=list)
    missing: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with each device's difference_bytes beside its sums."""
        found = asdict(self)
        for one, device in zip(found["devices"], self.devices, strict=True):
            one["sums"]["difference_bytes"] = device.sums.difference_bytes
        return found

    def text(self, rows: int = 10) -> str:
        """Return tables as text, with at most `rows` lines each; sizes in bytes are exact."""
        from fastprof.analysis.memory_text import memory_text

        return memory_text(self, rows)


def memory_report(prof: Any, device: str | None = None) -> MemoryReport:
    """Report the use of memory by device, from the memory records of a profile, list or table; see DeviceReport.

    prof: a profile that has ended, an EventList, or a table from fastprof.load(). device: only this one
    ("cpu", "cuda:0", "python"). Raises errors.ValueError if there are no memory records, or none of that device.

        print(fastprof.analysis.memory_report(prof).text())
    """
    table = with_parents(table_of(prof))
    blocks = [one for one in memory_blocks(table) if is_device(one.device, device)]
    failures = [f for f in failed_requests(table) if is_device(f.device, device)]
    if not blocks and not failures:
        what = "memory records" if device is None else f"memory records of {device}"
        raise errors.ValueError(
            f"the table contains no {what}. Profile with profile_memory=True, or with python_memory=True for "
            "memory of Python objects (fastprof run --profile-memory, --python-memory)."
        )
    by_category = _categorised(prof, table)
    return MemoryReport(
        [
            replace(by_category.get(one.device) or _from_blocks(one), growth=growing_memory(one))
            for one in blocks
        ],
        [
            Failure(
                f.device,
                f.time_ns - table.t0_ns,
                f.size_bytes,
                *_ranges_and_stack(table, f.enclosing),
                f.row,
            )
            for f in failures
        ],
        missing_text(table),
    )


def in_use_at_begin(table: EventTable) -> dict[str, int]:
    """Return the bytes in use when the recording began, by device as memory_rows() names it.

    These are blocks that were freed, or of PyTorch's memory with shapes also those that ops used: with them, curves
    of memory have the peak of memory_report(). In a table of several processes, the sum over them.
    """
    found: dict[str, int] = {}
    profile = MemoryProfile(table) if can_categorise(table) else None
    of_torch = {one.device: one.in_use_at_begin for one in reconcile(profile)} if profile else {}
    for blocks in memory_blocks(table):
        device = blocks.device.partition(" of process ")[0]
        own = of_torch.get(blocks.device, blocks.sums().in_use_at_begin)
        found[device] = found.get(device, 0) + own
    return found


def _ranges_and_stack(table: EventTable, row: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    origin = origin_around(table, row)
    return origin.ranges, origin.stack


def _categorised(prof: Any, table: EventTable) -> dict[str, DeviceReport]:
    if not can_categorise(table):
        return {}
    make = getattr(prof, "memory_profile", None)
    profile: MemoryProfile = make() if callable(make) else MemoryProfile(table)
    sums = {one.device: one for one in reconcile(profile)}
    temporaries: dict[str, list[Temporary]] = {}
    for storage, life, origin in longest_lived_temporaries(profile, 50 * _TEMPORARIES):
        one = profile.storages[storage]
        temporaries.setdefault(one.device, []).append(
            Temporary(one.size_bytes, life, origin.ranges, origin.stack)
        )
    found = {}
    for totals in category_totals(profile):
        own = sums[totals.device]
        sizes = totals.bytes[totals.peak].tolist()
        found[totals.device] = DeviceReport(
            totals.device,
            MemorySums(
                own.device, own.in_use_at_begin, own.allocated, own.freed, own.in_use_at_end, 0
            ),
            sum(sizes),
            int(totals.time_ns[totals.peak]) - table.t0_ns,
            {
                category_name(category): size
                for category, size in zip(CATEGORY_ORDER, sizes, strict=True)
                if size
            },
            [
                MemoryPart(
                    part.size_bytes,
                    part.count,
                    category_name(part.category),
                    part.origin.ranges,
                    part.origin.stack,
                )
                for part in explain_peak(profile, totals.device)[:_PARTS]
            ],
            temporaries.get(totals.device, [])[:_TEMPORARIES],
        )
    return found


def _from_blocks(blocks: Blocks) -> DeviceReport:
    table = blocks.table
    peak = blocks.peak
    live = blocks.live_after(peak)
    return DeviceReport(
        blocks.device,
        blocks.sums(),
        blocks.peak_bytes,
        int(blocks.record_ns[peak]) - table.t0_ns,
        {},
        _parts(blocks, live),
        []
        if blocks.sampled
        else _temporaries(blocks),  # one block of a sample is not what is listed
        peak_error=blocks.error_bytes(live),
    )


def _parts(blocks: Blocks, live: Any) -> list[MemoryPart]:
    if not len(live):
        return []
    row = blocks.allocating_rows(live)
    owners, code = np.unique(row, return_inverse=True)
    code = code.reshape(-1)
    size = np.bincount(code, blocks.size_bytes[live]).astype(np.int64)
    groups = np.split(np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))[:-1])
    of_origin: dict[Origin, list[int]] = {}  # numbers of groups, that of the largest first
    for at in np.argsort(-size, kind="stable").tolist():
        owner = int(owners[at])
        if owner == -2:
            origin = Origin((BEFORE,))
        else:
            origin = origin_around(blocks.table, owner) if owner >= 0 else Origin((OUTSIDE,))
        of_origin.setdefault(origin, []).append(at)
    parts = []
    for origin, numbers in of_origin.items():
        mine = live[np.concatenate([groups[number] for number in numbers])]
        total, row_of = int(size[numbers].sum()), max(int(owners[numbers[0]]), -1)
        parts.append(
            MemoryPart(
                total,
                blocks.count(mine),
                "",
                origin.ranges,
                origin.stack,
                row_of,
                blocks.error_bytes(mine),
            )
        )
    return sorted(parts, key=lambda part: -part.size_bytes)[:_PARTS]


def _temporaries(blocks: Blocks) -> list[Temporary]:
    ended = np.flatnonzero((blocks.created >= 0) & (blocks.destroyed >= 0))
    life = blocks.record_ns[blocks.destroyed[ended]] - blocks.record_ns[blocks.created[ended]]
    weight = blocks.size_bytes[ended].astype(np.float64) * life
    found = []
    for at in np.argsort(-weight, kind="stable")[:_TEMPORARIES].tolist():
        block = int(ended[at])
        around = int(blocks.allocating_rows(ended[at : at + 1])[0])
        ranges, stack = _ranges_and_stack(blocks.table, around)
        found.append(Temporary(int(blocks.size_bytes[block]), int(life[at]), ranges, stack))
    return found
