# SPDX-License-Identifier: Apache-2.0
"""join_tables: concatenate the tables of several recordings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.model.table import CodedColumn, EventTable
from fastprof.model.tree import EventTree

__all__ = ["join_tables"]

Array: TypeAlias = NDArray[Any]


def join_tables(tables: Sequence[EventTable]) -> EventTable:
    """Return the rows of all tables, in the given order, each with its parents, sites and threads.

    Tables without rows are left out. Payload words and device activities are not carried over; views
    read their content from other columns. Rows are copied. Raises errors.ValueError for no tables.
    """
    if not tables:
        raise errors.ValueError("no tables to join. Pass at least one table.")
    kept = [table for table in tables if len(table)] or [tables[0]]
    if len(kept) == 1:
        return kept[0]
    names = {n for t in kept for n in t.column_names} - {"payload", "id"}
    names -= {n for t in kept for n in t.coded}
    sites = [site for table in kept for site in table.sites]
    tracks = [track for table in kept for track in table.tracks]
    site_offsets = _offsets(len(t.sites) for t in kept)
    track_offsets = _offsets(len(t.tracks) for t in kept)
    row_offsets = _offsets(len(t) for t in kept)
    columns: dict[str, Array] = {}
    for name in names | {"parent"}:
        parts = [_parents(t) if name == "parent" else t.column(name) for t in kept]
        if name == "site":
            parts = [p + np.uint32(o) for p, o in zip(parts, site_offsets, strict=True)]
        elif name == "track":
            parts = [p + np.uint32(o) for p, o in zip(parts, track_offsets, strict=True)]
        elif name in ("parent", "end_track"):
            offsets = row_offsets if name == "parent" else track_offsets
            parts = [np.where(p < 0, -1, p + o) for p, o in zip(parts, offsets, strict=True)]
        columns[name] = np.concatenate(parts)
    coded = {n: _coded(kept, n) for n in sorted({n for t in kept for n in t.coded})}
    dropped: dict[str, int] = {}
    for table in kept:
        for cause, count in table.dropped.items():
            dropped[cause] = dropped.get(cause, 0) + count
    last = kept[-1]
    return EventTable(
        columns,
        sites=sites,
        tracks=tracks,
        coded=coded,
        t0_ns=kept[0].t0_ns,
        t1_ns=last.t1_ns,
        clock_error_ns=max(t.clock_error_ns for t in kept),
        pid=last.pid,
        process_name=last.process_name,
        dropped=dropped,
        metadata=last.metadata,
    )


def _offsets(sizes: Any) -> list[int]:
    total, offsets = 0, []
    for size in sizes:
        offsets.append(total)
        total += size
    return offsets


def _parents(table: EventTable) -> Array:
    if table.has("parent"):
        return table.column("parent").astype(np.int64)
    return EventTree.of(table).parent_rows().astype(np.int64)


def _coded(tables: Sequence[EventTable], name: str) -> CodedColumn:
    codes: list[Array] = []
    values: list[Any] = []
    for table in tables:
        column = table.coded.get(name)
        if column is None:
            codes.append(np.full(len(table), -1, np.int32))
            continue
        codes.append(np.where(column.codes < 0, -1, column.codes + len(values)).astype(np.int32))
        values += column.values
    return CodedColumn(np.concatenate(codes), tuple(values))
