# SPDX-License-Identifier: Apache-2.0
"""Attribute allocations and frees to ranges: the memory columns of a captured table."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.base import errors
from fastprof.base.device_type import DeviceType
from fastprof.base.distinct import distinct
from fastprof.base.record_scope import RecordScope
from fastprof.model.sites import MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME, Site, SiteTable
from fastprof.model.table import NO_PAYLOAD, EventKind, EventTable
from fastprof.model.tree import EventTree, nest_intervals, nesting_rows

__all__ = ["RULES", "attribute_memory"]

Array: TypeAlias = NDArray[Any]
RULES = ("innermost", "interval")
_CPU_TYPES = (-1, DeviceType.CPU, DeviceType.MKLDNN, DeviceType.IDEEP)
_UNATTRIBUTED = Site(
    MEMORY_EVENT_NAME, category="cpu_instant_event", scope=RecordScope.FUNCTION.value
)
_OUT_OF_MEMORY = Site(
    OUT_OF_MEMORY_EVENT_NAME, category="cpu_instant_event", scope=RecordScope.FUNCTION.value
)


def attribute_memory(table: EventTable, rule: str = "innermost") -> EventTable:
    """Return a table with cpu_memory_usage and device_memory_usage of its ranges, children included.

    Values are in bytes, negative for frees. Memory of CPU, MKLDNN and IDEEP devices is CPU memory, of
    any other device memory.
    rule:

    - "innermost": a record counts for the innermost range open on its thread, thus for all ranges
      around that one. Over a table, self values plus unattributed rows sum to what was recorded.
    - "interval", PyTorch's rule: a record of *any* thread counts for every CPU row with
      start <= time <= end, including ranges of other threads that merely ran at the time (but not
      of other processes).

    A record outside every range becomes a row "[memory]" without a parent; every out-of-memory record
    becomes a row "[OutOfMemory]". The given table is not modified; without memory records it is
    returned itself. Raises errors.ValueError for an unknown rule and for memory rows without payload.
    """
    if rule not in RULES:
        raise errors.ValueError(f"unknown memory rule {rule!r}. Use one of {', '.join(RULES)}.")
    kind = table.column("kind")
    recorded = (kind == EventKind.MEMORY, kind == EventKind.OUT_OF_MEMORY)
    if not any(mask.any() for mask in recorded):
        return table
    if rule == "innermost" and _is_captured(table):
        return _of_capture(table)
    memory, failed = (np.flatnonzero(mask) for mask in recorded)
    size_bytes = _sizes(table, memory)
    site_type = np.array(table.sites.field("device_type"), np.int64)
    on_cpu = np.isin(site_type, _CPU_TYPES)[table.column("site")[memory]]
    parts = [np.where(on_cpu, size_bytes, 0), np.where(on_cpu, 0, size_bytes)]
    usage, used = (_by_innermost if rule == "innermost" else _by_interval)(table, memory, parts)
    left_over = memory[~used]
    for i, part in enumerate(parts):
        if not part[~used].any():
            continue
        if not usage[i].flags.writeable:
            usage[i] = usage[i].copy()
        usage[i][left_over] = part[~used]
    return _with_own_rows(table, usage, left_over, failed)


def with_parents(table: EventTable) -> EventTable:
    """Return the table with the column "parent", of memory records, too: the innermost range open on their thread.

    Tables from most files have no such column; a table that has one is returned itself.
    """
    if table.has("parent") or not table.has("kind"):
        return table
    kind = table.column("kind")
    records = np.flatnonzero((kind == EventKind.MEMORY) | (kind == EventKind.OUT_OF_MEMORY))
    if not len(records):
        return table
    parent = EventTree.of(table).parent_rows().astype(np.int64)  # a copy
    parent[records] = _enclosing(table, records)
    return table.with_columns({"parent": parent})


def _is_captured(table: EventTable) -> bool:
    """Return whether the native function accepts the table: parents before children, all columns present."""
    given = all(table.has(name) for name in ("kind", "parent", "payload"))
    return given and table.begin_ordered and table.payload_words is not None


def _of_capture(table: EventTable) -> EventTable:
    on_cpu = np.isin(np.array(table.sites.field("device_type"), np.int64), _CPU_TYPES)
    cpu, device, left_over, failed = _core.memory_usage(
        kind=table.column("kind"),
        parent=table.column("parent"),
        nests=nesting_rows(table),
        payload=table.column("payload"),
        site=table.column("site"),
        words=np.asarray(table.payload_words),
        cpu_sites=on_cpu.tolist(),
    )
    none = np.broadcast_to(np.int64(0), (len(table),))
    usage = [none if column is None else column for column in (cpu, device)]
    return _with_own_rows(table, usage, left_over, failed)


def _sizes(table: EventTable, memory: Array) -> Array:
    """Return the signed bytes of memory rows: their second payload word (ptr, bytes, totals)."""
    if not len(memory):
        return np.zeros(0, np.int64)
    payload = table.column("payload")[memory]
    if table.payload_words is None or bool((payload == NO_PAYLOAD).any()):
        raise errors.ValueError(
            "the table has memory rows without payload words. Add payload_words and the column payload, "
            "with four words per memory row: ptr, bytes, total allocated, total reserved."
        )
    words: Array = table.payload_words[payload.astype(np.int64) + 1]
    return words.view(np.int64)


def _by_innermost(
    table: EventTable, memory: Array, parts: list[Array]
) -> tuple[list[Array], Array]:
    parent, nests = _parents(table), nesting_rows(table)
    kind = table.column("kind")
    range_ = _enclosing(table, memory)
    used = (range_ >= 0) & (kind[range_] <= EventKind.ASYNC_RANGE)

    def above(rows: Array) -> Array:
        """Return the row of each row's parent in the tree: the nearest ancestor range that nests."""
        up = parent[rows].astype(np.int64)
        if nests is not None:
            up[~nests[rows]] = -1
        while True:
            skipped = (up >= 0) & (kind[up] > EventKind.ASYNC_RANGE)
            if nests is not None:
                skipped |= (up >= 0) & ~nests[up]
            if not skipped.any():
                return up
            up[skipped] = parent[up[skipped]]

    usage = []
    for part in parts:
        chosen = used & (part != 0)
        if not chosen.any():
            usage.append(np.broadcast_to(np.int64(0), (len(table),)))
            continue
        column = np.zeros(len(table), np.int64)
        rows, sizes = range_[chosen], part[chosen]
        while len(rows):
            # Consecutive records mostly have one range: merge them before the step to the parents.
            first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
            rows, sizes = rows[first], np.add.reduceat(sizes, first)
            np.add.at(column, rows, sizes)
            up = above(rows)
            rows, sizes = up[up >= 0], sizes[up >= 0]
        usage.append(column)
    return usage, used


