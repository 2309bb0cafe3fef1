# SPDX-License-Identifier: Apache-2.0
"""Memory over time per device, from the memory records of a table: JSON, CSV or an HTML page."""

from __future__ import annotations

import csv
import html
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.memory_summary import in_use_at_begin
from fastprof.base import errors
from fastprof.base.atomic_file import atomic_text
from fastprof.base.device_type import is_device
from fastprof.exporters.plotted_points import highest_points
from fastprof.model.memory_rows import FailedRequest, failed_requests, memory_rows, missing_text
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = [
    "DeviceMemory",
    "export_memory_timeline",
    "failures_table",
    "memory_in_use",
    "memory_timeline",
    "missing_paragraph",
]

Array: TypeAlias = NDArray[Any]
_WIDTH, _HEIGHT, _POINTS = 900, 240, 1800


@dataclass(frozen=True)
class DeviceMemory:
    """The memory records of one device in time order; int64 arrays of equal length."""

    device: str  # "cpu:0", "cuda:1"
    time_ns: Array  # Unix time
    bytes: Array  # change by each record, negative for frees
    allocated: Array  # the allocator's own total after the record; 0 if not reported
    reserved: Array

    @property
    def recorded(self) -> Array:
        """Running sum of `bytes`: allocated since the session began, minus freed."""
        return np.cumsum(self.bytes)


def memory_timeline(table: EventTable | EventTree) -> list[DeviceMemory]:
    """Return one timeline per device, by device type and index; [] without memory records.

    Reads rows of kind MEMORY and those that attribute_memory converted to ranges "[memory]".
    """
    if isinstance(table, EventTree):
        table = table.table
    return [
        DeviceMemory(device, table.start_ns[rows], words[:, 1], words[:, 2], words[:, 3])
        for device, rows, words in memory_rows(table)
    ]


def memory_in_use(table: EventTable) -> list[tuple[DeviceMemory, Array]]:
    """Return each device's timeline with the bytes in use after each record, whose maximum is the report's peak."""
    before = in_use_at_begin(table)
    return [(one, before[one.device] + one.recorded) for one in memory_timeline(table)]


def export_memory_timeline(
    table: EventTable | EventTree, path: str | os.PathLike[str], device: str | None = None
) -> None:
    """Write memory_timeline as JSON, CSV or HTML, by the suffix of `path` (.gz may follow).

    device: only this one ("cpu:0", or "cpu" for all of a type). Times are in us from the begin of
    the session.

    JSON: {"unit": "bytes", "t0_ns": ..., "devices": [{"device", "times_us", "bytes", "recorded",
    "allocated", "reserved"}], "missing": what was dropped, as text, "failures": [{"device", "time_us",
    "bytes"}]}. CSV: the same values, one row per record; failed requests come last, with
    their size as "bytes" and "out of memory" as "recorded".
    HTML: a page without scripts or links; it draws the highest of the records in half a pixel, and lists failed
    requests.

    Raises errors.ValueError for another suffix or without memory records (they are recorded with
    profile_memory=True), errors.IoError if the file cannot be written.
    """
    source = table.table if isinstance(table, EventTree) else table
    name = os.fsdecode(path).removesuffix(".gz")
    writers = {".json": _json_text, ".csv": _csv_rows, ".html": _page}
    suffix = os.path.splitext(name)[1]
    if suffix not in writers:
        raise errors.ValueError(
            f"cannot write {path}: unknown suffix. Use {', '.join(writers)}, optionally with .gz."
        )
    devices = [d for d in memory_timeline(source) if is_device(d.device, device)]
    failures = [f for f in failed_requests(source) if is_device(f.device, device)]
    if not devices and not failures:
        what = "memory records" if device is None else f"memory records of {device}"
        raise errors.ValueError(
            f"the table contains no {what}. Profile with profile_memory=True, and report allocations with "
            "fastprof.report_memory_usage or the C++ API."
        )
    with atomic_text(path) as file:
        writers[suffix](file, source, devices, failures)


def _times_us(device: DeviceMemory, table: EventTable) -> list[float]:
    times: list[float] = ((device.time_ns - table.t0_ns) / 1000).tolist()
    return times


def _json_text(
    file: Any, table: EventTable, devices: Sequence[DeviceMemory], failures: Sequence[FailedRequest]
) -> None:
    document = {
        "unit": "bytes",
        "t0_ns": table.t0_ns,
        "missing": missing_text(table),
        "devices": [
            {
                "device": device.device,
                "times_us": _times_us(device, table),
                "bytes": device.bytes.tolist(),
                "recorded": device.recorded.tolist(),
                "allocated": device.allocated.tolist(),
                "reserved": device.reserved.tolist(),
            }
            for device in devices
        ],
        "failures": [
            {"device": f.device, "time_us": (f.time_ns - table.t0_ns) / 1000, "bytes": f.size_bytes}
            for f in failures
        ],
    }
    json.dump(document, file, allow_nan=False)
    file.write("\n")


