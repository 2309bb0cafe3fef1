# SPDX-License-Identifier: Apache-2.0
"""Columns of device rows: where the work ran, which range launched it, kernels by range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.event_names import DEVICE_WORK
from fastprof.base.native_numbers import Category
from fastprof.model.table import KernelTable, SiteTable, TrackTable

__all__ = ["DeviceColumns", "HasDeviceLinks", "device_columns"]

Array: TypeAlias = NDArray[Any]


class HasDeviceLinks(Protocol):
    """The part of a capture that is read here."""

    def device_links(self) -> tuple[Any, Any, Any, Any]: ...


class DeviceColumns(NamedTuple):
    """Columns of an EventTable by name, and the device work by launching range; None without such work."""

    columns: dict[str, Array]
    kernels: KernelTable | None


def device_columns(
    capture: HasDeviceLinks, columns: Mapping[str, Array], sites: SiteTable, tracks: TrackTable
) -> DeviceColumns | None:
    """Return the columns of device rows; None if the capture has no device row.

    A range's external_id is its row number + 1. Rows of devices and their runtime have none; their
    linked_correlation_id is that of the innermost range or op that made the call, 0 for none.
    """
    row, _, launching, _ = capture.device_links()
    if not len(row):
        return None
    site, size = columns["site"], len(columns["site"])
    mask = np.asarray(sites.field("mask"), np.int64)
    on_device = row[mask[site[row]] == Category.DEVICE]
    found: dict[str, Array] = {}
    for name, dtype in (("device_type", np.int16), ("device_index", np.int32)):
        by_site = np.asarray(sites.field(name), np.int64)
        found[name] = np.zeros(size, dtype)
        found[name][on_device] = by_site[site[on_device]]
    track = columns["track"]
    queue = np.array([entry.tid for entry in tracks], np.int64)
    found["device_resource_id"] = tracks.ids[track].astype(np.int64)
    found["device_resource_id"][on_device] = queue[track[on_device]]
    found["external_id"] = np.arange(1, size + 1, dtype=np.int64)
    found["external_id"][row] = 0
    found["linked_correlation_id"] = np.zeros(size, np.int64)
    found["linked_correlation_id"][row] = launching + 1
    return DeviceColumns(found, _kernels(row, launching, columns, sites, found["device_index"]))


def _kernels(
    row: Array, launching: Array, columns: Mapping[str, Array], sites: SiteTable, device: Array
) -> KernelTable | None:
    site = columns["site"]
    # Only work is attached to the range that launched it; waits are not.
    is_work = np.array([category in DEVICE_WORK for category in sites.field("category")], np.bool_)
    chosen = (launching >= 0) & is_work[site[row]]
    rows, ranges = row[chosen], launching[chosen]
    if not len(rows):
        return None
    return KernelTable.sorted(
        ranges,
        sites.name_codes[site[rows]],
        device[rows],
        columns["end_ns"][rows] - columns["start_ns"][rows],
        sites.distinct_names,
    )
