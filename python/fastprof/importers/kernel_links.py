# SPDX-License-Identifier: Apache-2.0
"""Device activities of an imported trace: their columns, and the op that launched each."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from fastprof.model.table import EventTable, KernelTable

__all__ = ["DeviceRows", "link_kernels"]

_WORK = ("kernel", "gpu_memcpy", "gpu_memset", "hpu_op", "mtia_ccp_events")


class DeviceRows:
    """Rows of device activities, and rows with an external id, in the order of the file.

    Each row is added at most once to either.
    """

    def __init__(self) -> None:
        self._devices = [array("q") for _ in range(4)]  # row, DeviceType, device index, stream
        self._links = [array("q") for _ in range(3)]  # row, external id, whether it launches

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
        return [np.frombuffer(values, np.int64) for values in self._devices]

    @property
    def links(self) -> list[Any]:
        """Arrays: row, external id, whether it launches."""
        return [np.frombuffer(values, np.int64) for values in self._links]


def _extend(arrays: list[array[int]], *columns: Any) -> None:
    for values, column in zip(arrays, columns, strict=True):
        values.frombytes(np.asarray(column, np.int64).tobytes())


def link_kernels(table: EventTable, rows: DeviceRows) -> EventTable:
    """Return the table with device columns and kernels.

    A kernel belongs to the launching row with its external id; if there are several, to the last,
    which is the innermost op.
    """
    columns: dict[str, Any] = {}
    size = len(table)
    device_rows, types, indices, streams = rows.devices
    if len(device_rows):
        indices, streams = _of_annotations(table, device_rows, indices, streams)
        for name, values, default in (
            ("device_type", types, np.zeros(size, np.int64)),
            ("device_index", indices, np.zeros(size, np.int64)),
            ("device_resource_id", streams, table.thread.copy()),
        ):
            default[device_rows] = values
            columns[name] = default
    linked_rows, externals, launches = rows.links
    launcher = linked = np.zeros(0, np.int64)
    if len(linked_rows):
        linked, launcher = np.zeros(size, np.int64), np.zeros(size, np.int64)
        is_launch = launches != 0
        launcher[linked_rows[is_launch]] = externals[is_launch]
        linked[linked_rows[~is_launch]] = externals[~is_launch]
        columns["external_id"] = launcher
        columns["linked_correlation_id"] = linked
    kernels = None
    if len(device_rows) and len(linked_rows):
        kernels = _kernels(table, device_rows, indices, launcher, linked)
    return table.with_columns(columns, kernels=kernels) if columns else table


def _of_annotations(table: EventTable, rows: Any, indices: Any, streams: Any) -> tuple[Any, Any]:
    """Return devices and streams with those of annotations, whose args name neither: of their tracks."""
    categories = table.sites.field("category")
    by_site = np.array([category == "gpu_user_annotation" for category in categories], bool)
    chosen = by_site[table.column("site")[rows]]
    if not chosen.any():
        return indices, streams
    track = table.column("track")[rows[chosen]]
    indices, streams = indices.copy(), streams.copy()
    indices[chosen] = np.array([each.pid & 0x7FFFFFFF for each in table.tracks], np.int64)[track]
    streams[chosen] = np.array([each.tid for each in table.tracks], np.int64)[track]
    return indices, streams


def _kernels(
    table: EventTable, device_rows: Any, indices: Any, launcher: Any, linked: Any
) -> KernelTable | None:
    is_work = np.array([c in _WORK for c in table.sites.field("category")], bool)
    # The last launching row of each external id: unique() keeps the first of the reversed rows.
    launches = np.flatnonzero(launcher)[::-1]
    ids, first = np.unique(launcher[launches], return_index=True)
    wanted = linked[device_rows]
    place = np.minimum(np.searchsorted(ids, wanted), max(len(ids) - 1, 0))
    if not len(ids):
        return None
    found = (ids[place] == wanted) & is_work[table.column("site")[device_rows]]
    if not found.any():
        return None
    ops, rows = launches[first[place[found]]], device_rows[found]
    return KernelTable.sorted(
        ops,
        table.name_id[rows].astype(np.int32),
        indices[found].astype(np.int32),
        table.duration_ns[rows],
        table.names,
    )
