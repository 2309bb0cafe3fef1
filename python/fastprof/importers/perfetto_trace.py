# SPDX-License-Identifier: Apache-2.0
"""Reader of Perfetto traces: packets, in file order, become the rows of a table.

Data other than track events (ftrace, profiles, statistics) is counted, not read. Damaged or incomplete
data is handled as in Perfetto's own trace processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastprof.base import errors
from fastprof.importers.forward_threads import with_forward_tracks
from fastprof.importers.memory_budget import LimitError
from fastprof.importers.own_device_rows import with_own_devices
from fastprof.importers.perfetto_clocks import Clocks
from fastprof.importers.perfetto_packets import PacketReader
from fastprof.importers.protobuf import top_level_messages
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_perfetto_trace"]

_LARGE_PACKET_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20


def read_perfetto_trace(source: Source, *, salvage: bool = False) -> EventTable:
    """Return the table of a trace, rows in file order; times in exact ns of the trace's clock.

    Slices, instants, counters and flows become rows; Perfetto's tracks become tracks; debug
    annotations become args as in Chrome traces. metadata["skipped_packets"] counts packets that were
    not read, by name; metadata["skipped_events"] counts, by reason, events or parts of events that a
    table cannot represent or that contradict others.

    salvage: return the rows before the first damage, with its description in
    metadata["damage"]. Raises errors.FormatError with the offset of a damaged packet.
    """
    reader = PacketReader(source)
    _read(source, reader, salvage)
    if not reader.is_complete:
        # Some events were out of order or preceded their clock's first snapshot: read again, with all snapshots.
        clocks = reader.clocks
        del reader
        source.rewind()
        reader = PacketReader(source, Clocks(later=clocks), is_sorted=True)
        _read(source, reader, salvage)
    return _table(reader)


def _read(source: Source, reader: PacketReader, salvage: bool) -> None:
    try:
        _read_packets(source, reader, _scan(source, reader))
    except errors.FormatError as error:
        if not salvage or isinstance(error, LimitError):
            raise
        reader.damage = str(error)
    reader.damage = source.damage or reader.damage
    reader.finish_reading()
    missing = reader.events.closing_packets - reader.closing_packets
    if missing > 0 and not reader.damage:
        reader.damage = (
            f"{source.path}: offset {source.offset}: the trace is truncated: its closing packet is missing. "
            f"{len(reader.target.rows)} of {reader.events.rows} rows are in the file"
        )
        if not salvage:
            raise errors.FormatError(reader.damage)


def _scan(source: Source, reader: PacketReader) -> bytes:
    """Read packets with the native scanner as far as possible; return the bytes that it did not consume."""
    data = b""
    while reader.can_scan:
        more = source.read(max(_PIECE_BYTES, len(data)))
        if not more:
            break
        data += more
        data = data[reader.scan(data, source.path, source.offset - len(data)) :]
    return data


def _read_packets(source: Source, reader: PacketReader, data: bytes) -> None:
    """Read the remaining packets one by one. data: bytes before the source's position."""
    for offset, packet in top_level_messages(source, 1, reader.largest_packet_bytes, data):
        try:
            reader.packet(packet)
        except LimitError:
            raise
        except (errors.FormatError, OverflowError) as error:
            place = f"{source.path}: packet {reader.packets} at offset {offset}"
            raise errors.FormatError(f"{place}: {error}") from None
        reader.packets += 1
        if reader.packets % 64 == 1 or len(packet) > _LARGE_PACKET_BYTES:
            source.budget.check(reader.estimate_bytes())


def _table(reader: PacketReader) -> EventTable:
    target, facts = reader.target, reader.events.facts
    rows = target.rows
    start = np.frombuffer(rows.start, np.int64)
    first = int(start.min()) if len(start) else 0
    del start  # releases the buffer: while a view exists, the array cannot grow
    t1 = facts.get("session_stop_ns", max(rows.end, default=0))
    target.stacks.finish(t1)
    target.flows.finish()
    track_map = target.tracks.name_rows(join_lanes=target.is_own)
    pid, process_name = target.tracks.process()
    metadata: dict[str, Any] = {**reader.events.metadata, "format": "perfetto"}
    if reader.damage:
        metadata["damage"] = reader.damage
    if reader.clocks.refused:
        reader.skipped["clock snapshot that contradicts another"] += reader.clocks.refused
    for name, counts in (("packets", reader.skipped), ("events", target.skipped)):
        if +counts:
            metadata[f"skipped_{name}"] = dict(+counts)
    if processes := target.tracks.processes():
        metadata["processes"] = processes
    prefix = "dropped_"
    table = rows.finish(
        args_texts=target.native.columns.args_texts,
        track_map=track_map,
        t0_ns=facts.get("session_start_ns", first),
        t1_ns=t1,
        clock_error_ns=facts.get("clock_error_ns", 0),
        pid=pid,
        process_name=process_name,
        dropped={
            k.removeprefix(prefix): max(v, 0) for k, v in facts.items() if k.startswith(prefix)
        },
        metadata=metadata,
    )
    if target.is_own:
        table = with_own_devices(table, target.native.link_args)
    return with_forward_tracks(table)
