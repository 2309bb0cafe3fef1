# SPDX-License-Identifier: Apache-2.0
"""Memory records of a table: their rows and payload words, grouped by device or allocator."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.device_type import device_type_name
from fastprof.base.distinct import distinct
from fastprof.base.native_numbers import INCOMPLETE_CAUSES
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.sites import MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME
from fastprof.model.table import EventKind, EventTable

__all__ = [
    "FailedRequest",
    "failed_requests",
    "is_python_allocator",
    "is_sampled",
    "memory_rows",
    "missing_text",
    "sampling_variance",
]

Array: TypeAlias = NDArray[Any]
_FAILED_WORDS, _MEMORY_WORDS = 3, 4


def memory_rows(table: EventTable) -> list[tuple[str, Array, Array]]:
    """Return (device, table rows in time order, payload words) of the memory records of each device.

    device: "cpu:0", "cuda:1"; for an allocator with a name of its own, that name ("python:object").
    payload words: int64, shape (rows, 4): address, bytes (negative for a free), total allocated, total reserved.
    Of a sampled device (is_sampled()), bytes are those that the record stands for, and the third word is the
    block's own size. Any thread.
    """
    rows = _rows_of(table, EventKind.MEMORY, MEMORY_EVENT_NAME, _MEMORY_WORDS)
    if not len(rows):
        return []
    assert table.payload_words is not None
    rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
    first = table.column("payload")[rows].astype(np.int64)
    words = table.payload_words.view(np.int64)
    site = table.column("site")[rows]
    types = np.array(table.sites.field("device_type"), np.int64)
    indices = np.array(table.sites.field("device_index"), np.int64)
    present = distinct(site)
    labels = np.array(_labels(table, present))
    # Sorted by device type and index, then label: named allocators follow their device.
    present_order = np.lexsort((labels, indices[present], types[present]))
    found = []
    for label in dict.fromkeys(labels[present_order].tolist()):
        chosen = np.isin(site, present[labels == label])
        at = first[chosen]
        found.append((label, rows[chosen], words[at[:, None] + np.arange(_MEMORY_WORDS)]))
    return found


class FailedRequest(NamedTuple):
    """An allocation that failed. enclosing: row of the innermost range open on its thread; -1 for none."""

    row: int
    device: str
    time_ns: int  # Unix time
    size_bytes: int
    enclosing: int


def failed_requests(table: EventTable) -> list[FailedRequest]:
    """Return the failed allocations by time, including those that attribute_memory converted to ranges. Any thread."""
    rows = _rows_of(table, EventKind.OUT_OF_MEMORY, OUT_OF_MEMORY_EVENT_NAME, _FAILED_WORDS)
    if not len(rows):
        return []
    assert table.payload_words is not None
    rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
    words = table.payload_words.view(np.int64)
    payload, site = table.column("payload"), table.column("site")
    labels = dict(
        zip(distinct(site[rows]).tolist(), _labels(table, distinct(site[rows])), strict=True)
    )
    return [
        FailedRequest(
            row,
            labels[int(site[row])],
            int(table.start_ns[row]),
            int(words[int(payload[row])]),
            _enclosing(table, row),
        )
        for row in rows.tolist()
    ]


def is_python_allocator(device: str) -> bool:
    """Return whether a device label of memory_rows() is one of Python's allocators."""
    return device.startswith("python:")


def is_sampled(device: str) -> bool:
    """Return whether the records of a device label are a sample of its blocks, scaled by the recorder."""
    return "(sampled)" in device


def sampling_variance(words: Array) -> Array:
    """Return each record's contribution to the variance of a sum of its device's bytes, in bytes squared.

    words: as memory_rows() returns them, of a sampled device. A block of s bytes that is recorded with probability p,
    independently of the others, as w = s / p bytes, adds w * w * (1 - p) = w * (w - s): the Horvitz-Thompson estimator.
    """
    scaled = np.abs(words[:, 1]).astype(np.float64)
    variance: Array = scaled * np.maximum(scaled - words[:, 2], 0)
    return variance


def missing_text(table: EventTable) -> str:
    """Return a sentence on the dropped events, which sums of memory do not contain; "" if there are none."""
    incomplete = {cause.name.lower() for cause in INCOMPLETE_CAUSES}
    dropped = {cause: n for cause, n in table.dropped.items() if cause not in incomplete}
    lost = sum(dropped.values())
    if not lost:
        return ""
    causes = ", ".join(f"{cause} {n:,}" for cause, n in sorted(dropped.items()))
    return (
        f"{100 * lost / (lost + len(table)):.1f} % of the events were dropped ({causes}): sums and peaks of memory do "
        "not contain them. Record with a larger limit (max_bytes, --max-records-mb) or less (a shorter part, a sample)"
    )


def _enclosing(table: EventTable, row: int) -> int:
    time = table.start_ns[row]
    around = (table.start_ns <= time) & (table.end_ns >= time) & (table.thread == table.thread[row])
    around &= (table.column("kind") == EventKind.RANGE) & (table.end_ns > table.start_ns)
    found = np.flatnonzero(around)
    return int(found[np.argmax(table.start_ns[found])]) if len(found) else -1


def _rows_of(table: EventTable, kind: EventKind, name: str, size: int) -> Array:
    """Return the rows of a kind and those that attribute_memory converted to ranges of this name.

    size: payload words of a record. Raises errors.ValueError if a payload lies outside payload_words.
    """
    if table.payload_words is None or not table.has("payload"):
        return np.zeros(0, np.int64)
    payload, kinds = table.column("payload"), table.column("kind")
    converted = [
        one == name and category == "cpu_instant_event"
        for one, category in zip(table.sites.names, table.sites.field("category"), strict=True)
    ]
    mine = kinds == kind
    mine |= np.array(converted, np.bool_)[table.column("site")] & (kinds == EventKind.RANGE)
    rows: Array = np.flatnonzero(mine & (payload != NO_PAYLOAD))
    if len(rows) and int(payload[rows].max()) + size > len(table.payload_words):
        raise errors.ValueError(
            "the payload of a memory row lies outside payload_words. Add four words per memory row, three "
            "per out-of-memory row."
        )
    return rows


def _labels(table: EventTable, sites: Array) -> list[str]:
    functions = table.sites.field("function")
    types, indices = table.sites.field("device_type"), table.sites.field("device_index")
    return [
        functions[site] or f"{device_type_name(max(types[site], 0))}:{max(indices[site], 0)}"
        for site in sites.tolist()
    ]
