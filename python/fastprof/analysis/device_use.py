# SPDX-License-Identifier: Apache-2.0
"""How steps use the devices: how long each was idle and why, and which kernels took its time. On columns; any thread.

A device is idle between two works while no other work of it runs. If work that was launched before such a gap waited
on the device, that is the reason. Otherwise the host launched too late. Had it not waited since its last launch, for
the device or a data loader, it would have launched so much earlier: so much of the gap is due to the wait, and the
rest to what the host did.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.device_queue import device_queue
from fastprof.analysis.device_work import (
    CopyRate,
    Occupancy,
    SmallRuns,
    arguments_of,
    copy_rates,
    memory_bandwidth,
    occupancy_of,
    small_runs,
)
from fastprof.analysis.intervals import covered_ns, union_of
from fastprof.base.distinct import distinct
from fastprof.base.event_names import DEVICE_WORK
from fastprof.base.formatting import counted, format_time
from fastprof.base.visible_text import shortened
from fastprof.model.table import EventTable

__all__ = ["DeviceUse", "device_uses"]

Array: TypeAlias = NDArray[Any]

# Calls that return when the device has finished. Copies to pageable memory wait as well, in this call of the runtime.
_SYNCHRONIZING = (
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cuCtxSynchronize", "cuStreamSynchronize",
    "cuEventSynchronize", "hipDeviceSynchronize", "hipStreamSynchronize", "hipEventSynchronize",
)  # fmt: skip
_LOADER = "enumerate(DataLoader)#"
_SMALL_NS = 5_000  # duration below which the launch of a kernel takes longer than the kernel
_SHOWN_KERNELS, _SHOWN_COPIES, _NAME = 3, 2, 90  # kernels, kinds of copies, characters of a name
_LAUNCH, _SYNC, _LOAD, _QUEUED = range(4)
_REASONS = (
    "the host launched too late",
    "the host had waited for the device",
    "the host waited for the data loader",
    "work waited on the device",
)
_REMEDIES = (
    "Launch less often: join small kernels by torch.compile or a CUDA graph",
    "Avoid reading results on the host in the loop, as .item(), print() and copies to the CPU do",
    "Load data faster: more workers, pin_memory=True, prefetching",
    "Use fewer dependencies between streams",
)


class DeviceUse(NamedTuple):
    """Use of one device.

    span_ns, busy_ns: the time looked at, and the part with work. idle: (reason, remedy, ns), longest first. kernels:
    (name, ns, count), longest first. small: number of kernels shorter than 5 us. kernel_count: of all
    kernels. rows: table rows of the works that ended the longest gaps. occupancy, runs, copies,
    memory_gb_per_s: see device_work.py.
    """

    device: int
    span_ns: int
    busy_ns: int
    idle: list[tuple[str, str, int]]
    kernels: list[tuple[str, int, int]]
    small: int
    kernel_count: int
    rows: list[int]
    occupancy: Occupancy | None
    runs: SmallRuns
    copies: list[CopyRate]
    memory_gb_per_s: float | None = None

    def texts(self) -> list[str]:
        """Return sentences for people: the idle time with its reasons, the kernels, the small ones."""
        idle_ns = self.span_ns - self.busy_ns
        text = f"device {self.device} was idle {_percent(idle_ns, self.span_ns)} of {_time(self.span_ns)}"
        parts = [
            f"{_percent(ns, self.span_ns)} {reason}"
            for reason, _, ns in self.idle
            if ns > 0.01 * self.span_ns
        ]
        lines = [text + (": " + ", ".join(parts) if parts else "")]
        for name, ns, count in self.kernels[:_SHOWN_KERNELS]:
            what = (
                f"{shortened(name, _NAME)}  ({counted(count, 'kernel')}{self._occupancy_of(name)})"
            )
            lines.append(f"{_percent(ns, self.busy_ns):>7} {_time(ns):>10}  {what}")
        if self.occupancy is not None:
            lines.append(
                f"kernels held {self.occupancy.percent:.0f} % of the device's threads (occupancy, weighted by time)"
            )
        if 2 * self.small > self.kernel_count:
            lines.append(
                f"{self.small} of {counted(self.kernel_count, 'kernel')} take less than {_time(_SMALL_NS)}"
            )
        if self.runs.gap_ns > 0.01 * self.span_ns:
            lines.append(
                f"{counted(self.runs.runs, 'run')} of small kernels on one stream, of up to {self.runs.longest}, with "
                f"{_time(self.runs.gap_ns)} ({_percent(self.runs.gap_ns, self.span_ns)}) between them: "
                "torch.compile or a CUDA graph can join them"
            )
        shown = [copy for copy in self.copies if copy.ns > 0.01 * self.busy_ns]
        for copy in shown[:_SHOWN_COPIES]:
            rate = copy.size_bytes / max(copy.ns, 1)
            lines.append(
                f"{copy.name}: {copy.size_bytes / 1e6:.1f} MB in {_time(copy.ns)}, {rate:.1f} GB/s"
                + self._share_of_memory(copy.name, rate)
                + ("; pinned memory is faster (pin_memory=True)" if "Pageable" in copy.name else "")
            )
        return lines

    def _share_of_memory(self, name: str, rate: float) -> str:
        """Return the share of the memory's bandwidth that a copy inside of the device, or a fill, took; else ""."""
        moved = (
            2 if "DtoD" in name else 1 if name.startswith("Memset") else 0
        )  # a copy reads and writes
        if self.memory_gb_per_s is None or not moved:
            return ""
        percent = 100 * moved * rate / self.memory_gb_per_s
        return f", {percent:.0f} % of what its memory can move"

    def _occupancy_of(self, name: str) -> str:
        for known, percent, limit in self.occupancy.limits if self.occupancy is not None else []:
            if known == name:
                return f", occupancy {percent:.0f} %" + (f", limited by {limit}" if limit else "")
        return ""


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


