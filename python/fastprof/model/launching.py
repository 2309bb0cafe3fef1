# SPDX-License-Identifier: Apache-2.0
"""Which device a table's work ran on, and which row launched a row, such as the op of a kernel."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.device_type import DEVICE_TIME_TYPES
from fastprof.model.table import EventTable

__all__ = ["device_name", "launching_rows"]

Array: TypeAlias = NDArray[Any]


def device_name(table: EventTable) -> str | None:
    """Return the name of the device of a table's activities ("cuda", ...); None without any. Any thread."""
    if table.has("device_type"):
        types = table.column("device_type")
        for device in sorted(DEVICE_TIME_TYPES):
            if bool((types == device).any()):
                return device.name.lower()
    return "cuda" if table.kernels is not None and len(table.kernels) else None


def launching_rows(table: EventTable, rows: Array) -> Array:
    """Return the table row whose external_id is each row's linked_correlation_id, -1 for none. Any thread.

    rows: table rows, int64. Of several rows with the id, the first.
    """
    linked, own = table.column("linked_correlation_id")[rows], table.column("external_id")
    order = np.argsort(own, kind="stable")
    at = np.searchsorted(own[order], linked).clip(max=max(len(order) - 1, 0))
    found: Array = np.where((linked != 0) & (own[order[at]] == linked), order[at], -1)
    return found
