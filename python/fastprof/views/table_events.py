# SPDX-License-Identifier: Apache-2.0
"""events_of_table: the EventList of a table, with the columns for which the table has data."""

from __future__ import annotations

import numpy as np

from fastprof.model.table import EventKind, EventTable
from fastprof.views.event_list import EventList
from fastprof.views.function_event import FunctionEvent

__all__ = ["events_of_table"]


def events_of_table(table: EventTable) -> EventList[FunctionEvent]:
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
        profile_memory=has_memory,
        with_flops=table.has("flops") and not bool(np.isnan(table.column("flops")).all()),
    )
