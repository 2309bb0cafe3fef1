# SPDX-License-Identifier: Apache-2.0
"""Chrome trace of a list of FunctionEvents: converts it to a table, which the native writer writes.

The trace has the contents of PyTorch's export of such lists, which a recording's table has in other forms:
kernels attached to events, with arrows; a process for each node of a distributed run; times that are not finite.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from fastprof.base.device_type import DeviceType
from fastprof.base.native_numbers import Category
from fastprof.base.visible_text import encodable_text
from fastprof.exporters.trace_writers import capture_of_table, write_chrome_capture
from fastprof.model.columns import NO_PAYLOAD, CodedColumn, EventFlag, EventKind
from fastprof.model.sites import Site, Track
from fastprof.model.table import EventTable

__all__ = ["export_chrome_trace", "table_to_write"]

# Made-up process ids, one per group of tracks: readers group tracks by process id.
_CPU_PID = 0
_NODE_PID = 1 << 20
_DEVICE_PID = 1 << 21
_MAX_NS = 4 * 10**18  # the sum of two such times fits into 64 bits
_MAX_DEVICES = 1 << 15


def export_chrome_trace(events: Iterable[Any], path: str | os.PathLike[str]) -> None:
    """Write a list of FunctionEvents as a Chrome trace, compressed with gzip if `path` ends in .gz.

    Raises errors.IoError if the file cannot be written.
    """
    write_chrome_capture(capture_of_table(table_to_write(events)), path, {}, event_ids=False)


def table_to_write(events: Iterable[Any]) -> EventTable:
    """Return a table of the events for the trace writers: ranges, kernels, and arrows to kernels.

    A CPU event is a range on its thread. Each of its kernels is a range on the device's track, with
    an arrow from the CPU range; kernels without a known start follow one another from the event's
    start. Remote events are in a process "node N". Events without a trace_name are left out. Times are
    rounded to ns; NaN and infinity become 0.
    """
    rows = _Rows()
    device_free: dict[tuple[str, int], int] = {}
    for event in events:
        if event.trace_name is None:
            continue
        name = str(event.trace_name)
        start = _ns(event.time_range.start)
        end = start + max(_ns(event.time_range.elapsed_us()), 0)
        on_cpu = event.device_type == DeviceType.CPU
        if not on_cpu:
            category = "gpu_user_annotation" if event.is_user_annotation else "kernel"
            kind, device = event.device_type.name, int(event.device_index)
            track = rows.device_track(kind, device, int(event.device_resource_id))
            site = rows.site(name, category, device=device)
        else:
            category = "user_annotation" if event.is_user_annotation else "cpu_op"
            track = rows.thread_track(int(event.node_id) if event.is_remote else None, event.thread)
            form = EventKind.ASYNC_RANGE if event.is_async else EventKind.RANGE
            site = rows.site(name, category, form)
        rows.add(site, track, start, end, _arguments(event), bool(event.finished))
        device_name = event.use_device or "cuda"
        for kernel in event.kernels:
            device = int(kernel.device)
            kernel_track = rows.device_track(device_name, device, 0)
            if kernel.start_us is None:
                begin = max(start, device_free.get((device_name, device), start))
                begin = min(begin, _MAX_NS)
            else:
                begin = _ns(kernel.start_us)
            kernel_end = begin + max(_ns(kernel.duration), 0)
            device_free[device_name, device] = kernel_end
            number = rows.arrow((name, f"cpu_to_{device_name}"), (track, start), (kernel_track, begin))  # fmt: skip
            arguments = {"id": number, "launched by": encodable_text(name)}
            site = rows.site(str(kernel.name), "kernel", device=device)
            rows.add(site, kernel_track, begin, kernel_end, arguments)
    return rows.table()


class _Rows:
    """Rows of the table, with their sites, tracks and processes."""

    def __init__(self) -> None:
        self.sites: dict[Site, int] = {}
        self.tracks: dict[tuple[int, int, str], int] = {}
        self.processes = {_CPU_PID: "CPU functions"}
        self.rows: list[tuple[int, ...]] = []
        self.arguments: list[str | None] = []
        self.arrows = 0

    def site(
        self, name: str, category: str, kind: EventKind = EventKind.RANGE, device: int | None = None
    ) -> int:
        site = Site(name, category, kind=int(kind))
        if device is not None:
            index = min(max(device, 0), _MAX_DEVICES - 1)
            site = site._replace(mask=Category.DEVICE.value, device_index=index)
        return self.sites.setdefault(site, len(self.sites))

    def thread_track(self, node: int | None, thread: Any) -> int:
        """Return the track of a thread, of this process or of a node of the run."""
        if node is None:
            return self._track(_CPU_PID, int(thread), "")
        self.processes[_NODE_PID + node] = f"node {node}"
        return self._track(_NODE_PID + node, int(thread), "")

    def device_track(self, kind: str, device: int, queue: int) -> int:
        self.processes.setdefault(_DEVICE_PID + device, f"{kind} {device}")
        return self._track(_DEVICE_PID + device, queue, kind)

    def _track(self, pid: int, number: int, device_kind: str) -> int:
        key = (_int64(pid), _int64(number), device_kind)
        return self.tracks.setdefault(key, len(self.tracks))

    def add(
        self,
        site: int,
        track: int,
        start: int,
        end: int,
        arguments: dict[str, Any] | None = None,
        finished: bool = True,
        payload: int = NO_PAYLOAD,
    ) -> None:
        flags = int(EventFlag.FINISHED) if finished else 0
        self.rows.append((start, end, site, track, flags, payload))
        self.arguments.append(json.dumps(arguments, allow_nan=False) if arguments else None)

    def arrow(self, label: tuple[str, str], start: tuple[int, int], end: tuple[int, int]) -> int:
        """Add an arrow between two (track, ns), named (name, category); return its number."""
        for kind, (track, at) in ((EventKind.FLOW_BEGIN, start), (EventKind.FLOW_END, end)):
            self.add(self.site(*label, kind), track, at, at, payload=self.arrows)
        self.arrows += 1
        return self.arrows - 1

    def table(self) -> EventTable:
        sites = list(self.sites)
        columns = list(zip(*self.rows, strict=True)) or [()] * 6
        start, end, site, track, flags, payload = (np.array(c, np.int64) for c in columns)
        kinds = np.array([s.kind for s in sites], np.uint8)
        return EventTable(
            {
                "start_ns": start,
                "end_ns": end,
                "site": site,
                "track": track,
                "flags": flags,
                "payload": payload,
                "kind": kinds[site],
            },
            sites=sites,
            tracks=[
                Track(i, pid, number, device_kind=kind)
                for i, (pid, number, kind) in enumerate(self.tracks)
            ],
            coded={"metadata_json": CodedColumn.encode(self.arguments)},
            payload_words=np.arange(self.arrows, dtype=np.uint64),
            pid=_CPU_PID,
            process_name=self.processes[_CPU_PID],
            metadata={
                "processes": [
                    {"pid": _int64(pid), "name": name} for pid, name in self.processes.items()
                ]
            },
        )


def _arguments(event: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if event.input_shapes:
        structured = event.structured_input_shapes
        arguments["Input Dims"] = _plain(structured or event.input_shapes)
    if event.input_dtypes:
        arguments["Input Strides"] = _plain(event.structured_input_strides)
        arguments["Input type"] = _plain(event.input_dtypes)
        arguments["Concrete Inputs"] = [
            "" if value is None else str(value) for value in event.concrete_inputs or ()
        ]
    if event.stack:
        arguments["Call stack"] = encodable_text(";\n".join(map(str, event.stack)))
    if event.sequence_nr is not None and event.sequence_nr >= 0:
        arguments["Sequence number"] = int(event.sequence_nr)
        arguments["Fwd thread id"] = int(event.fwd_thread or 0)
    return arguments


def _plain(value: Any) -> Any:
    """Convert to JSON values: NaN and infinities to text, unknown objects to their str()."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {encodable_text(str(key)): _plain(item) for key, item in value.items()}
    return encodable_text(str(value))


def _ns(us: float) -> int:
    return min(max(round(us * 1000), -_MAX_NS), _MAX_NS) if math.isfinite(us * 1000) else 0


def _int64(value: int) -> int:
    """Wrap a number to signed 64 bits; thread ids that are addresses may exceed them."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
