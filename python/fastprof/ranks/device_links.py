# SPDX-License-Identifier: Apache-2.0
"""device_links: which call launched each piece of a device's work, and what each recorded wait waited for.

A call of the runtime and what it caused have one number (CUPTI's correlation), which grows with each call of a process.
A wait (category cuda_sync) for an event names the stream and the call that recorded the event.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.device_work import payload_integers
from fastprof.base.distinct import distinct
from fastprof.base.event_names import DEVICE_WORK
from fastprof.model.table import EventTable
from fastprof.ranks.event_names import NO_WAIT, SYNC

__all__ = [
    "STREAM_WAIT",
    "DeviceLinks",
    "device_links",
    "launch_starts",
]

Array: TypeAlias = NDArray[Any]
STREAM_WAIT = "Stream Wait Event"
_OTHER_IDS = 1 << 40  # added to ids of ranges, so that they are none of calls


class DeviceLinks(NamedTuple):
    """By row. correlation: equal for a call and what it caused, 0 for none. waits_for: row of the work, or of the wait
    of its stream, that a wait waited for: of a wait for all streams, what ended last; -1: unknown or not recorded;
    NO_WAIT: no wait.
    """

    correlation: Array
    waits_for: Array


def device_links(table: EventTable) -> DeviceLinks:
    """Return the links of a table; from the ids of ranges that launched work where no correlations are known."""
    waits_for = np.full(len(table), NO_WAIT, np.int64)
    correlation, known, works, waits = _correlations(table)
    if waits.any():
        _resolve(table, np.flatnonzero(works), np.flatnonzero(waits), known, waits_for)
    return DeviceLinks(correlation, waits_for)


def _correlations(table: EventTable) -> tuple[Array, Array, Array, Array]:
    """Return by row: the correlation, the number of the runtime's call, and masks of devices' work and of waits."""
    categories, site, size = table.sites.field("category"), table.column("site"), len(table)

    def of(*wanted: str) -> Array:
        chosen = np.array([*(each.endswith(wanted) for each in categories), False], np.bool_)
        found: Array = chosen[site]
        return found

    works, waits, calls = of(*DEVICE_WORK), of(SYNC), of("_runtime", "_driver")
    rows = np.flatnonzero(works | waits | calls)
    correlation, known = np.zeros(size, np.int64), np.zeros(size, np.int64)
    if not len(rows):
        return correlation, known, works, waits
    known[rows] = _integers(table, rows, "correlation").clip(min=0)
    caused = works | waits
    called = (np.isin(known, known[calls]) | waits) & (
        known > 0
    )  # a wait's number is its order, too
    correlation[caused & called] = known[caused & called]
    used = calls & np.isin(known, known[caused & called])
    correlation[used] = known[used]
    if table.has("linked_correlation_id"):
        linked = np.where(caused & ~called, table.column("linked_correlation_id"), 0)
        launching = table.column("external_id")
        offset = _OTHER_IDS if called.any() else 0
        free = np.isin(launching, linked[linked > 0]) & (launching > 0) & (correlation == 0)
        correlation[free] = launching[free] + offset
        found = linked > 0
        correlation[found] = linked[found] + offset
    return correlation, known, works, waits


def launch_starts(table: EventTable, rows: Array) -> Array:
    """Return when the call began that launched the work in each row, int64 ns; -1: unknown."""
    correlation, _, works, waits = _correlations(table)
    calls = np.flatnonzero((correlation > 0) & ~works & ~waits)
    calls = calls[np.lexsort((table.start_ns[calls], correlation[calls]))]
    at = np.searchsorted(correlation[calls], correlation[rows]).clip(max=len(calls) - 1)
    if not len(calls):
        return np.full(len(rows), -1, np.int64)
    return np.where(correlation[calls[at]] == correlation[rows], table.start_ns[calls[at]], -1)


def _resolve(table: EventTable, works: Array, waits: Array, known: Array, waits_for: Array) -> None:
    """Set what waits waited for: the last of its stream that was called before."""
    stream = table.column("device_resource_id").astype(np.int64)
    device = table.column("device_index").astype(np.int64)
    names = [table.name(row) for row in waits.tolist()]
    in_stream = waits[np.array([name == STREAM_WAIT for name in names], np.bool_)]
    items = np.concatenate([works, in_stream])
    items = items[known[items] > 0]
    order = np.lexsort((table.start_ns[items], known[items], stream[items], device[items]))
    items = items[order]
    of_stream: dict[int, dict[int, Array]] = {}  # number of the stream -> device -> items
    key = device[items] << 33 | (stream[items] & ((1 << 33) - 1))
    for span in np.split(items, np.flatnonzero(np.diff(key)) + 1):
        if len(span):
            of_stream.setdefault(int(stream[span[0]]), {})[int(device[span[0]])] = span
    recorded, source = (
        _integers(table, waits, f"wait_on_{what}") for what in ("cuda_event_record_corr_id", "stream")
    )  # fmt: skip
    for at, row in enumerate(waits.tolist()):
        name, own = names[at], int(device[row])
        before = int(recorded[at]) if "Event" in name else int(known[row])
        if name.startswith("Context"):
            spans = [devices[own] for devices in of_stream.values() if own in devices]
        else:
            queue = int(source[at]) if "Event" in name else int(stream[row])
            spans = _fitting(
                {at: s for at, s in of_stream.get(queue, {}).items() if known[s[0]] < before},
                own,
                other=name == STREAM_WAIT and queue == stream[row],
            )
        last = [
            int(span[place - 1])
            for span in spans
            if (place := int(np.searchsorted(known[span], before, "left"))) > 0
        ]
        waits_for[row] = max(last, key=lambda each: int(table.end_ns[each]), default=-1)


def _fitting(of_device: dict[int, Array], own: int, other: bool) -> list[Array]:
    """Return the items of the stream that was waited for, of which the device is not recorded; [] if several fit.

    other: a stream of this number waits, so that it waits for another device: waiting for itself has no effect.
    """
    others = [span for device, span in of_device.items() if device != own]
    if own in of_device and not (other and others):
        return [of_device[own]]
    return others if len(others) == 1 else []


def _integers(table: EventTable, rows: Array, name: str) -> Array:
    """Return an integer argument of each row, -1 for none."""
    found: Array = np.full(len(rows), -1, np.int64)
    column = table.coded.get("metadata_json")
    if column is not None:
        codes = np.asarray(column.codes[rows], np.int64)
        pattern = re.compile(rf'"{name}": ?"?(-?[0-9]{{1,18}})')
        values = np.full(int(codes.max(initial=-1)) + 2, -1, np.int64)
        for code in distinct(codes[codes >= 0]).tolist():
            match = pattern.search(str(column.values[code]))
            values[code] = -1 if match is None else int(match[1])
        found = values[codes]
    known, integers = payload_integers(table, rows, name)
    found[known] = integers
    return found
