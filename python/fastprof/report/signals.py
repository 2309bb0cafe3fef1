# SPDX-License-Identifier: Apache-2.0
"""Blocks of the data that a report shows beside ranges: marks, counters, flows and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.memory_attribution import with_parents
from fastprof.base.distinct import distinct
from fastprof.base.native_numbers import ArgType
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.memory_rows import memory_rows
from fastprof.model.parents import skip_rows
from fastprof.model.table import EventKind, EventTable
from fastprof.report.packing import Packer
from fastprof.report.rows import ReportRows
from fastprof.report.texts import Strings
from fastprof.views.forward_backward import forward_backward_flows

__all__ = ["add_counters", "add_flows", "add_marks", "add_memory"]

Array: TypeAlias = NDArray[Any]


def add_marks(pack: Packer, rows: ReportRows, lane_of_track: Array, site_numbers: Array) -> int:
    """Add the block "marks" (lane, time, site, enclosing row + 1); return the number of marks."""
    table = rows.table
    if not table.has("kind"):
        return 0
    kind = table.column("kind")
    at = np.flatnonzero((kind == EventKind.MARK) | (kind == EventKind.OUT_OF_MEMORY))
    if not len(at):
        return 0
    lane = lane_of_track[table.column("track")[at]]
    order = np.lexsort((table.start_ns[at], lane))
    at, lane = at[order], lane[order]
    block = pack.block("marks")
    block.integers("lane", lane)
    block.integers("time", table.start_ns[at] - table.t0_ns, delta=True, signed=True)
    block.integers("site", site_numbers[table.column("site")[at]])
    block.integers("row", _around(rows, at) + 1)
    return len(at)


def _around(rows: ReportRows, at: Array, table: EventTable | None = None) -> Array:
    """Return the report's row that encloses each table row; -1 for none. table: the same rows, with parents."""
    table = rows.table if table is None else table
    if not table.has("parent"):
        return np.full(len(at), -1, np.int64)
    numbers = rows.of_table_rows()
    result: Array = numbers[skip_rows(table.column("parent"), numbers[:-1] >= 0)[at]]
    return result


def add_counters(pack: Packer, table: EventTable, strings: Strings) -> list[dict[str, Any]]:
    """Add a block "counter N" (time, value) for each counter of each process; return their names and pids."""
    if not table.has("kind") or table.payload_words is None or not table.has("payload"):
        return []
    kind, payload = table.column("kind"), table.column("payload")
    at = np.flatnonzero((kind == EventKind.COUNTER) & (payload != NO_PAYLOAD))
    if not len(at):
        return []
    site, pid = table.column("site")[at], _pids(table)[table.column("track")[at]]
    words = table.payload_words[payload[at].astype(np.int64)]
    found: list[dict[str, Any]] = []
    series = np.unique(np.stack([table.name_id[at].astype(np.int64), pid], axis=1), axis=0)
    for name, process in series.tolist():
        chosen = np.flatnonzero((table.name_id[at] == name) & (pid == process))
        chosen = chosen[np.argsort(table.start_ns[at[chosen]], kind="stable")]
        values = np.zeros(len(chosen))
        for number in distinct(site[chosen]).tolist():
            own = site[chosen] == number
            values[own] = _numbers(table.sites[number].arg_types, words[chosen[own]])
        block = pack.block(f"counter {len(found)}")
        times = table.start_ns[at[chosen]] - table.t0_ns
        block.integers("time", times, delta=True, signed=True)
        block.floats("value", values)
        found.append({"name": strings.number(table.names[name]), "pid": process})
    return found


def _numbers(types: Sequence[int], words: Array) -> Array:
    """Return counter values as doubles."""
    type_ = types[0] if types else ArgType.INT64
    if type_ == ArgType.FLOAT64:
        return words.view(np.float64)
    if type_ in (ArgType.UINT64, ArgType.POINTER, ArgType.BOOLEAN):
        return words.astype(np.float64)
    return words.view(np.int64).astype(np.float64)


def _pids(table: EventTable) -> Array:
    """Return the process of each track; one entry more, for a table without tracks."""
    pids = [track.pid for track in table.tracks]
    top = int(table.column("track").max()) + 1 if len(table) else 0
    return np.array(pids + [table.pid] * (max(top, 1) - len(pids)), np.int64)


