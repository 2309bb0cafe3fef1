# SPDX-License-Identifier: Apache-2.0
"""explain()'s claims about memory: each device's peak (when, and what it consists of), and requests that failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastprof.analysis.memory_attribution import with_parents
from fastprof.analysis.memory_blocks import memory_blocks
from fastprof.analysis.memory_growth import growing_memory, with_error
from fastprof.analysis.memory_origin import BEFORE, OUTSIDE, place_text
from fastprof.analysis.memory_summary import DeviceReport, Failure, memory_report
from fastprof.analysis.steps import StepTimes
from fastprof.base.formatting import format_memory, format_time
from fastprof.model.memory_rows import failed_requests, memory_rows
from fastprof.model.table import EventTable

__all__ = ["MemoryClaim", "growth_claims", "memory_claims"]


@dataclass(frozen=True)
class MemoryClaim:
    """A sentence, its figure in bytes, and the table rows behind it."""

    text: str
    size_bytes: int
    rows: list[int] = field(default_factory=list)


def memory_claims(prof: Any, times: StepTimes) -> list[MemoryClaim]:
    """Return a claim for each device with memory records, and one for failed requests; [] without records."""
    table = times.events.table
    if not memory_rows(table) and not failed_requests(table):
        return []
    report = memory_report(prof)
    claims = [_peak(device, times) for device in report.devices]
    if report.failures:
        claims.append(_failed(report.failures))
    if report.missing:
        claims.insert(0, MemoryClaim(report.missing, 0))
    return claims


def growth_claims(table: EventTable) -> list[MemoryClaim]:
    """Return a claim for each place whose memory grows, most bytes first."""
    if not memory_rows(table):
        return []
    found = [one for blocks in memory_blocks(with_parents(table)) for one in growing_memory(blocks)]
    found.sort(key=lambda one: -one.size_bytes)
    return [
        MemoryClaim(one.text(), one.size_bytes, [one.row] if one.row >= 0 else []) for one in found
    ]


def _peak(device: DeviceReport, times: StepTimes) -> MemoryClaim:
    text = (
        f"peak of {device.device}: {with_error(device.peak_bytes, device.peak_error)} at "
        f"{format_time(device.peak_ns / 1000)}"
    )
    at = times.events.table.t0_ns + device.peak_ns
    inside = np.flatnonzero((times.start <= at) & (at < times.end))
    if len(inside) and times.count:
        text += f" in {times.name(int(inside[0]))}"
    if device.categories:
        largest = max(device.categories, key=lambda name: device.categories[name])
        share = 100 * device.categories[largest] / max(device.peak_bytes, 1)
        text += f"; {share:.0f} % {largest}"
    rows = []
    if device.parts:
        part = device.parts[0]
        place = place_text(part.ranges[-2:], part.stack, BEFORE)
        # A place without the name of a range needs no "in": "allocated before the recording".
        preposition = "in " if part.ranges and place not in (BEFORE, OUTSIDE) else ""
        text += f"; most of it, {with_error(part.size_bytes, part.error_bytes)}, allocated {preposition}{place}"
        rows = [part.row] if part.row >= 0 else []
    return MemoryClaim(text, device.peak_bytes, rows)


def _failed(failures: list[Failure]) -> MemoryClaim:
    largest = max(failures, key=lambda failure: failure.size_bytes)
    place = " > ".join(largest.ranges[-2:]) or "no range"
    what = "1 request for memory" if len(failures) == 1 else f"{len(failures)} requests for memory"
    text = f"{what} failed; the largest: {format_memory(largest.size_bytes)} of {largest.device} in {place}"
    return MemoryClaim(text, largest.size_bytes, [failure.row for failure in failures])
