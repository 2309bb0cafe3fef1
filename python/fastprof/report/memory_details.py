# SPDX-License-Identifier: Apache-2.0
"""Data of the report's memory view beside the curves: sums, the peak by category, temporaries, failed requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fastprof.analysis.memory_summary import DeviceReport, Failure, MemoryReport, memory_report
from fastprof.model.memory_rows import failed_requests, memory_rows
from fastprof.model.table import EventTable
from fastprof.report.texts import Strings, bounded

__all__ = ["device_details", "failure_details", "report_of"]


def report_of(table: EventTable) -> MemoryReport:
    """Return the table's memory report, an empty one for a table without memory records."""
    if memory_rows(table) or failed_requests(table):
        return memory_report(table)
    return MemoryReport([])


def device_details(report: MemoryReport, strings: Strings) -> dict[str, dict[str, Any]]:
    """Return device -> {"sums", "temporaries", "peak", "most", "growth"}.

    Texts are given by their numbers in `strings`, times in ns. temporaries: (ranges, innermost frame, bytes,
    lifetime). peak: None without categories, else {"time" since the session's begin, "total" bytes, "categories":
    (name, bytes), "parts": (category, ranges, innermost frame, bytes, blocks), largest first}. most: bytes and time of
    the peak, and its standard error. growth: sentences.
    """
    return {
        one.device: {
            "sums": {
                **{name: value for name, value in asdict(one.sums).items() if name != "device"},
                "difference": one.sums.difference_bytes,
            },
            "most": (one.peak_bytes, one.peak_ns, one.peak_error),
            "growth": [bounded(growth.text(), 600) for growth in one.growth],
            "peak": _peak(one, strings) if one.categories else None,
            "temporaries": [
                (*_place(t.ranges, t.stack, strings), t.size_bytes, t.life_ns)
                for t in one.temporaries
            ],
        }
        for one in report.devices
    }


def failure_details(
    failures: Sequence[Failure], strings: Strings
) -> list[tuple[int, int, int, int, int]]:
    """Return (device, ranges, innermost frame, bytes, time in ns from the session's begin) of failed requests."""
    return [
        (strings.number(f.device), *_place(f.ranges, f.stack, strings), f.size_bytes, f.time_ns)
        for f in failures[:200]
    ]


def _peak(device: DeviceReport, strings: Strings) -> dict[str, Any]:
    return {
        "time": device.peak_ns,
        "total": device.peak_bytes,
        "categories": [(strings.number(name), size) for name, size in device.categories.items()],
        "parts": [
            (
                strings.number(part.category),
                *_place(part.ranges, part.stack, strings),
                part.size_bytes,
                part.count,
            )
            for part in device.parts
        ],
    }


def _place(ranges: Sequence[str], stack: Sequence[str], strings: Strings) -> tuple[int, int]:
    text = " > ".join(ranges) or ("" if stack else "before the recording")
    return strings.number(text), strings.number(stack[0] if stack else "")
