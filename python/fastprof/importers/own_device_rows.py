# SPDX-License-Identifier: Apache-2.0
"""Device activities of a Perfetto trace that fastprof wrote: its slices have the args of a Chrome trace."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from fastprof.importers.chrome_args import DEVICE_CATEGORIES, as_int, launches_kernels
from fastprof.importers.kernel_links import NO_DEVICE, DeviceRows, link_kernels
from fastprof.model.nesting import nest_intervals
from fastprof.model.table import EventKind, EventTable

__all__ = ["LINK_ARGS", "LinkArgs", "with_own_devices"]

# Args that link rows of a device to what launched them.
LINK_ARGS = ("External id", "device", "stream", "correlation")


class LinkArgs:
    """The numbers that rows have in LINK_ARGS. Rows are added in ascending order."""

    def __init__(self) -> None:
        self._found = {key: (array("q"), array("q")) for key in LINK_ARGS}

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        return sum(16 * len(rows) for rows, _ in self._found.values())

    def add(self, key: str, rows: Any, values: Any) -> None:
        """Add the values of rows, as arrays of int64."""
        for target, more in zip(self._found[key], (rows, values), strict=True):
            target.frombytes(np.asarray(more, np.int64).tobytes())

    def add_row(self, row: int, args: dict[str, Any]) -> None:
        """Add the values of one row's args."""
        for key in LINK_ARGS:
            if (number := as_int(args.get(key))) is not None:
                self.add(key, [row], [number])

    def of(self, key: str) -> tuple[Any, Any]:
        """Return (rows, values) of an arg."""
        rows, values = (np.frombuffer(each, np.int64) for each in self._found[key])
        return rows, values

    def at(self, key: str, rows: Any, default: int) -> Any:
        """Return an arg's value of each row, int64."""
        known, values = self.of(key)
        if not len(known):
            return np.full(len(rows), default, np.int64)
        place = np.searchsorted(known, rows).clip(max=len(known) - 1)
        return np.where(known[place] == rows, values[place], default)


def with_own_devices(table: EventTable, args: LinkArgs) -> EventTable:
    """Return the table with device columns and kernels; the table itself if nothing in it ran on a device.

    A kernel belongs to the op with its "External id", which tables of PyTorch's traces have; if no row has one, to
    the range around the call with its "correlation", as in a trace that is exported for Chrome.
    """
    categories = table.sites.field("category")
    types = [DEVICE_CATEGORIES.get(category) for category in categories]
    if not any(types):
        return table
    site, is_range = table.column("site"), table.column("kind") == int(EventKind.RANGE)
    by_site = np.array([-1 if each is None else int(each) for each in types], np.int64)
    launches = np.array([launches_kernels(category) for category in categories], bool)
    on_device = (by_site[site] >= 0) & is_range
    devices = np.flatnonzero(on_device)
    index = args.at("device", devices, NO_DEVICE)
    index = np.where(index == NO_DEVICE, NO_DEVICE, index & 0x7FFFFFFF)
    found = DeviceRows()
    found.add_devices(devices, by_site[site[devices]], index, args.at("stream", devices, 0))
    rows, ids = args.of("External id")
    linked = is_range[rows] & (ids > 0)
    rows, ids = rows[linked], ids[linked]
    if not len(rows):
        rows, ids = _by_correlation(
            table, args, devices, np.flatnonzero(is_range & ~on_device), launches
        )
    if len(rows):
        found.add_links(rows, ids, launches[site[rows]])
    return link_kernels(table, found)


def _by_correlation(
    table: EventTable, args: LinkArgs, devices: Any, hosts: Any, launches: Any
) -> tuple[Any, Any]:
    """Return (rows, external ids) of device rows, their calls and the ranges around these: the range's row, plus 1."""
    numbers = args.at("correlation", hosts, 0)
    calls = np.flatnonzero(numbers > 0)
    calls = calls[np.argsort(numbers[calls], kind="stable")]
    numbers = numbers[calls]
    wanted = args.at("correlation", devices, 0)
    first = np.searchsorted(numbers, wanted)
    # Calls of several processes may have one correlation: then it is not known which of them it was.
    one = (np.searchsorted(numbers, wanted, "right") - first == 1) & (wanted > 0)
    devices, calls = devices[one], calls[first[one]]
    track = table.column("track")[hosts].astype(np.int64)
    up = nest_intervals(table.start_ns[hosts], table.end_ns[hosts], track)
    launching = launches[table.column("site")[hosts]]
    around = calls.copy()
    while (rest := np.flatnonzero((around >= 0) & ~launching[around])).size:
        around[rest] = up[around[rest]]
    inside = around >= 0
    ids = hosts[around[inside]] + 1
    pairs = (devices[inside], hosts[calls[inside]], hosts[around[inside]])
    rows, places = np.unique(np.concatenate(pairs), return_index=True)
    return rows, np.tile(ids, len(pairs))[places]
