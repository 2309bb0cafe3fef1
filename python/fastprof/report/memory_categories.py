# SPDX-License-Identifier: Apache-2.0
"""The peak of memory by category, for the report's memory view."""

from __future__ import annotations

from typing import Any

from fastprof.analysis.memory_categories import CATEGORY_ORDER, MemoryProfile, category_name
from fastprof.analysis.memory_categories.origins import explain_peak
from fastprof.analysis.memory_categories.totals import category_totals
from fastprof.model.table import EventTable
from fastprof.report.texts import Strings

__all__ = ["peaks_by_category"]

_PARTS = 40


def peaks_by_category(table: EventTable, strings: Strings) -> dict[str, dict[str, Any]]:
    """Return by device {"time", "total", "categories", "parts"}; {} without storages of op inputs.

    time: of the peak, ns from the session's begin. categories: (name, bytes), those of 0 bytes left out.
    parts: (category, ranges, innermost frame, bytes, storages), largest first; names as string numbers.
    """
    if "input_storages" not in table.coded:
        return {}
    profile = MemoryProfile(table)
    found = {}
    for totals in category_totals(profile):
        sizes = totals.bytes[totals.peak].tolist()
        parts = explain_peak(profile, totals.device)[:_PARTS]
        found[totals.device] = {
            "time": int(totals.time_ns[totals.peak]) - table.t0_ns,
            "total": sum(sizes),
            "categories": [
                (strings.number(category_name(category)), size)
                for category, size in zip(CATEGORY_ORDER, sizes, strict=True)
                if size
            ],
            "parts": [
                (
                    strings.number(category_name(part.category)),
                    strings.number(" > ".join(part.origin.ranges) or "before the recording"),
                    strings.number(part.origin.stack[0] if part.origin.stack else ""),
                    part.size_bytes,
                    part.count,
                )
                for part in parts
            ],
        }
    return found
