# SPDX-License-Identifier: Apache-2.0
"""Instants of a table as events: marks, counters, the ends of flows, memory reports."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from fastprof.model.table import NO_PAYLOAD, EventKind, EventTable

__all__ = ["InstantEvent", "instants"]

# ArgType in csrc/include/fastprof/recorder/site.hpp.
_INT64, _UINT64, _FLOAT64, _BOOLEAN, _STRING, _POINTER = range(6)


class InstantEvent(NamedTuple):
    """Something that happened at one time.

    kind: EventKind.MARK, COUNTER, FLOW_BEGIN, FLOW_END, MEMORY or OUT_OF_MEMORY. time_us: from the
    session's start, as the times of FunctionEvent; time_ns: Unix time. thread: the id of the
    thread's track, as FunctionEvent.thread. row: in the EventTable; parent: the row of the range
    around it, -1 for none. value: of a counter its number (an int exactly); of a flow its id; of
    memory the bytes, negative when freed, or those that were asked for; None for a mark. args: the
    arguments of a mark by name.
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
    """List the instants of a table by time; kinds: only these (default: all).

    A table that was read from a trace has them without values where the trace has none.
    """
    if not table.has("kind"):
        return []
    kind = table.column("kind")
    chosen = (kind > EventKind.ASYNC_RANGE) & (kind < EventKind.SEGMENT)
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
        parent=int(table.column("parent")[row]),
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
        return _value(site.arg_types[0] if site.arg_types else _INT64, int(words[first]), table), {}
    if kind in (EventKind.FLOW_BEGIN, EventKind.FLOW_END):
        return int(words[first]), {}
    size_at = first + 1 if kind == EventKind.MEMORY else first
    return _value(_INT64, int(words[size_at]), table), {}


def _value(type_: int, word: int, table: EventTable) -> Any:
    if type_ == _FLOAT64:
        return float(np.uint64(word).view(np.float64))
    if type_ == _BOOLEAN:
        return bool(word)
    if type_ == _STRING:
        return table.strings[word]
    if type_ in (_UINT64, _POINTER):
        return word
    return word - (word >> 63 << 64)
