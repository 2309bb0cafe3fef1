# SPDX-License-Identifier: Apache-2.0
"""table_of_events: make an EventTable of hand-made events; us are rounded to ns, each name is a site."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fastprof.base.device_type import as_device_type
from fastprof.model.sites import Site, Track
from fastprof.model.table import CODED_COLUMNS, CodedColumn, EventFlag, EventTable, KernelTable

__all__ = ["PLAIN_FIELDS", "table_of_events"]

# Event fields that are columns of the same name.
PLAIN_FIELDS = (
    "id",
    "node_id",
    "scope",
    "cpu_memory_usage",
    "device_memory_usage",
    "is_async",
    "is_remote",
    "sequence_nr",
    "device_index",
    "device_resource_id",
    "is_legacy",
    "is_user_annotation",
    "is_python_function",
    "external_id",
    "linked_correlation_id",
    "python_id",
    "python_parent_id",
    "python_module_id",
)


def table_of_events(events: Iterable[Any]) -> EventTable:
    """Return a table of FunctionEvents, in their order. The events are not modified.

    Times are rounded to whole ns, counted from 0. Columns that contain only defaults are left out.
    The parents of linked events are kept if there are any; otherwise EventTree.of computes them.
    """
    listed = list(events)
    if not listed:
        empty: list[int] = []
        return EventTable({"start_ns": empty, "end_ns": empty, "site": empty}, sites=[])
    names: dict[tuple[str, str], int] = {}
    sites = [
        names.setdefault((str(e.trace_name or e.name), str(e.name)), len(names)) for e in listed
    ]
    threads: dict[int, int] = {}
    columns: dict[str, Any] = {
        "start_ns": _to_ns(e.time_range.start for e in listed),
        "end_ns": _to_ns(e.time_range.end for e in listed),
        "site": np.array(sites, np.uint32),
        "track": np.array([threads.setdefault(e.thread, len(threads)) for e in listed], np.uint32),
    }
    for name in PLAIN_FIELDS:
        values = [getattr(e, name) for e in listed]
        columns[name] = np.array([0 if v is None else v for v in values])
    columns["fwd_thread"] = np.array([-1 if e.fwd_thread is None else e.fwd_thread for e in listed])
    columns["device_type"] = np.array([int(as_device_type(e.device_type)) for e in listed])
    columns["flops"] = np.array([np.nan if e.flops is None else e.flops for e in listed])
    columns["flags"] = np.array([EventFlag.FINISHED if e.finished else 0 for e in listed], np.uint8)
    position = {id(event): i for i, event in enumerate(listed)}
    parent = [position.get(id(e.cpu_parent), -1) for e in listed]
    if max(parent) >= 0:
        columns["parent"] = np.array(parent, np.int32)
    coded = {}
    for name in CODED_COLUMNS:
        column = CodedColumn.encode([getattr(e, name, None) for e in listed])
        if len(column.values):
            coded[name] = column
    return EventTable(
        columns,
        sites=[Site(trace_name, category="cpu_op") for trace_name, _ in names],
        tracks=[Track(int(thread)) for thread in threads],
        coded=coded,
        kernels=_kernels(listed),
    )


def _to_ns(times_us: Iterable[float]) -> np.ndarray[Any, Any]:
    return np.array([round(t * 1000) for t in times_us], np.int64)


def _kernels(events: list[Any]) -> KernelTable | None:
    rows = [(i, kernel) for i, event in enumerate(events) for kernel in event.kernels]
    if not rows:
        return None
    names: dict[str, int] = {}
    return KernelTable(
        np.array([i for i, _ in rows], np.int64),
        np.array([names.setdefault(k.name, len(names)) for _, k in rows], np.int32),
        np.array([int(k.device) for _, k in rows], np.int32),
        _to_ns(k.duration for _, k in rows),
        tuple(names),
    )
