# SPDX-License-Identifier: Apache-2.0
"""The memory records of a table: which rows they are, and their payload words, per device."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.device_type import DeviceType
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.table import EventKind, EventTable

__all__ = ["memory_rows"]

Array: TypeAlias = NDArray[Any]


def memory_rows(table: EventTable) -> list[tuple[str, Array, Array]]:
    """Return (device, table rows in time order, their four words) of the memory records of each device.

    The words, int64 of shape (rows, 4): address, bytes, total allocated, total reserved.
    """
    rows = _memory_rows(table)
    if not len(rows):
        return []
    assert table.payload_words is not None
    rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
    first = table.column("payload")[rows].astype(np.int64)
    words = table.payload_words.view(np.int64)
    site = table.column("site")[rows]
    types = np.array(table.sites.field("device_type"), np.int64)[site]
    indices = np.array(table.sites.field("device_index"), np.int64)[site]
    types, indices = np.maximum(types, 0), np.maximum(indices, 0)
    found = []
    for code in np.unique(types << 32 | indices).tolist():
        chosen = (types << 32 | indices) == code
        at = first[chosen]
        found.append(
            (
                _device_name(code >> 32, code & 0xFFFFFFFF),
                rows[chosen],
                words[at[:, None] + np.arange(4)],
            )
        )
    return found


def _memory_rows(table: EventTable) -> Array:
    if table.payload_words is None or not table.has("payload"):
        return np.zeros(0, np.int64)
    payload, kind = table.column("payload"), table.column("kind")
    left_over = [
        name == "[memory]" and category == "cpu_instant_event"
        for name, category in zip(table.sites.names, table.sites.field("category"), strict=True)
    ]
    is_memory = kind == EventKind.MEMORY
    is_memory |= np.array(left_over, np.bool_)[table.column("site")] & (kind == EventKind.RANGE)
    rows: Array = np.flatnonzero(is_memory & (payload != NO_PAYLOAD))
    if len(rows) and int(payload[rows].max()) + 4 > len(table.payload_words):
        raise errors.ValueError(
            "the payload of a memory row lies outside payload_words. Add four words per memory row."
        )
    return rows


def _device_name(number: int, index: int) -> str:
    try:
        name = DeviceType(number).name.lower()
    except ValueError:
        name = f"device{number}"
    return f"{name}:{index}"
