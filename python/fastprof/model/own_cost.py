# SPDX-License-Identifier: Apache-2.0
"""Take what recording cost out of the times of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.formatting import format_time
from fastprof.model.columns import EventKind

if TYPE_CHECKING:
    from fastprof.model.table import EventTable

__all__ = ["EVENT_COST", "own_use_text", "without_own_cost"]

Array: TypeAlias = NDArray[Any]

EVENT_COST = "event_cost"  # member of a table's metadata


def without_own_cost(table: EventTable, cost: Mapping[str, Any] | None) -> EventTable:
    """Return the table with the time of each thread compressed by what its events cost; see EventTable."""
    from fastprof.model.tree import EventTree

    cost = table.metadata.get(EVENT_COST) if cost is None else cost
    inside, outside = (_per_row(table, cost, part) for part in ("inside_ns", "outside_ns"))
    tree = EventTree.of(table)
    chosen = np.arange(len(table)) if tree.rows is None else np.asarray(tree.rows)
    nests = ~tree.is_async if tree.is_async is not None else np.ones(len(chosen), np.bool_)
    # From the first on, because Unix times in ns are no exact floats.
    origin_ns = int(table.start_ns.min()) if len(table) else 0
    start, end = ((each - origin_ns).astype(np.float64) for each in (table.start_ns, table.end_ns))
    new_start, new_end = start.copy(), end.copy()
    # A thread together with the tasks that it runs: they exclude each other, so their times must move alike.
    thread = np.asarray(table.recording_thread)
    for each in np.unique(thread).tolist():
        rows = np.flatnonzero((thread[chosen] == each) & nests)
        if not rows.size:
            continue
        rows = rows[np.argsort(start[chosen[rows]], kind="stable")]
        listed = chosen[rows]
        # The inside part of an event lies at its begin, the outside part after its end.
        by_end = listed[np.argsort(end[listed], kind="stable")]
        begun, ended = (
            np.concatenate(([0.0], np.cumsum(each))) for each in (inside[listed], outside[by_end])
        )
        before = np.searchsorted(end[by_end], start[listed], side="left")
        # Rounded here, and an end is moved as far as its begin, so that rounding makes no row longer than it was.
        shift = np.rint(begun[:-1] + ended[before])
        count = np.searchsorted(start[listed], end[listed], side="left")
        count = np.maximum(count, np.arange(1, len(rows) + 1))
        before = np.searchsorted(end[by_end], end[listed], side="left")
        until = np.maximum(np.rint(begun[count] + ended[before]), shift)
        # Time does not run backwards where events cost less than that: begins and ends stay in their order.
        points = np.concatenate((start[listed] - shift, end[listed] - until))
        order = np.argsort(np.concatenate((start[listed], end[listed])), kind="stable")
        points[order] = np.maximum.accumulate(points[order])
        shifted, stopped = points[: len(rows)], points[len(rows) :]
        others = np.flatnonzero(thread == each)
        others = np.setdiff1d(others, listed, assume_unique=True)
        before = np.searchsorted(start[listed], start[others], side="right") - 1
        moved = np.where(before >= 0, (start[listed] - shifted)[np.maximum(before, 0)], 0.0)
        new_start[others], new_end[others] = start[others] - moved, end[others] - moved
        new_start[listed], new_end[listed] = shifted, stopped
    columns = {"start_ns": new_start, "end_ns": new_end}
    return table.with_columns(
        {name: np.rint(each).astype(np.int64) + origin_ns for name, each in columns.items()}
    )


def _per_row(table: EventTable, cost: Any, part: str) -> Array:
    try:
        kinds = {str(kind): float(parts[part]) for kind, parts in cost.items()}
        if not all(0 <= value < 1e9 for value in kinds.values()):
            raise ValueError(kinds)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise errors.ValueError(
            "the recording does not say what an event costs. Call profile.calibrate() before it starts, or use"
            " `fastprof run --calibrate`."
        ) from error
    sites = table.sites
    calls = sites.column("is_python_function")
    of_site = [
        kinds.get("call" if call else "op" if category == "cpu_op" else "range", 0.0)
        for call, category in zip(calls, sites.field("category"), strict=True)
    ]
    values = np.array(of_site, np.float64)[table.column("site")]
    if table.has("kind"):
        # Marks and counters enclose nothing, and are as dear as the begin of a range.
        values = np.where(table.column("kind") > EventKind.ASYNC_RANGE, 0.0, values)
    return values


def own_use_text(metadata: Mapping[str, Any]) -> str:
    """Return what the member "own_use" of a table's metadata says; "" if there is none."""
    found = metadata.get("own_use")
    if not isinstance(found, dict):  # the metadata of a file may contain any value
        return ""
    threads = found.get("threads_cpu_ns")
    parts = [("start", found.get("start_cpu_ns")), ("stop", found.get("stop_cpu_ns"))]
    parts += sorted(threads.items()) if isinstance(threads, dict) else []
    texts = [f"{name} {format_time(ns / 1000)}" for name, ns in parts if type(ns) is int and ns > 0]
    return ", ".join(texts)
