# SPDX-License-Identifier: Apache-2.0
"""NativeState: the state that the native scanner of Perfetto's packets shares with the reader of the other packets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from fastprof import _core
from fastprof.importers.chrome_args import ScopeRule
from fastprof.importers.event_columns import BlockColumns, EventColumns, trace_conventions
from fastprof.importers.flow_links import FlowLinks, FlowStep
from fastprof.importers.native_stacks import NativeStacks
from fastprof.importers.own_device_rows import LinkArgs
from fastprof.importers.perfetto_clocks import Clocks
from fastprof.importers.perfetto_sequence import Sequence, SourceLocation
from fastprof.importers.table_builder import TableBuilder

if TYPE_CHECKING:
    from fastprof.importers.perfetto_tracks import Descriptor, Tracks

__all__ = ["NativeState"]


class NativeState:
    """The scanner, and the functions that pass it the changes of state that other packets make."""

    def __init__(
        self, rows: TableBuilder, skipped: Counter[str], scopes: ScopeRule, is_sorted: bool
    ) -> None:
        self.scanner = _core.PacketScanner(trace_conventions(), is_sorted)
        self.stacks = NativeStacks(self.scanner, rows, skipped, is_sorted)
        self.link_args = LinkArgs()
        self.columns = EventColumns(self.scanner.store, rows, self.link_args, scopes)
        self._rows = rows

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory used, in bytes."""
        store = self.scanner.store.bytes  # the columns count these bytes, too
        return self.scanner.bytes - store + self.columns.estimate_bytes() + self.link_args.nbytes

    # ---- rows ----------------------------------------------------------------------------------

    def scan(self, data: bytes, at: int, most: int, flows: FlowLinks) -> _core.ScannedPackets:
        """Scan packets from data[at] and add their rows to the table; return the block. most: bytes of a packet."""
        block = self.scanner.scan(data, at, len(self._rows), most)
        if block.rows:
            columns = BlockColumns(block)
            self.columns.add(columns, 0, columns.rows)
            self.columns.share_backward_names()
            rows, ids, steps = block.take_links()
            if len(rows):
                flows.add_rows(rows, ids, steps * np.uint8(FlowStep.END))  # 0: PASS
        self.stacks.apply()
        return block

    # ---- state ---------------------------------------------------------------------------------

    def set_track(self, uuid: int, track: int, known: Descriptor | None) -> None:
        """Share the table's track of a uuid, and whether it is a counter. known: its descriptor."""
        self.scanner.set_place(uuid, self.stacks.code(uuid), track)
        if (
            known is not None
            and known.is_counter
            and not known.is_incremental
            and known.unit_multiplier == 1
        ):
            self.scanner.set_counter(uuid, known.name, track)
        else:
            self.scanner.forget_counter(uuid)

    def set_sequence(self, sequence: Sequence, tracks: Tracks) -> None:
        """Share the state of a sequence to which its packets refer, except for texts."""
        track = tracks.place(sequence.pid, sequence.tid)
        stack = -1
        if track is not None:
            key = ("thread", sequence.pid, sequence.tid) if sequence.tid else 0
            stack = self.stacks.code(key)
        self.scanner.set_sequence(
            sequence.id,
            sequence.is_valid,
            sequence.clock,
            sequence.track_uuid or 0,
            stack,
            track if track is not None else 0,
        )

    def time_ns(self, clocks: Clocks, key: int, timestamp: int) -> int | None:
        """Convert a timestamp as Clocks.trace_time_ns(), and share the conversion."""
        # The scanner does not read clocks of sequences with huge numbers.
        if key >= 1 << 64:
            return clocks.trace_time_ns(key, timestamp)
        running = self.scanner.clock_ns(key)
        if running is not None:
            clocks.set_last(key, running)
        time_ns = clocks.trace_time_ns(key, timestamp)
        conversion = clocks.conversion(key)
        if conversion is not None:
            self.scanner.set_clock(key, *conversion)
        return time_ns

    def set_location(self, sequence: int, iid: int, location: SourceLocation) -> None:
        """Share an interned source location of a sequence."""
        places = self.columns.places
        self.scanner.set_location(sequence, iid, places.setdefault(location, len(places)))

    def pull_clocks(self, clocks: Clocks) -> None:
        """Copy the last times of incremental clocks from the scanner to `clocks`; the scanner forgets all clocks."""
        for key, last_ns in self.scanner.running_clocks():
            clocks.set_last(key, last_ns)
        self.scanner.forget_clocks()
