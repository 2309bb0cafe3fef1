# SPDX-License-Identifier: Apache-2.0
"""A MemoryReport as text: sums, tables of the peak, of long-lived temporaries and of failed requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastprof.analysis.memory_origin import BEFORE, OUTSIDE, place_text
from fastprof.base.formatting import format_memory, format_time

if TYPE_CHECKING:
    from fastprof.analysis.memory_summary import DeviceReport, MemoryReport

__all__ = ["memory_text"]


def memory_text(report: MemoryReport, rows: int) -> str:
    """Return the report as text, with at most `rows` lines a table."""
    lines: list[str] = [f"{report.missing}.", ""] if report.missing else []
    for device in report.devices:
        lines += [*_device_lines(device, rows), ""]
    if report.failures:
        lines.append(f"Out of memory: {len(report.failures)} requests failed")
        lines += _table(
            ("Requested", "Time", "Device", "In"),
            [
                (
                    format_memory(f.size_bytes),
                    format_time(f.time_ns / 1000),
                    f.device,
                    place_text(f.ranges, f.stack, OUTSIDE),
                )
                for f in report.failures[:rows]
            ],
        )
    return "\n".join(lines).rstrip()


def _device_lines(device: DeviceReport, rows: int) -> list[str]:
    sums = device.sums
    exact = (
        f"standard error {format_memory(device.peak_error)}"
        if device.peak_error
        else f"{device.peak_bytes:,} bytes"
    )
    lines = [
        f"Memory of {device.device}: peak {format_memory(device.peak_bytes)} ({exact}) at "
        f"{format_time(device.peak_ns / 1000)}",
        f"in use at the begin {sums.in_use_at_begin:,} + allocated {sums.allocated:,} - freed {sums.freed:,} "
        f"= {sums.in_use_at_end:,} bytes in use at the end",
    ]
    if sums.difference_bytes:
        lines.append(
            f"these records disagree by {sums.difference_bytes:,} bytes: frees and allocations of one block "
            "have different sizes, or records were dropped"
        )
    if sums.allocated_error:
        lines.append(
            f"a sample, scaled to all blocks: standard errors {format_memory(sums.allocated_error)} of allocated, "
            f"{format_memory(sums.in_use_at_end_error)} of in use at the end"
        )
    if sums.lost_frees:
        lines.append(f"the frees of {sums.lost_frees:,} blocks are not in the recording")
    if device.categories:
        lines.append(
            "at the peak: "
            + ", ".join(f"{name} {format_memory(size)}" for name, size in device.categories.items())
        )
    if device.growth:
        lines += ["", "Memory that grows"]
        lines += [f"  {growth.text()}" for growth in device.growth[:rows]]
    lines += ["", "What the peak consists of"]
    titles: tuple[str, ...] = ("Bytes", "Share", "Blocks", "Category", "Allocated in")
    whole = max(device.peak_bytes, 1)
    body: list[tuple[str, ...]] = [
        (
            f"{part.size_bytes:,}" + (f" ± {part.error_bytes:,}" if part.error_bytes else ""),
            f"{100 * part.size_bytes / whole:.1f} %",
            str(part.count),
            part.category,
            place_text(part.ranges, part.stack, BEFORE),
        )
        for part in device.parts[:rows]
    ]
    if not device.categories:
        titles, body = titles[:3] + titles[4:], [row[:3] + row[4:] for row in body]
    lines += _table(titles, body)
    if device.temporaries:
        lines += ["", "Longest-lived temporaries (by bytes times life)"]
        lines += _table(
            ("Bytes", "Life", "Allocated in"),
            [
                (
                    f"{t.size_bytes:,}",
                    format_time(t.life_ns / 1000),
                    place_text(t.ranges, t.stack, OUTSIDE),
                )
                for t in device.temporaries[:rows]
            ],
        )
    return lines


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of columns; all but the last are right-aligned."""
    if not rows:
        return ["  nothing"]
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles) - 1)]
    return [
        "  " + "  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[-1]])
        for row in [titles, *rows]
    ]
