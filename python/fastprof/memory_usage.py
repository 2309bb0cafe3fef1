# SPDX-License-Identifier: Apache-2.0
"""Which range an allocation belongs to: memory columns of a captured table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import errors
from fastprof.device_type import DeviceType
from fastprof.sites import SiteTable

__all__ = ["ATTRIBUTIONS", "attribute_memory"]

Array: TypeAlias = NDArray[Any]

ATTRIBUTIONS = ("range", "interval")
_CPU_TYPES = (DeviceType.CPU, DeviceType.MKLDNN, DeviceType.IDEEP)
# EventKind, which is not imported: table.py is above this module.
_RANGE, _ASYNC_RANGE, _MEMORY, _OUT_OF_MEMORY = 0, 1, 6, 7


def attribute_memory(
    columns: Mapping[str, Array], sites: SiteTable, words: Array, attribution: str
) -> dict[str, Array]:
    """cpu_memory_usage and device_memory_usage (bytes, children included) of each range.

    attribution "range": a report counts for the innermost range that was open on its own thread,
    and for the ranges around that one. "interval": it counts for every range of any thread whose
    [start, end] contains its time (rule T6 of PyTorch's autograd profiler), so one report may
    count in several unrelated ranges. Reports that belong to no range, and all that tell of
    exhausted memory, become listed rows of their own: `kind` comes back changed for them.
    """
    if attribution not in ATTRIBUTIONS:
        raise errors.ValueError(
            f"unknown memory_attribution {attribution!r}; choose from {', '.join(ATTRIBUTIONS)}"
        )
    kind = columns["kind"]
    size = len(kind)
    reports = np.flatnonzero(kind == _MEMORY)
    exhausted = np.flatnonzero(kind == _OUT_OF_MEMORY)
    cpu, device = np.zeros(size, np.int64), np.zeros(size, np.int64)
    found = {"cpu_memory_usage": cpu, "device_memory_usage": device}
    listed = exhausted
    if len(reports):
        bytes_of = words[columns["payload"][reports].astype(np.int64) + 1].view(np.int64)
        types = np.array(sites.field("device_type"), np.int64)[columns["site"][reports]]
        on_cpu = np.isin(types, [int(t) for t in _CPU_TYPES]) | (types < 0)
        if attribution == "range":
            lone = _by_range(columns, reports, bytes_of, on_cpu, cpu, device)
        else:
            lone = _by_interval(columns, reports, bytes_of, on_cpu, cpu, device)
        rows, amounts, of_cpu = reports[lone], bytes_of[lone], on_cpu[lone]
        cpu[rows[of_cpu]] = amounts[of_cpu]
        device[rows[~of_cpu]] = amounts[~of_cpu]
        listed = np.concatenate([rows, exhausted])
    if len(listed):
        shown = kind.copy()
        shown[listed] = _RANGE
        found["kind"] = shown
    return found


def _by_range(
    columns: Mapping[str, Array],
    reports: Array,
    bytes_of: Array,
    on_cpu: Array,
    cpu: Array,
    device: Array,
) -> Array:
    parent = columns["parent"]
    ancestor = parent[reports]
    lone: Array = ancestor < 0
    while len(ancestor):
        inside = ancestor >= 0
        ancestor, bytes_of, on_cpu = ancestor[inside], bytes_of[inside], on_cpu[inside]
        np.add.at(cpu, ancestor[on_cpu], bytes_of[on_cpu])
        np.add.at(device, ancestor[~on_cpu], bytes_of[~on_cpu])
        ancestor = parent[ancestor]
    return lone


def _by_interval(
    columns: Mapping[str, Array],
    reports: Array,
    bytes_of: Array,
    on_cpu: Array,
    cpu: Array,
    device: Array,
) -> Array:
    ranges = np.flatnonzero(columns["kind"] <= _ASYNC_RANGE)
    start, end = columns["start_ns"][ranges], columns["end_ns"][ranges]
    times = columns["start_ns"][reports]
    for total, chosen in ((cpu, on_cpu), (device, ~on_cpu)):
        order = np.argsort(times[chosen], kind="stable")
        at = times[chosen][order]
        sums = np.concatenate([[0], np.cumsum(bytes_of[chosen][order])])
        total[ranges] = (
            sums[np.searchsorted(at, end, "right")] - sums[np.searchsorted(at, start, "left")]
        )
    begun = np.searchsorted(np.sort(start), times, "right")
    over = np.searchsorted(np.sort(end), times, "left")
    lone: Array = begun == over
    return lone