def _csv_rows(
    file: Any, table: EventTable, devices: Sequence[DeviceMemory], failures: Sequence[FailedRequest]
) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("device", "time_us", "bytes", "recorded", "allocated", "reserved"))
    for device in devices:
        columns = (device.bytes, device.recorded, device.allocated, device.reserved)
        rows = zip(_times_us(device, table), *(c.tolist() for c in columns), strict=True)
        writer.writerows((device.device, *row) for row in rows)
    writer.writerows(
        (f.device, (f.time_ns - table.t0_ns) / 1000, f.size_bytes, "out of memory", "", "")
        for f in failures
    )


def _page(
    file: Any, table: EventTable, devices: Sequence[DeviceMemory], failures: Sequence[FailedRequest]
) -> None:
    title = html.escape(table.process_name or "memory")
    file.write(
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
        "<style>body{font:14px sans-serif;margin:2em;max-width:960px}svg{background:#f6f6f6}"
        "table{border-collapse:collapse}td,th{padding:2px 10px;text-align:right}</style>\n"
        f"<h1>{title}: memory over time</h1>\n"
    )
    file.write(missing_paragraph(table))
    chosen = {device.device for device in devices}
    for device, in_use in memory_in_use(table):
        if device.device not in chosen:
            continue
        chart = _chart(device, table, in_use)
        file.write(f"<h2>{html.escape(device.device)}</h2>\n{chart}\n")
    file.write(failures_table(failures, table.t0_ns))
    file.write("</html>\n")


def missing_paragraph(table: EventTable) -> str:
    """Return what the sums of a page do not contain as HTML; "" for nothing."""
    missing = missing_text(table)
    return f"<p><b>{html.escape(missing)}.</b></p>\n" if missing else ""


def failures_table(failures: Sequence[FailedRequest], t0_ns: int) -> str:
    """Return a table of the failed requests as HTML; "" without any. t0_ns: begin of the session, Unix ns."""
    if not failures:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(f.device)}</td><td>{f.size_bytes:,}</td>"
        f"<td>{(f.time_ns - t0_ns) / 1e6:,.3f}</td></tr>"
        for f in failures
    )
    return (
        "<h2>Out of memory</h2><table><tr><th>Device</th><th>Requested bytes</th><th>Time in ms</th></tr>"
        f"{rows}</table>\n"
    )


def _chart(device: DeviceMemory, table: EventTable, in_use: Array) -> str:
    series = [("in use", "#1f77b4", in_use)]
    for name, color, values in (
        ("allocated", "#2ca02c", device.allocated),
        ("reserved", "#d62728", device.reserved),
    ):
        if bool(values.any()):
            series.append((name, color, values))
    low = min(0, *(int(values.min()) for _, _, values in series))
    high = max(1, *(int(values.max()) for _, _, values in series))
    begin = min(table.t0_ns, int(device.time_ns[0]))
    span = max(table.t1_ns - begin, int(device.time_ns[-1]) - begin, 1)
    x = (device.time_ns - begin) * (_WIDTH / span)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img">']
    rows = []
    for name, color, values in series:
        kept = highest_points((device.time_ns - begin) / span, values, _POINTS)
        y = _HEIGHT - (values[kept] - low) * (_HEIGHT / (high - low))
        points = _steps(x[kept].tolist(), y.tolist())
        parts.append(f'<polyline fill="none" stroke="{color}" points="{points}"/>')
        rows.append(
            f'<tr><td style="color:{color}">{name}</td><td>{int(values.max()):,}</td>'
            f"<td>{int(values[-1]):,}</td></tr>"
        )
    parts.append("</svg>")
    head = f"<p>{len(x):,} records in {span / 1e6:,.3f} ms; bytes from {low:,} to {high:,}</p>"
    table_ = "<table><tr><th></th><th>peak bytes</th><th>at the end</th></tr>" + "".join(rows)
    return "".join(parts) + head + table_ + "</table>"


def _steps(x: list[float], y: list[float]) -> str:
    """Return the SVG points of a step line: the height is constant until the next record."""
    points = [f"{x[0]:.1f},{_HEIGHT}"]
    for i, (at, height) in enumerate(zip(x, y, strict=True)):
        if i > 0:
            points.append(f"{at:.1f},{y[i - 1]:.1f}")
        points.append(f"{at:.1f},{height:.1f}")
    points.append(f"{_WIDTH},{y[-1]:.1f}")
    return " ".join(points)
