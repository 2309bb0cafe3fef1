# SPDX-License-Identifier: Apache-2.0
"""Make an EventList of an imported table, with the columns for which the table has data."""

from __future__ import annotations

import numpy as np

from fastprof.base.device_type import DEVICE_TIME_TYPES, DeviceType
from fastprof.model.table import EventKind, EventTable
from fastprof.views import EventList, FunctionEvent

__all__ = ["device_name", "list_of"]


def device_name(table: EventTable) -> str | None:
    """Return the name of the table's device ("cuda", ...); None without device activities."""
    if table.has("device_type"):
        for number in np.unique(table.column("device_type")).tolist():
            if number in DEVICE_TIME_TYPES:
                return DeviceType(number).name.lower()
    return "cuda" if table.kernels is not None and len(table.kernels) else None


def list_of(table: EventTable) -> EventList[FunctionEvent]:
    """Return the table's events, with device times, memory and FLOPs if the table has them."""
    has_memory = table.has("cpu_memory_usage") or table.has("device_memory_usage")
    if not has_memory and table.has("payload") and table.has("kind"):
        kind = table.column("kind")
        if bool((kind == EventKind.MEMORY).any()):
            from fastprof.analysis.memory_attribution import attribute_memory

            table = attribute_memory(table)
            has_memory = True
    return EventList.from_table(
        table,
        use_device=device_name(table),
        profile_memory=has_memory,
        with_flops=table.has("flops") and not bool(np.isnan(table.column("flops")).all()),
    )
