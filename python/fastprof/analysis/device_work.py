# SPDX-License-Identifier: Apache-2.0
"""What a device's work was like: occupancy of kernels, runs of small kernels, rates of copies. On columns; any thread.

Figures come from the arguments of the rows (Kineto's names), so work without them has none.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.distinct import distinct
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.table import EventTable

__all__ = [
    "Arguments",
    "CopyRate",
    "Occupancy",
    "SmallRuns",
    "arguments_of",
    "copy_rates",
    "memory_bandwidth",
    "occupancy_of",
    "payload_integers",
    "small_runs",
]

Array: TypeAlias = NDArray[Any]
_OCCUPANCY = "est. achieved occupancy %"


class Occupancy(NamedTuple):
    """Occupancy of kernels in percent of the device's threads, weighted by their time.

    limits: (name, percent, what limits it) by kernel, longest first: "WARPS|REGS"; "" for unknown.
    """

    percent: float
    limits: list[tuple[str, float, str]]


class SmallRuns(NamedTuple):
    """Runs of successive small kernels on one stream. gap_ns: time between the kernels of a run, all in all."""

    runs: int
    longest: int
    gap_ns: int


class CopyRate(NamedTuple):
    """Copies or fills of one kind: their number, bytes in all, and the time that they took, int ns."""

    name: str
    copies: int
    size_bytes: int
    ns: int


class Arguments(NamedTuple):
    """The arguments of rows. codes: of each row, -1 for none. parsed: name -> value, by code."""

    codes: Array
    parsed: dict[int, dict[str, Any]]

    def numbers(self, name: str, default: float = float("nan")) -> Array:
        """Return a number of each row: `default` for arguments without it, NaN without arguments or for no number."""
        known = np.full(int(self.codes.max(initial=-1)) + 2, np.nan)
        for code, members in self.parsed.items():
            known[code] = _number(members.get(name, default))
        found: Array = known[self.codes]  # the last one is of -1
        return found


def arguments_of(table: EventTable, rows: Array) -> Arguments:
    """Return the arguments of table rows, each text parsed once."""
    column = table.coded.get("metadata_json")
    if column is None:
        return Arguments(np.full(len(rows), -1, np.int64), {})
    codes = np.asarray(column.codes[rows], np.int64)
    parsed: dict[int, dict[str, Any]] = {}
    for code in distinct(codes[codes >= 0]).tolist():
        try:
            value = json.loads(column.values[code])
        except (TypeError, ValueError):
            continue
        if isinstance(value, dict):
            parsed[code] = value
    return Arguments(codes, parsed)


def _number(value: Any) -> float:
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if known else float("nan")


def occupancy_of(table: EventTable, kernels: Array, arguments: Arguments) -> Occupancy | None:
    """Return the occupancy of kernels, given by table row and their arguments; None if no row says it."""
    codes, parsed = arguments
    percent = arguments.numbers(_OCCUPANCY)
    duration = (table.end_ns[kernels] - table.start_ns[kernels]).astype(np.float64)
    known = ~np.isnan(percent) & (duration > 0)
    if not known.any():
        return None
    kernels, codes, percent, duration = (
        each[known] for each in (kernels, codes, percent, duration)
    )
    site, code = np.unique(table.column("site")[kernels], return_inverse=True)
    total = np.bincount(code.reshape(-1), duration)
    mean = np.bincount(code.reshape(-1), duration * percent) / total
    limits = []
    for at in np.argsort(-total, kind="stable").tolist():
        of_kernel = np.flatnonzero(code.reshape(-1) == at)
        longest = int(codes[of_kernel[np.argmax(duration[of_kernel])]])
        details = parsed[longest].get("occupancy")
        by = str(details.get("limitingFactors", "")) if isinstance(details, dict) else ""
        limits.append((table.sites.names[int(site[at])], float(mean[at]), by))
    return Occupancy(float((duration * percent).sum() / duration.sum()), limits)


def small_runs(table: EventTable, kernels: Array, arguments: Arguments, least_ns: int) -> SmallRuns:
    """Return the runs of two and more kernels below `least_ns` on a stream, given by table row and their arguments.

    Kernels of CUDA graphs are left out: they are joined already.
    """
    of_graph = arguments.numbers("graph id", 0) > 0
    stream = table.column("device_resource_id")[kernels]
    order = np.lexsort((table.start_ns[kernels], stream))
    start, end = table.start_ns[kernels][order], table.end_ns[kernels][order]
    small = (end - start < least_ns) & ~of_graph[order]
    joined = small[1:] & small[:-1] & (stream[order][1:] == stream[order][:-1])
    if not joined.any():
        return SmallRuns(0, 0, 0)
    gap_ns = int((start[1:] - end[:-1]).clip(min=0)[joined].sum())
    edges = np.diff(np.concatenate([[0], joined.astype(np.int8), [0]]))
    lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1) + 1
    return SmallRuns(len(lengths), int(lengths.max()), gap_ns)


def copy_rates(table: EventTable, copies: Array) -> list[CopyRate]:
    """Return copies and fills by name, given by table row, most time first. Those without bytes are left out."""
    size = _bytes_of(table, copies)
    known = ~np.isnan(size)
    copies, size = copies[known], size[known]
    by_name: dict[str, list[int]] = {}
    duration = table.end_ns[copies] - table.start_ns[copies]
    sites, code = np.unique(table.column("site")[copies], return_inverse=True)
    for at, site in enumerate(sites.tolist()):
        chosen = code.reshape(-1) == at
        sums = by_name.setdefault(table.sites.names[site], [0, 0, 0])
        for place, value in enumerate((chosen.sum(), size[chosen].sum(), duration[chosen].sum())):
            sums[place] += int(value)
    return sorted((CopyRate(n, *sums) for n, sums in by_name.items()), key=lambda each: -each.ns)


def memory_bandwidth(table: EventTable, device: int) -> float | None:
    """Return what a device's memory can move at most, in GB/s; None if the recording does not say.

    By the rule of NVIDIA's guides: two transfers a clock, each as wide as the bus. The table may be of any file.
    """
    given = table.metadata.get("deviceProperties")
    for each in given if isinstance(given, list) else []:
        if isinstance(each, dict) and each.get("id") == device:
            clock_khz, width_bits = each.get("memoryClockRate"), each.get("memoryBusWidth")
            if (
                isinstance(clock_khz, int)
                and isinstance(width_bits, int)
                and clock_khz * width_bits > 0
            ):
                return 2 * clock_khz * 1e3 * width_bits / 8 / 1e9
    return None


def _bytes_of(table: EventTable, copies: Array) -> Array:
    """Return the bytes of each copy, NaN for unknown: its argument in a capture, or that of a loaded trace."""
    size = arguments_of(table, copies).numbers("bytes")
    known, values = payload_integers(table, copies, "bytes")
    size[known] = values
    return size


def payload_integers(table: EventTable, rows: Array, name: str) -> tuple[Array, Array]:
    """Return places in `rows` of those that have an integer argument in their payload, and its value."""
    if table.payload_words is None or not table.has("payload"):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    site, payload = table.column("site")[rows], table.column("payload")[rows]
    place = np.array([n.index(name) if name in n else -1 for n in table.sites.field("arg_names")])
    known = np.flatnonzero((place[site] >= 0) & (payload != NO_PAYLOAD))
    at = payload[known].astype(np.int64) + place[site[known]]
    return known, table.payload_words[at].astype(np.int64)
