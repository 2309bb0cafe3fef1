# SPDX-License-Identifier: Apache-2.0
"""Instants of a table as objects: marks, counters, begins and ends of flows, memory reports."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from fastprof.base.native_numbers import ArgType
from fastprof.model.table import NO_PAYLOAD, EventKind, EventTable

__all__ = ["InstantEvent", "instants"]


class InstantEvent(NamedTuple):
    """An event without duration.

    kind: EventKind.MARK, COUNTER, FLOW_BEGIN, FLOW_END, MEMORY or OUT_OF_MEMORY.
    time_us: from the session's start, like FunctionEvent's times. time_ns: Unix time.
    thread: id of the thread's track, like FunctionEvent.thread.
    row: in the EventTable. parent: row of the enclosing range, -1 for none.
    value: a counter's number (ints exactly); a flow's id; for memory the bytes, negative for a free;
    for a failed allocation the requested bytes; None for a mark.
    args: a mark's arguments by name.
    """

    kind: EventKind
    name: str
    time_us: float
    time_ns: int
    thread: int
    row: int
    parent: int
    value: int | float | bool | str | None
    args: dict[str, Any]


def instants(table: EventTable, kinds: Collection[EventKind] | None = None) -> list[InstantEvent]:
    """Return the instants of a table by time. kinds: the EventKinds to return; default: all. Any thread.

    In a table read from a trace, value is None where the trace has no value.
    """
    if not table.has("kind"):
        return []
    kind = table.column("kind")
    chosen = (kind > EventKind.ASYNC_RANGE) & (kind < EventKind.SESSION_MEMBERSHIP)
    if kinds is not None:
        chosen &= np.isin(kind, [int(k) for k in kinds])
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
    return [_instant(table, int(row)) for row in rows]


def _instant(table: EventTable, row: int) -> InstantEvent:
    kind = EventKind(int(table.column("kind")[row]))
    time_ns = int(table.start_ns[row])
    value, args = _payload(table, row, kind)
    return InstantEvent(
        kind=kind,
        name=table.name(row),
        time_us=(time_ns - table.t0_ns) / 1000,
        time_ns=time_ns,
        thread=int(table.thread[row]),
        row=row,
        parent=int(table.column("parent")[row]) if table.has("parent") else -1,
        value=value,
        args=args,
    )


def _payload(table: EventTable, row: int, kind: EventKind) -> tuple[Any, dict[str, Any]]:
    words = table.payload_words
    first = int(table.column("payload")[row]) if table.has("payload") else NO_PAYLOAD
    if words is None or first == NO_PAYLOAD:
        return None, {}
    site = table.sites[int(table.column("site")[row])]
    if kind == EventKind.MARK:
        arguments = zip(site.arg_names, site.arg_types, strict=False)
        return None, {
            name: _value(type_, int(words[first + i]), table)
            for i, (name, type_) in enumerate(arguments)
        }
    if kind == EventKind.COUNTER:
        return _value(
            site.arg_types[0] if site.arg_types else ArgType.INT64, int(words[first]), table
        ), {}
    if kind in (EventKind.FLOW_BEGIN, EventKind.FLOW_END):
        return int(words[first]), {}
    size_at = first + 1 if kind == EventKind.MEMORY else first
    return _value(ArgType.INT64, int(words[size_at]), table), {}


def _value(type_: int, word: int, table: EventTable) -> Any:
    if type_ == ArgType.FLOAT64:
        return float(np.uint64(word).view(np.float64))
    if type_ == ArgType.BOOLEAN:
        return bool(word)
    if type_ == ArgType.STRING:
        return table.strings[word]
    if type_ in (ArgType.UINT64, ArgType.POINTER):
        return word
    return word - (word >> 63 << 64)
