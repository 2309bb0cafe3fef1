# SPDX-License-Identifier: Apache-2.0
"""Depth of the device's queue over time: kernels launched and not yet started. On columns.

Each kernel counts from the start of its launch call to its own start. Launch and kernel are matched by the op that
made the call (linked_correlation_id) and, among the calls of one op, in order of time, so that several streams,
devices and kernels per launch (graphs) are counted exactly. Pure functions: any thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.model.table import EventTable

__all__ = ["LAUNCH_NAMES", "DeviceQueue", "device_queue"]

Array: TypeAlias = NDArray[Any]

# Prefixes of the names of runtime and driver calls that launch kernels.
LAUNCH_NAMES = (
    "cudaLaunchKernel",
    "__cudaLaunchKernel",
    "cudaLaunchCooperativeKernel",
    "cudaGraphLaunch",
    "cuLaunchKernel",
    "cuLaunchCooperativeKernel",
    "cuGraphLaunch",
    "hipLaunchKernel",
    "hipExtLaunchKernel",
    "hipModuleLaunchKernel",
    "hipGraphLaunch",
)


class DeviceQueue(NamedTuple):
    """Kernels of a table, their launches, and the depth of the queue over time.

    launches, kernels: table rows, by start. queued, started: sorted times at which kernels were launched and
    began, int64 ns. rows, depth: launches and kernels by start, with the depth at each.
    """

    launches: Array
    kernels: Array
    queued: Array
    started: Array
    rows: Array
    depth: Array

    def depth_at(self, time: Array) -> Array:
        """Return the number of kernels launched and not started at each time, int64, at least 0."""
        queued = np.searchsorted(self.queued, time, side="right")
        depth: Array = queued - np.searchsorted(self.started, time, side="right")
        return depth.clip(0)


def device_queue(table: EventTable) -> DeviceQueue:
    """Return the launches, kernels and queue depths of a table; empty ones if it has no kernels."""
    start, site = table.start_ns, table.column("site")
    category = np.array([c == "kernel" for c in table.sites.field("category")], np.bool_)
    by_name = np.array([n.startswith(LAUNCH_NAMES) for n in table.sites.names], np.bool_)
    nothing = np.zeros(0, np.int64)
    kernels = np.flatnonzero(category[site]) if category.any() else nothing
    launches = np.flatnonzero(by_name[site]) if by_name.any() else nothing
    kernels = kernels[np.argsort(start[kernels], kind="stable")]
    launches = launches[np.argsort(start[launches], kind="stable")]
    matched, launched_by = _matched(table.column("linked_correlation_id"), launches, kernels)
    # A launch cannot follow its kernel; clocks of devices are fitted, so small differences occur.
    queued = np.minimum(start[launched_by], start[matched])
    rows = np.concatenate([launches, kernels])
    rows = rows[np.argsort(start[rows], kind="stable")]
    queue = DeviceQueue(
        launches, kernels, np.sort(queued), np.sort(start[matched]), rows, np.zeros(0, np.int64)
    )
    return queue._replace(depth=queue.depth_at(start[rows]))


def _matched(link: Array, launches: Array, kernels: Array) -> tuple[Array, Array]:
    """Return (kernels with a launch, the launch of each), as table rows.

    The n-th kernel of an op belongs to its n-th launch; further kernels to its last.
    """
    if not (len(launches) and len(kernels)):
        return kernels[:0], launches[:0]
    launches = launches[np.argsort(link[launches], kind="stable")]
    kernels = kernels[np.argsort(link[kernels], kind="stable")]
    keys, first, count = np.unique(link[launches], return_index=True, return_counts=True)
    group = np.searchsorted(keys, link[kernels])
    known = (group < len(keys)) & (keys[np.minimum(group, len(keys) - 1)] == link[kernels])
    kernels, group = kernels[known], group[known]
    begins = np.searchsorted(link[kernels], link[kernels], side="left")
    number = np.arange(len(kernels)) - begins
    return kernels, launches[first[group] + np.minimum(number, count[group] - 1)]
