# SPDX-License-Identifier: Apache-2.0
"""PacketReader: decode the packets of a Perfetto trace one by one, with the state of each sequence."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

from fastprof.base import errors
from fastprof.importers.memory_budget import LimitError
from fastprof.importers.perfetto_clocks import Clocks
from fastprof.importers.perfetto_events import TrackEvents
from fastprof.importers.perfetto_fields import PACKET_NAMES, Packet, SequenceFlag
from fastprof.importers.perfetto_rows import EventRows
from fastprof.importers.perfetto_sequence import Sequence
from fastprof.importers.protobuf import by_number, fields, message, varint, whole
from fastprof.importers.source import Source

__all__ = ["PacketReader"]

# Why the native scanner stopped: at a packet that must be interpreted here, or at bytes that it cannot read.
_OTHER, _REFUSED = 1, 2
_NOT_PACKETS = "compressed packets contain fields other than packets"
_MAX_PACKET_BYTES = 64 << 20
_ENTRY_BYTES = 1000
# Estimate of memory per byte of state; an interned name takes at least 6 bytes in the file.
_STATE_BYTES_A_BYTE = 40
_ZLIB_OR_GZIP = 47  # wbits of zlib: detect zlib or gzip by the header
_STATE = frozenset(
    {
        Packet.CLOCK_SNAPSHOT,
        Packet.INTERNED_DATA,
        Packet.PROCESS_DESCRIPTOR,
        Packet.THREAD_DESCRIPTOR,
        Packet.TRACE_PACKET_DEFAULTS,
        Packet.TRACK_DESCRIPTOR,
    }
)
_UNDERSTOOD = frozenset(value for name, value in vars(Packet).items() if not name.startswith("_"))


class PacketReader:
    """Accumulates the rows of a trace and the state that later packets refer to.

    clocks: includes the snapshots of an earlier pass over the same trace. is_sorted: pair begins and
    ends after the last packet, in time order. The native scanner reads the common packets, packet() the others.
    """

    def __init__(
        self, source: Source, clocks: Clocks | None = None, is_sorted: bool = False
    ) -> None:
        self.source = source
        self.largest_packet_bytes = min(_MAX_PACKET_BYTES, source.budget.max_json_chars)
        self.target = EventRows(is_sorted)
        self.native = self.target.native
        self.can_scan = True
        self.clocks = clocks if clocks is not None else Clocks()
        self.events = TrackEvents(self.target, self.clocks)
        self.sequences: dict[int, Sequence] = {}
        self.skipped: Counter[str] = Counter()
        self.has_unknown_times = False
        self.state_bytes = 0  # upper bound of the memory of names and tracks
        self.decompressed_bytes = 0
        self.packets = 0  # number of packets scanned
        self.damage = ""
        self.closing_packets = 0  # of fastprof's writer
        self._is_nested = False  # within compressed packets
        self._sequence: Sequence | None = None  # of the last packet

    @property
    def is_complete(self) -> bool:
        """Whether every event had a known time and arrived in time order."""
        return self.target.stacks.in_order and not self.has_unknown_times

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory used so far, in bytes."""
        entries = len(self.sequences) + len(self.target.tracks) + len(self.clocks)
        entries += len(self.skipped) + len(self.target.skipped)
        return self.target.estimate_bytes() + self.state_bytes + _ENTRY_BYTES * entries

    def finish_reading(self) -> None:
        """Complete the rows after the last packet, except for slices that are open or that finish() will pair."""
        self.native.stacks.apply()

    def scan(self, data: bytes, where: str, offset: int) -> int:
        """Read whole packets at the begin of `data` with the native scanner; return the number of bytes read.

        Stops at bytes that the scanner cannot read; can_scan is False then.
        where, offset: path of the file and offset of `data` in it, for errors.
        """
        at = 0
        while True:
            block = self.native.scan(data, at, self.largest_packet_bytes, self.target.flows)
            for begin, end, _, number in block.others():
                message_at = varint(data, at + begin + 1, at + end)[1]
                try:
                    self.packet(data[message_at : at + end])
                except (errors.FormatError, OverflowError) as error:
                    if isinstance(error, LimitError) or not where:
                        raise
                    place = (
                        f"{where}: packet {self.packets + number} at offset {offset + at + begin}"
                    )
                    raise errors.FormatError(f"{place}: {error}") from None
            self.packets += block.events
            at += block.consumed
            self.source.budget.check(self.estimate_bytes())
            self.can_scan = block.stop != _REFUSED
            if block.stop != _OTHER:
                return at

    def packet(self, data: bytes) -> None:
        """Process one packet, and share the changes that it makes with the scanner."""
        native = self.native
        names = len(self.target.scopes.backward_names)
        self._parse(data)
        if self._sequence is not None:
            native.set_sequence(self._sequence, self.target.tracks)
        if self.target.is_own:
            native.scanner.set_own()
        if len(self.target.scopes.backward_names) > names:
            native.columns.take_backward_names(self.target.scopes.backward_names)

    def _parse(self, data: bytes) -> None:
        found = by_number(data)
        if Packet.COMPRESSED_PACKETS in found:
            if self._is_nested:
                raise errors.FormatError(_NOT_PACKETS)
            self._compressed(message(found[Packet.COMPRESSED_PACKETS]))
            return
        if self.target.is_own and Packet.SERVICE_EVENT in found:
            self.closing_packets += 1
        elif Packet.SERVICE_EVENT in found:
            self.skipped["service_event"] += 1
        for number in found.keys() - _UNDERSTOOD:
            self.skipped[PACKET_NAMES.get(number, f"packet field {number}")] += 1
        sequence_id = whole(found.get(Packet.TRUSTED_PACKET_SEQUENCE_ID, 0))
        sequence = self.sequences.get(sequence_id)
        if sequence is None:
            sequence = self.sequences[sequence_id] = Sequence(sequence_id, self.native)
        self._sequence = sequence
        self._update(sequence, found)
        flags = whole(found.get(Packet.SEQUENCE_FLAGS, 0))
        if flags & SequenceFlag.NEEDS_INCREMENTAL_STATE and not sequence.is_valid:
            self.skipped["needs state that was lost or not yet cleared"] += 1
            return
        if Packet.TRACK_EVENT not in found:
            if Packet.TRACK_DESCRIPTOR in found:
                self.target.tracks.describe(sequence, message(found[Packet.TRACK_DESCRIPTOR]))
            return
        if Packet.TRUSTED_PACKET_SEQUENCE_ID not in found:
            self.skipped["track event without a sequence"] += 1
            return
        time_ns: int | None = None
        clock = whole(found.get(Packet.TIMESTAMP_CLOCK_ID, 0)) or sequence.clock
        clock = self.clocks.key(sequence_id, clock)
        if Packet.TIMESTAMP in found:
            timestamp = whole(found[Packet.TIMESTAMP])
            time_ns = self.native.time_ns(self.clocks, clock, timestamp)
            if time_ns is None:
                self._unknown_time(clock)
                return
        self.events.add(sequence, message(found[Packet.TRACK_EVENT]), time_ns)

    def _update(self, sequence: Sequence, found: dict[int, Any]) -> None:
        """Update the state that later packets refer to."""
        flags = whole(found.get(Packet.SEQUENCE_FLAGS, 0))
        cleared = flags & SequenceFlag.INCREMENTAL_STATE_CLEARED
        if cleared or found.get(Packet.INCREMENTAL_STATE_CLEARED):
            sequence.clear()
            self.target.tracks.reset_counters(sequence.id)
        elif found.get(Packet.PREVIOUS_PACKET_DROPPED):
            self.skipped["lost before they were written"] += sequence.is_valid
            sequence.lose()
        if _STATE.isdisjoint(found):
            return
        for number in _STATE & found.keys():
            self.state_bytes += _STATE_BYTES_A_BYTE * len(message(found[number]))
        if Packet.TRACE_PACKET_DEFAULTS in found:
            sequence.set_defaults(found[Packet.TRACE_PACKET_DEFAULTS])
        if Packet.INTERNED_DATA in found:
            if sequence.is_valid:
                sequence.intern(found[Packet.INTERNED_DATA], self.target.skipped)
            else:
                self.skipped["interned data before the state was cleared"] += 1
        if Packet.CLOCK_SNAPSHOT in found:
            self.native.pull_clocks(self.clocks)
            self.clocks.add_snapshot(sequence.id, found[Packet.CLOCK_SNAPSHOT])
        if Packet.PROCESS_DESCRIPTOR in found:
            self.target.tracks.describe_process(found[Packet.PROCESS_DESCRIPTOR])
        if Packet.THREAD_DESCRIPTOR in found:
            if sequence.is_valid:
                self.target.tracks.describe_thread(sequence, found[Packet.THREAD_DESCRIPTOR])
            else:
                self.skipped["needs state that was lost or not yet cleared"] += 1

    def _unknown_time(self, clock: int) -> None:
        self.has_unknown_times = True
        self.skipped[f"time of clock {clock & 0xFFFFFFFF}, which no snapshot relates"] += 1

    def _compressed(self, data: bytes) -> None:
        """Process the packets that a packet contains in compressed form."""
        inflate = zlib.decompressobj(_ZLIB_OR_GZIP)
        try:
            trace = inflate.decompress(data, self.largest_packet_bytes)
        except zlib.error as error:
            raise errors.FormatError(f"damaged compressed packets: {error}") from None
        if not inflate.eof:
            limit = f"exceed {self.largest_packet_bytes} bytes when decompressed"
            problem = limit if inflate.unconsumed_tail else "are truncated"
            raise errors.FormatError(f"compressed packets {problem}")
        self.decompressed_bytes += len(trace)
        if self.decompressed_bytes > self.source.limit:
            raise LimitError(
                f"{self.source.path}: compressed packets exceed {self.source.limit} bytes when decompressed. "
                "Raise max_decompressed_bytes if you trust the file."
            )
        packets, self._is_nested = self.packets, True
        try:
            self._nested_packets(trace)
        finally:
            self.packets, self._is_nested = packets, False

    def _nested_packets(self, trace: bytes) -> None:
        done = self.scan(trace, "", 0) if self.can_scan else 0
        for index, (number, content) in enumerate(fields(trace[done:])):
            packet = message(content)
            if number != 1:
                raise errors.FormatError(_NOT_PACKETS)
            self.packet(packet)
            if index % 64 == 0:
                self.source.budget.check(self.estimate_bytes() + len(trace))
