# SPDX-License-Identifier: Apache-2.0
"""EventRows: adds the rows of Perfetto's track events, of current and legacy encodings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastprof.base.native_numbers import ArgType
from fastprof.importers.chrome_args import USER_SCOPE, ScopeRule, put_args, range_state
from fastprof.importers.flow_links import FlowLinks, FlowStep
from fastprof.importers.perfetto_native import NativeState
from fastprof.importers.perfetto_sequence import SourceLocation
from fastprof.importers.perfetto_tracks import Tracks
from fastprof.importers.table_builder import FINISHED, TableBuilder
from fastprof.model.sites import MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME, Site
from fastprof.model.table import EventKind

__all__ = ["EventRows", "TrackEvent"]

_INT64, _FLOAT64 = int(ArgType.INT64), int(ArgType.FLOAT64)
_INSTANT_KINDS = {
    MEMORY_EVENT_NAME: EventKind.MEMORY,
    OUT_OF_MEMORY_EVENT_NAME: EventKind.OUT_OF_MEMORY,
}
_NOWHERE: SourceLocation = ("", "", 0)


@dataclass
class TrackEvent:
    """A decoded track event, with all references resolved."""

    time_ns: int
    name: str = ""
    category: str = ""
    key: Hashable = 0  # identifies its stack of slices
    track: int = 0  # index in the table
    args: dict[str, Any] = field(default_factory=dict)
    source: SourceLocation = _NOWHERE
    flows: list[tuple[FlowStep, int]] = field(default_factory=list)
    size_bytes: int = 0


class EventRows:
    """Adds rows to a TableBuilder, and keeps open slices and flows until their other end is read.

    is_sorted: pair begins and ends after the last event, in time order.
    """

    def __init__(self, is_sorted: bool) -> None:
        self.rows = TableBuilder()
        self.skipped: Counter[str] = Counter()
        self.scopes = ScopeRule()
        self.native = NativeState(self.rows, self.skipped, self.scopes, is_sorted)
        self.stacks = self.native.stacks
        self.tracks = Tracks(self.rows, self.native)
        self.flows = FlowLinks(self.rows, self.skipped)
        self.is_own = False  # written by fastprof: some args and tracks have a special meaning

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory of rows, open slices and flows, in bytes."""
        parts = (self.rows, self.stacks, self.flows, self.native)
        return sum(part.estimate_bytes() for part in parts)

    def site(
        self,
        event: TrackEvent,
        kind: int,
        scope: int = USER_SCOPE,
        allocator: str = "",
        **more: Any,
    ) -> int:
        """Return the site of an event's row. allocator: of a memory report."""
        file, function, line = event.source
        function = function or allocator
        line &= 0xFFFFFFFF
        site = Site(
            event.name, event.category, file, function, line, kind=kind, scope=scope, **more
        )
        return self.rows.site_of(site)

    def begin(self, event: TrackEvent, kind: int = int(EventKind.RANGE)) -> None:
        """Add a range that a later end closes."""
        flags = FINISHED
        if self.is_own:
            kind, flags = range_state(event.args)
        row = self._range(event, kind, event.time_ns, flags & ~FINISHED)
        if not flags & FINISHED:  # the writer added an end for viewers; the range itself had none
            self.stacks.unfinished.add(row)
        self.stacks.begin(event.key, event.time_ns, row)

    def complete(self, event: TrackEvent, end_ns: int) -> None:
        """Add a range with a known end."""
        self._range(event, int(EventKind.RANGE), end_ns, FINISHED)

    def _range(self, event: TrackEvent, kind: int, end_ns: int, flags: int) -> int:
        scope = self.scopes.scope(event.name, event.category, event.args)
        site = self.site(event, kind, scope)
        row = self.rows.add(kind, event.time_ns, end_ns, site, event.track, flags)
        if event.args:
            put_args(self.rows, row, event.args, has_state=self.is_own)
            self.native.link_args.add_row(row, event.args)
        self.link(event)
        return row

    def end(self, event: TrackEvent) -> None:
        """Close the range that an end event belongs to."""
        self.stacks.end(
            event.key, event.time_ns, event.name, event.category, event.args, event.size_bytes
        )
        self.link(event)

    def link(self, event: TrackEvent) -> None:
        """Record the flows that an event takes part in."""
        for step, flow in event.flows:
            self.flows.add(event.time_ns, flow, step, event.name, event.category, event.track)

    def instant(self, event: TrackEvent) -> None:
        """Add a mark, or a memory report if the event is one."""
        rows, time_ns = self.rows, event.time_ns
        if self.is_own and event.flows:  # fastprof writes the ends of arrows as instants
            for step, flow in event.flows:
                begins = step is FlowStep.PASS
                kind = int(EventKind.FLOW_BEGIN if begins else EventKind.FLOW_END)
                payload = rows.add_words(flow)
                site = self.site(event, kind)
                rows.add(kind, time_ns, time_ns, site, event.track, payload=payload)
            return
        kind = int(_INSTANT_KINDS.get(event.name, EventKind.MARK))
        if kind == EventKind.MARK or not isinstance(event.args.get("Bytes"), int):
            site = self.site(event, int(EventKind.MARK))
            row = rows.add(int(EventKind.MARK), time_ns, time_ns, site, event.track)
            put_args(rows, row, event.args, has_state=self.is_own)
            self.link(event)
            return
        args = event.args
        words = [_number(args.get(key)) for key in ("Bytes", "Total Allocated", "Total Reserved")]
        if kind == EventKind.MEMORY:
            words.insert(0, _address(args.get("Addr")))
        site = self.site(
            event,
            kind,
            device_type=max(min(_number(args.get("Device Type")), 32767), -1),
            device_index=max(min(_number(args.get("Device Id")), 32767), -1),
            allocator=allocator if type(allocator := args.get("Allocator")) is str else "",
        )
        rows.add(kind, time_ns, time_ns, site, event.track, payload=rows.add_words(*words))

    def counter(self, name: str, track: int, time_ns: int, value: float) -> None:
        """Add a value of a counter, as int64 or double."""
        kind = int(EventKind.COUNTER)
        real = type(value) is float or not -(1 << 63) <= value < 1 << 63
        word = int(np.float64(value).view(np.int64)) if real else int(value)
        site = self.rows.site_of(
            Site(
                name,
                "counter",
                kind=kind,
                arg_names=("value",),
                arg_types=(_FLOAT64 if real else _INT64,),
            )
        )
        self.rows.add(kind, time_ns, time_ns, site, track, payload=self.rows.add_words(word))

    def track_counter(self, uuid: int, track: int | None, time_ns: int, value: float) -> None:
        """Add a value of a counter track: multiplied by its unit, accumulated if incremental.

        track: index in the table; None: the counter's own track.
        """
        found = self.tracks.known.get(uuid)
        if found is None or not found.is_counter:
            self.skipped["value of a track that is no counter"] += 1
            return
        value *= found.unit_multiplier
        if found.is_incremental:
            value = found.value = found.value + value
        row_track = self.tracks.index(uuid) if track is None else track
        self.counter(found.name, row_track, time_ns, value)


def _address(value: Any) -> int:
    """Return an address given as a number or hexadecimal text; 0 for anything else."""
    if isinstance(value, str) and len(value) <= 18:
        try:
            return int(value, 16)
        except ValueError:
            return 0
    return _number(value)


def _number(value: Any) -> int:
    return value if type(value) is int else 0