def _time(ns: float) -> str:
    return format_time(ns / 1000)


def device_uses(table: EventTable, start: Array, end: Array) -> list[DeviceUse]:
    """Return the use of each device between the first of `start` and the last of `end` (int64 ns), by device.

    Looks at the time from the first to the last work in there, so that neither the set-up before nor what follows
    counts as idle. Work of all streams counts together.
    """
    categories = np.array([name in DEVICE_WORK for name in table.sites.field("category")], np.bool_)
    if not categories.any() or not len(start):
        return []
    work = np.flatnonzero(categories[table.column("site")])
    inside = (table.start_ns[work] < end.max()) & (table.end_ns[work] > start.min())
    work = work[inside]
    devices = table.column("device_index")[work]
    found = [_use_of(table, int(each), work[devices == each]) for each in distinct(devices)]
    return [use for use in found if use is not None]


def _use_of(table: EventTable, device: int, work: Array) -> DeviceUse | None:
    starts, ends = union_of(table.start_ns[work], table.end_ns[work])
    if not len(starts):
        return None
    gap_begin, gap_end = ends[:-1], starts[1:]
    length = gap_end - gap_begin
    by_reason = _by_reason(table, gap_begin, gap_end)
    order = np.argsort(-by_reason, kind="stable")
    longest = np.argsort(-length, kind="stable")[:5]
    in_order = work[np.argsort(table.start_ns[work], kind="stable")]
    ended_by = np.searchsorted(table.start_ns[in_order], gap_end[longest])
    site = table.column("site")[work]
    kernels = work[np.array([c == "kernel" for c in table.sites.field("category")], np.bool_)[site]]
    duration = table.end_ns[kernels] - table.start_ns[kernels]
    arguments = arguments_of(table, kernels)
    return DeviceUse(
        device,
        int(ends[-1] - starts[0]),
        int((ends - starts).sum()),
        [
            (_REASONS[i], _REMEDIES[i], int(by_reason[i]))
            for i in order.tolist()
            if by_reason[i] > 0
        ],
        _by_name(table, kernels, duration),
        int((duration < _SMALL_NS).sum()),
        len(kernels),
        in_order[ended_by].tolist(),
        occupancy_of(table, kernels, arguments),
        small_runs(table, kernels, arguments, _SMALL_NS),
        copy_rates(table, np.setdiff1d(work, kernels)),
        memory_bandwidth(table, device),
    )


def _by_name(table: EventTable, kernels: Array, duration: Array) -> list[tuple[str, int, int]]:
    sites, code = np.unique(table.column("site")[kernels], return_inverse=True)
    total = np.bincount(code.reshape(-1), duration, minlength=len(sites))
    count = np.bincount(code.reshape(-1), minlength=len(sites))
    found: dict[str, tuple[int, int]] = {}
    for site, ns, number in zip(sites.tolist(), total.tolist(), count.tolist(), strict=True):
        name = table.sites.names[site]  # one site for each device
        before = found.get(name, (0, 0))
        found[name] = (before[0] + int(ns), before[1] + number)
    return sorted(((n, ns, c) for n, (ns, c) in found.items()), key=lambda each: -each[1])


def _by_reason(table: EventTable, begin: Array, end: Array) -> Array:
    """Return the time of all gaps by reason, an index into _REASONS; int64 ns."""
    queue = device_queue(table)
    length = end - begin
    queued = queue.depth_at(begin) > 0
    # The host's time that ended a gap: from the last launch before it to the first one in it.
    at = np.searchsorted(queue.queued, begin, side="right")
    launches = np.concatenate([[begin.min(initial=0)], queue.queued, [np.iinfo(np.int64).max]])
    last, next_ = np.minimum(launches[at], begin), np.minimum(launches[at + 1], end)
    left = np.where(queued, 0, length)
    found = np.zeros(len(_REASONS), np.int64)
    for reason, beginnings in ((_LOAD, (_LOADER,)), (_SYNC, _SYNCHRONIZING)):
        waits = _rows_named(table, beginnings)
        part = np.minimum(left, covered_ns(last, next_, waits))
        found[reason] = part.sum()
        left -= part
    found[_LAUNCH] = left.sum()
    found[_QUEUED] = length[queued].sum()
    return found


def _rows_named(table: EventTable, beginnings: tuple[str, ...]) -> tuple[Array, Array]:
    """Return the times, as begins and ends of disjoint intervals, in which rows with such names run."""
    of_site = np.array([name.startswith(beginnings) for name in table.sites.names], np.bool_)
    rows = np.flatnonzero(of_site[table.column("site")])
    return union_of(table.start_ns[rows], table.end_ns[rows])
