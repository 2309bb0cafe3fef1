# SPDX-License-Identifier: Apache-2.0
"""Device activities of an imported trace: their columns, and the op that launched each."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from fastprof.base.event_names import DEVICE_WORK
from fastprof.model.columns import SparseValues
from fastprof.model.table import EventTable, KernelTable

__all__ = ["NO_DEVICE", "DeviceRows", "link_kernels"]

# Device index of rows whose args name no device: that of their track, whose pid it is.
NO_DEVICE = -1

_WORK = (*DEVICE_WORK, "hpu_op", "mtia_ccp_events")


class DeviceRows:
    """Rows of device activities, and rows with an external id, in the order of the file.

    Each row is added at most once to either.
    """

    def __init__(self) -> None:
        self._devices = [array(code) for code in "Ihiq"]  # row, DeviceType, device index, stream
        self._links = [array(code) for code in "Iqb"]  # row, external id, whether it launches

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory until the table is made, in bytes."""
        return 300 * len(self._devices[0]) + 200 * len(self._links[0])

    def add_devices(self, rows: Any, types: Any, indices: Any, streams: Any) -> None:
        """Add device activities: arrays or sequences of equal length."""
        _extend(self._devices, rows, types, indices, streams)

    def add_links(self, rows: Any, externals: Any, launches: Any) -> None:
        """Add rows with an external id, those that launch kernels and those launched."""
        _extend(self._links, rows, externals, launches)

    @property
    def devices(self) -> list[Any]:
        """Arrays: row, DeviceType, device index, stream."""
        return [np.frombuffer(values, values.typecode) for values in self._devices]

    @property
    def links(self) -> list[Any]:
        """Arrays: row, external id, whether it launches."""
        return [np.frombuffer(values, values.typecode) for values in self._links]


def _extend(arrays: list[array[int]], *columns: Any) -> None:
    for values, column in zip(arrays, columns, strict=True):
        values.frombytes(np.asarray(column, values.typecode).tobytes())


def link_kernels(table: EventTable, rows: DeviceRows) -> EventTable:
    """Return the table with device columns and kernels.

    A kernel belongs to the launching row with its external id; if there are several, to the last,
    which is the innermost op.
    """
    columns: dict[str, Any] = {}
    size = len(table)
    device_rows, types, indices, streams = rows.devices
    if len(device_rows):
        indices, streams = _of_tracks(table, device_rows, indices, streams)
        resources = table.tracks.ids[table.column("track")]
        resources[device_rows] = streams
        columns["device_resource_id"] = resources
        for name, values in (("device_type", types), ("device_index", indices)):
            columns[name] = SparseValues(device_rows, values, size, 0)
    linked_rows, externals, launches = rows.links
    if len(linked_rows):
        for name, chosen in (
            ("external_id", np.flatnonzero(launches)),
            ("linked_correlation_id", np.flatnonzero(launches == 0)),
        ):
            columns[name] = SparseValues(linked_rows[chosen], externals[chosen], size, 0)
    kernels = None
    if len(device_rows) and len(linked_rows):
        launched, launching = columns["linked_correlation_id"], columns["external_id"]
        kernels = _kernels(table, device_rows, indices, launching, launched)
    return table.with_columns(columns, kernels=kernels) if columns else table


def _of_tracks(table: EventTable, rows: Any, indices: Any, streams: Any) -> tuple[Any, Any]:
    """Return (device indices, streams), with those of rows whose args contain neither, from their tracks."""
    categories = table.sites.field("category")
    by_site = np.array([category == "gpu_user_annotation" for category in categories], bool)
    chosen = by_site[table.column("site")[rows]] | (indices == NO_DEVICE)
    if not chosen.any():
        return indices, streams
    track = table.column("track")[rows[chosen]]
    indices, streams = indices.copy(), streams.copy()
    indices[chosen] = np.array([each.pid & 0x7FFFFFFF for each in table.tracks], np.int64)[track]
    streams[chosen] = np.array([each.tid for each in table.tracks], np.int64)[track]
    return indices, streams


def _kernels(
    table: EventTable,
    device_rows: Any,
    indices: Any,
    launching: SparseValues,
    launched: SparseValues,
) -> KernelTable | None:
    is_work = np.array([c in _WORK for c in table.sites.field("category")], bool)
    if not len(launching.rows) or not len(launched.rows):
        return None
    # Rows with an id are in the order of the file, as device rows are.
    place = np.minimum(np.searchsorted(launched.rows, device_rows), len(launched.rows) - 1)
    wanted = np.where(launched.rows[place] == device_rows, launched.values[place], 0)
    ops = _last_rows(launching, wanted)
    found = (ops >= 0) & is_work[table.column("site")[device_rows]]
    if not found.any():
        return None
    rows = device_rows[found]
    return KernelTable.sorted(
        ops[found].astype(np.int64),
        table.sites.name_codes[table.column("site")[rows]].astype(np.int32),
        indices[found].astype(np.int32),
        table.end_ns[rows] - table.start_ns[rows],
        table.names,
    )


def _last_rows(launching: SparseValues, wanted: Any) -> Any:
    """Return the last row of each wanted id, -1 for none and for id 0. Ids of `launching` are positive."""
    rows, ids = launching.rows, launching.values
    most = int(ids.max())
    if most <= 4 * launching.size + 1024:
        # A table by id: an assignment keeps the last of equal ids.
        row_of = np.full(most + 1, -1, np.int64 if launching.size >> 31 else np.int32)
        row_of[ids] = rows
        return np.where(wanted <= most, row_of[np.minimum(wanted, most)], -1)
    # unique() keeps the first of the reversed rows.
    distinct, first = np.unique(ids[::-1], return_index=True)
    place = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    return np.where(distinct[place] == wanted, rows[::-1][first[place]].astype(np.int64), -1)