def _parents(table: EventTable) -> Array:
    """Return the table row of each range's parent, from the tree if the table has none."""
    if table.has("parent"):
        return table.column("parent")
    return EventTree.of(table).parent_rows()


def _enclosing(table: EventTable, memory: Array) -> Array:
    """Return the table row of the innermost range around each memory row; -1 for none."""
    if table.has("parent"):
        return table.column("parent")[memory].astype(np.int64)
    ranges = table.column("kind") <= EventKind.ASYNC_RANGE
    nests = nesting_rows(table)
    rows = np.flatnonzero(ranges if nests is None else ranges & nests)
    both = np.concatenate([rows, memory])
    parent = nest_intervals(table.start_ns[both], table.end_ns[both], table.thread[both])
    found = parent[len(rows) :].astype(np.int64)
    # Two records at the same time nest, but a record cannot be a parent.
    found[found >= len(rows)] = -1
    return np.where(found >= 0, both[found], -1)


def _by_interval(table: EventTable, memory: Array, parts: list[Array]) -> tuple[list[Array], Array]:
    ranges = np.flatnonzero(
        (table.column("kind") <= EventKind.ASYNC_RANGE)
        & (table.column("device_type") == DeviceType.CPU)
    )
    pids = np.array([track.pid for track in table.tracks], np.int64)
    if len(set(pids.tolist())) <= 1:
        return _by_interval_in_process(table, ranges, memory, parts)
    pid = pids[table.column("track")]
    usage: list[Array] = [np.zeros(len(table), np.int64) for _ in parts]
    used: Array = np.zeros(len(memory), np.bool_)
    for process in distinct(pid[memory]):
        own = pid[memory] == process
        found, own_used = _by_interval_in_process(
            table, ranges[pid[ranges] == process], memory[own], [part[own] for part in parts]
        )
        for column, more in zip(usage, found, strict=True):
            column += more
        used[own] = own_used
    return usage, used


def _by_interval_in_process(
    table: EventTable, ranges: Array, memory: Array, parts: list[Array]
) -> tuple[list[Array], Array]:
    order = np.argsort(table.start_ns[memory], kind="stable")
    times = table.start_ns[memory][order]
    first = np.searchsorted(times, table.start_ns[ranges], "left")
    last = np.searchsorted(times, table.end_ns[ranges], "right")
    usage: list[Array] = []
    for part in parts:
        sums = np.concatenate([[0], np.cumsum(part[order])])
        column = np.zeros(len(table), np.int64)
        column[ranges] = sums[last] - sums[first]
        usage.append(column)
    cover = np.zeros(len(memory) + 1, np.int64)
    np.add.at(cover, first, 1)
    np.add.at(cover, last, -1)
    used = np.empty(len(memory), np.bool_)
    used[order] = np.cumsum(cover)[:-1] > 0
    return usage, used


def _with_own_rows(
    table: EventTable, usage: list[Array], left_over: Array, failed: Array
) -> EventTable:
    """Return the table with its memory columns and with unattributed records as rows of their own."""
    columns: dict[str, Any] = {"cpu_memory_usage": usage[0], "device_memory_usage": usage[1]}
    sites = table.sites
    if len(left_over) or len(failed):
        listed = np.concatenate([left_over, failed])
        site, kind = table.column("site").copy(), table.column("kind").copy()
        # One new site per original site, because sites hold the device and the allocator.
        origins, code = np.unique(site[listed], return_inverse=True)
        site[listed] = len(sites) + code.reshape(-1)
        kind[listed] = EventKind.RANGE
        failing = {sites[int(i)] for i in distinct(table.column("site")[failed])}
        own = []
        for origin in (sites[i] for i in origins.tolist()):
            made = _OUT_OF_MEMORY if origin in failing else _UNATTRIBUTED
            own.append(
                made._replace(
                    device_type=origin.device_type,
                    device_index=origin.device_index,
                    function=origin.function,
                )
            )
        sites = SiteTable.from_sites([*sites, *own])
        columns.update(site=site, kind=kind)
        if table.has("parent"):
            parent = table.column("parent").copy()
            parent[listed] = -1
            columns["parent"] = parent
    return table.with_columns(columns, sites=sites)