def add_memory(pack: Packer, rows: ReportRows) -> list[dict[str, Any]]:
    """Add a block "memory N" for each device; return the devices.

    Columns: time, bytes (negative for frees), allocated and reserved (the allocator's totals, 0 if not
    reported), pointer (a number for each address, 0 for unknown), row (that allocates or frees, + 1).
    """
    table = with_parents(rows.table)
    found: list[dict[str, Any]] = []
    for device, at, words in memory_rows(table):
        block = pack.block(f"memory {len(found)}")
        block.integers("time", table.start_ns[at] - table.t0_ns, delta=True, signed=True)
        block.integers("bytes", words[:, 1], signed=True)
        block.integers("allocated", words[:, 2], delta=True, signed=True)
        block.integers("reserved", words[:, 3], delta=True, signed=True)
        pointers, code = np.unique(words[:, 0], return_inverse=True)
        known = int(len(pointers) > 0 and pointers[0] == 0)
        block.integers("pointer", code.reshape(-1) + 1 - known)
        block.integers("row", _memory_owner(rows, table, at) + 1)
        found.append({"device": device})
    return found


def _memory_owner(rows: ReportRows, table: EventTable, at: Array) -> Array:
    """Return the row to which each memory record belongs: its own if it is listed, else the enclosing row."""
    own = rows.of_table_rows()[at]
    return np.where(own >= 0, own, _around(rows, at, table))


def add_flows(pack: Packer, rows: ReportRows, lane_of_track: Array) -> int:
    """Add the block "flows": arrows from (row, lane, time) to (row, lane, time); return their number."""
    table = rows.table
    parts = [pairs for pairs in (_instant_pairs(table), *_row_pairs(table)) if len(pairs)]
    if not parts:
        return 0
    pairs = np.concatenate(parts)
    numbers = rows.of_table_rows()
    block = pack.block("flows")
    for name, at in (("from", pairs[:, 0]), ("to", pairs[:, 1])):
        row = numbers[at]
        row = np.where(row >= 0, row, _around(rows, at))
        block.integers(f"{name}_row", row + 1)
        block.integers(f"{name}_lane", lane_of_track[table.column("track")[at]])
        block.integers(f"{name}_time", table.start_ns[at] - table.t0_ns, delta=True, signed=True)
    return len(pairs)


def _instant_pairs(table: EventTable) -> Array:
    """Return pairs of table rows (FLOW_BEGIN, FLOW_END) of one id; an id with several ends has several pairs."""
    none = np.zeros((0, 2), np.int64)
    if not table.has("kind") or table.payload_words is None or not table.has("payload"):
        return none
    kind, payload = table.column("kind"), table.column("payload")
    known = payload != NO_PAYLOAD
    begins = np.flatnonzero((kind == EventKind.FLOW_BEGIN) & known)
    ends = np.flatnonzero((kind == EventKind.FLOW_END) & known)
    if not len(begins) or not len(ends):
        return none
    words = table.payload_words
    return _joined(
        begins,
        words[payload[begins].astype(np.int64)].view(np.int64),
        ends,
        words[payload[ends].astype(np.int64)].view(np.int64),
    )


def _row_pairs(table: EventTable) -> list[Array]:
    """Return pairs of rows: arrows of the columns flow_id, forward to backward, launches to device activities."""
    found = []
    if table.has("flow_id"):
        ids, begins = table.column("flow_id"), table.column("flow_start")
        outgoing = np.flatnonzero((ids != 0) & begins)
        incoming = np.flatnonzero((ids != 0) & ~begins)
        found.append(_joined(outgoing, ids[outgoing], incoming, ids[incoming]))
    else:
        flows = forward_backward_flows(table)
        if flows is not None:
            outgoing = np.flatnonzero(flows.start & (flows.id != 0))
            incoming = np.flatnonzero(~flows.start & (flows.id != 0))
            found.append(_joined(outgoing, flows.id[outgoing], incoming, flows.id[incoming]))
    if table.has("linked_correlation_id") and table.has("external_id"):
        linked = table.column("linked_correlation_id")
        launched = np.flatnonzero(linked != 0)
        external = table.column("external_id")
        launching = np.flatnonzero(np.isin(external, linked[launched]) & (linked == 0))
        found.append(_joined(launching, external[launching], launched, linked[launched]))
    return found


def _joined(begins: Array, begin_ids: Array, ends: Array, end_ids: Array) -> Array:
    """Return (begin, end) for each end whose id has a begin; of several begins, the last row."""
    order = np.argsort(begin_ids, kind="stable")
    ids = begin_ids[order]
    at = np.searchsorted(ids, end_ids, "right") - 1
    found = (at >= 0) & (ids[np.maximum(at, 0)] == end_ids) if len(ids) else at < -1
    return np.stack([begins[order[at[found]]], ends[found]], axis=1).astype(np.int64)
