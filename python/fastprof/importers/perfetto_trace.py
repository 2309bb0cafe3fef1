# SPDX-License-Identifier: Apache-2.0
"""Reader of Perfetto traces as fastprof writes them: the fields of export/perfetto_fields.hpp.

Source of the field numbers: protos/perfetto/trace/*.proto of the Perfetto project.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fastprof.base import errors
from fastprof.importers.chrome_args import ScopeRule, put_args, range_state
from fastprof.importers.protobuf import (
    fields,
    message,
    real,
    signed,
    text,
    top_level_messages,
    varint,
    whole,
)
from fastprof.importers.source import Source
from fastprof.importers.table_builder import FINISHED, TableBuilder
from fastprof.model.sites import Site
from fastprof.model.table import EventKind, EventTable

__all__ = ["read_perfetto_trace"]

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_REALTIME, _FIRST_OF_SEQUENCE = 1, 64
_INT64, _FLOAT64 = 0, 2  # ArgType
_MAX_DEPTH = 16
_TIMESTAMP_TAG = b"\x40"  # field 8, a varint
_MOST_KNOWN = 1 << 14
_MAX_PACKET_BYTES = 64 << 20
_LARGE_PACKET_BYTES = 1 << 16
_ENTRY_BYTES = 1000
_STATE_BYTES_A_BYTE = 40  # an interned name takes 6 bytes in the file at least
_INSTANT_KINDS = {"[memory]": EventKind.MEMORY, "[OutOfMemory]": EventKind.OUT_OF_MEMORY}


@dataclass
class _Track:
    """A track descriptor."""

    name: str = ""
    parent: int = 0
    pid: int | None = None
    tid: int = 0
    is_thread: bool = False
    is_process: bool = False


@dataclass
class _Sequence:
    """What the packets of one sequence refer to."""

    track_uuid: int = 0
    clock: int = _REALTIME
    now: int = 0
    offset_ns: int = 0
    categories: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    arguments: dict[int, str] = field(default_factory=dict)
    locations: dict[int, tuple[str, str, int]] = field(default_factory=dict)


class _Plain(NamedTuple):
    """An event that says no more than this."""

    kind: int
    uuid: int
    row_kind: int = 0
    site: int = 0
    track: int = 0


def read_perfetto_trace(source: Source) -> EventTable:
    """The rows of a trace that write_perfetto_trace wrote; exact ns, arguments as in Chrome traces.

    Packets and fields that fastprof never writes are passed over and counted in
    metadata["skipped_packets"]. Raises errors.FormatError with the offset of the packet.
    """
    reader = _Reader()
    budget = source.budget
    largest = min(_MAX_PACKET_BYTES, budget.max_json_chars)
    for index, (offset, packet) in enumerate(top_level_messages(source, 1, largest)):
        try:
            reader.packet(packet)
        except (errors.FormatError, OverflowError) as error:
            place = f"{source.path}: packet {index} at offset {offset}"
            raise errors.FormatError(f"{place}: {error}") from None
        if index % 64 == 0 or len(packet) > _LARGE_PACKET_BYTES:
            budget.check(reader.estimate_bytes())
    return reader.table()


class _Reader:
    def __init__(self) -> None:
        self.rows = TableBuilder()
        self.sequences: dict[int, _Sequence] = {}
        self.tracks: dict[int, _Track] = {}
        self.open: dict[int, list[int]] = {}
        self.unfinished: set[int] = set()
        self.track_of: dict[int, int] = {}
        self.facts: dict[str, int] = {}
        self.scopes = ScopeRule()
        self.skipped = 0
        self.state_bytes = 0  # of names and tracks, an upper bound
        # Packets of begins without arguments and of ends, by all their bytes but the timestamp at
        # the front: most packets of a trace. Emptied when what they refer to changes.
        self.known: dict[bytes, tuple[_Sequence, int, _Plain]] = {}

    def estimate_bytes(self) -> int:
        """Memory that what was read so far takes, from above."""
        entries = len(self.sequences) + len(self.tracks) + len(self.open) + len(self.track_of)
        return self.rows.estimate_bytes() + self.state_bytes + _ENTRY_BYTES * entries

    def packet(self, data: bytes) -> None:
        if data[:1] != _TIMESTAMP_TAG:
            self._parse(data)
            return
        timestamp, at = varint(data, 1, len(data))
        rest = data[at:]
        known = self.known.get(rest)
        if known is None:
            new = self._parse(data)
            if new is not None and len(rest) <= 64 and len(self.known) < _MOST_KNOWN:
                entry = dict(fields(rest))
                if 8 in entry or whole(entry.get(13, 0)) & 1:
                    return  # another timestamp, or a sequence that begins anew each time
                sequence = self.sequences[whole(entry.get(10, 0))]
                clock = whole(entry.get(58, 0)) or sequence.clock
                self.known[rest] = (sequence, clock, new)
            return
        sequence, clock, plain = known
        time_ns = self._time_ns(sequence, clock, timestamp)
        if plain.kind == _END:
            self._end(plain.uuid, time_ns)
            return
        row = self.rows.add(plain.row_kind, time_ns, time_ns, plain.site, plain.track, 0)
        self.open.setdefault(plain.uuid, []).append(row)

    def _time_ns(self, sequence: _Sequence, clock: int, timestamp: int) -> int:
        if clock < _FIRST_OF_SEQUENCE:
            return signed(timestamp)
        sequence.now += timestamp
        return sequence.now + sequence.offset_ns

    def _parse(self, data: bytes) -> _Plain | None:
        """Read a packet; what it says when it is a plain event."""
        event: bytes | None = None
        timestamp: int | None = None
        clock = sequence_id = flags = 0
        rest: list[tuple[int, bytes]] = []
        for number, value in fields(data):
            if number == 8:
                timestamp = whole(value)
            elif number == 10:
                sequence_id = whole(value)
            elif number == 11:
                event = message(value)
            elif number == 13:
                flags = whole(value)
            elif number == 58:
                clock = whole(value)
            elif number in (6, 12, 59, 60):
                rest.append((number, message(value)))
        sequence = self.sequences.get(sequence_id)
        if sequence is None or flags & 1:  # SEQ_INCREMENTAL_STATE_CLEARED
            sequence = self.sequences[sequence_id] = _Sequence()
        if rest or flags & 1:
            self.known.clear()
        for number, content in rest:
            self.state_bytes += _STATE_BYTES_A_BYTE * len(content)
            self._state(sequence, number, content)
        if event is None:
            self.skipped += not rest
            return None
        if timestamp is None:
            raise errors.FormatError("an event without a timestamp")
        time_ns = self._time_ns(sequence, clock or sequence.clock, timestamp)
        return self._event(sequence, event, time_ns)

    # ---- state ---------------------------------------------------------------------------------

    def _state(self, sequence: _Sequence, number: int, data: bytes) -> None:
        if number == 60:
            self._descriptor(data)
        elif number == 6:
            self._clocks(sequence, data)
        elif number == 59:
            for key, value in fields(data):
                if key == 58:
                    sequence.clock = whole(value)
                elif key == 11:
                    for inner, uuid in fields(message(value)):
                        if inner == 11:
                            sequence.track_uuid = whole(uuid)
        else:
            for key, value in fields(data):
                self._interned(sequence, key, value)

    def _interned(self, sequence: _Sequence, key: int, value: Any) -> None:
        tables = {1: sequence.categories, 2: sequence.names, 3: sequence.arguments}
        if key not in (1, 2, 3, 4):
            return
        entry = dict(fields(message(value)))
        iid = whole(entry.get(1, 0))
        if key == 4:
            line = whole(entry.get(4, 0))
            sequence.locations[iid] = (text(entry.get(2, b"")), text(entry.get(3, b"")), line)
        else:
            tables[key][iid] = text(entry.get(2, b""))

    def _clocks(self, sequence: _Sequence, data: bytes) -> None:
        readings: dict[int, int] = {}
        for key, value in fields(data):
            if key == 1:
                entry = dict(fields(message(value)))
                readings[whole(entry.get(1, 0))] = signed(entry.get(2, 0))
        for clock, reading in readings.items():
            if clock >= _FIRST_OF_SEQUENCE and _REALTIME in readings:
                sequence.now = reading
                sequence.offset_ns = readings[_REALTIME] - reading

    def _descriptor(self, data: bytes) -> None:
        entry = dict(fields(data))
        track = self.tracks.setdefault(whole(entry.get(1, 0)), _Track())
        track.name = text(entry.get(2, b"")) or track.name
        track.parent = whole(entry.get(5, 0))
        if 3 in entry:
            process = dict(fields(message(entry[3])))
            track.pid = signed(process.get(1, 0))
            track.name = text(process.get(6, b""))
            track.is_process = True
        if 4 in entry:
            thread = dict(fields(message(entry[4])))
            track.pid, track.tid = signed(thread.get(1, 0)), signed(thread.get(2, 0))
            track.name = text(thread.get(5, b""))
            track.is_thread = True

    def _row_track(self, uuid: int) -> int:
        """Track of the table that a Perfetto track's rows belong to; lanes go to their thread."""
        known = self.track_of.get(uuid)
        if known is not None:
            return known
        track = self.tracks.get(uuid, _Track())
        parent = self.tracks.get(track.parent)
        if parent is not None and not parent.is_process and track.parent != uuid:
            seen = {uuid}
            while track.parent in self.tracks and track.parent not in seen:
                above = self.tracks[track.parent]
                if above.is_process:
                    break
                uuid_above = track.parent
                seen.add(uuid_above)
                track = above
            index = self.rows.track_of(id(track), track.pid or 0, track.tid)
        else:
            index = self.rows.track_of(id(track) if uuid in self.tracks else uuid, 0, 0)
        process = self.tracks.get(track.parent)
        pid = track.pid if track.pid is not None else process.pid if process else 0
        self.rows.tracks[index] = self.rows.tracks[index]._replace(
            pid=pid or 0, tid=track.tid, name=track.name
        )
        self.track_of[uuid] = index
        return index

    # ---- events --------------------------------------------------------------------------------

    def _event(self, sequence: _Sequence, data: bytes, time_ns: int) -> _Plain | None:
        kind = iid = location = 0
        uuid = sequence.track_uuid
        name: str | None = None
        category = ""
        annotations: list[bytes] = []
        counter: tuple[int, int] | None = None
        flows: list[tuple[int, int]] = []
        for number, value in fields(data):
            if number == 9:
                kind = whole(value)
            elif number == 10:
                iid = whole(value)
            elif number == 3:
                category = sequence.categories.get(whole(value), "")
            elif number == 11:
                uuid = whole(value)
            elif number == 4:
                annotations.append(message(value))
            elif number == 23:
                name = text(value)
            elif number == 30:
                counter = (_INT64, whole(value))
            elif number == 44:
                counter = (_FLOAT64, whole(value))
            elif number == 34:
                location = whole(value)
            elif number in (47, 48):
                begin = number == 47
                kind_of = EventKind.FLOW_BEGIN if begin else EventKind.FLOW_END
                flows.append((int(kind_of), whole(value)))
        if kind == _END:
            self._end(uuid, time_ns)
            return _Plain(_END, uuid)
        if name is None:
            name = sequence.names.get(iid)
            if name is None and kind != _COUNTER:
                raise errors.FormatError(f"event name {iid} is not interned")
        args = dict(self._annotation(sequence, entry, 0) for entry in annotations)
        if name == "fastprof session":
            self.facts = {key: value for key, value in args.items() if type(value) is int}
            return None
        spliced = args.pop("metadata", None)
        if isinstance(spliced, dict):
            args.update(spliced)
        elif spliced is not None:
            args["metadata"] = spliced
        source = sequence.locations.get(location, ("", "", 0))
        # A counter has a track of its own; the thread that set it is the sequence's.
        own_track = sequence.track_uuid if kind == _COUNTER else 0
        row_track = self._row_track(own_track or uuid)
        if kind == _COUNTER:
            self._counter(uuid, row_track, counter, time_ns)
        elif kind == _BEGIN:
            row_kind, flags = range_state(args)
            scope = self.scopes.scope(name or "", category, args)
            site = self._site(name or "", category, row_kind, source, scope)
            row = self.rows.add(row_kind, time_ns, time_ns, site, row_track, flags & ~FINISHED)
            self.open.setdefault(uuid, []).append(row)
            if not args:
                return _Plain(_BEGIN, uuid, row_kind, site, row_track)
            if not flags & FINISHED:  # a viewer is given an end, but there was none
                self.unfinished.add(row)
            put_args(self.rows, row, args)
        elif kind == _INSTANT:
            self._instant(name or "", category, source, row_track, time_ns, args, flows)
        else:
            self.skipped += 1
        return None

    def _site(
        self,
        name: str,
        category: str,
        kind: int,
        source: tuple[str, str, int],
        scope: int = 7,
        **more: Any,
    ) -> int:
        file, function, line = source
        line &= 0xFFFFFFFF
        site = Site(name, category, file, function, line, kind=kind, scope=scope, **more)
        return self.rows.site_of(site)

    def _end(self, uuid: int, time_ns: int) -> None:
        opened = self.open.get(uuid)
        if not opened:
            raise errors.FormatError("an end without a begin")
        row = opened.pop()
        if not -(1 << 63) <= time_ns < 1 << 63:
            raise OverflowError("a time that 64 bits do not hold")
        self.rows.end[row] = max(time_ns, self.rows.start[row])
        if row not in self.unfinished:
            self.rows.flags[row] |= FINISHED

    def _counter(self, uuid: int, track: int, value: tuple[int, int] | None, time_ns: int) -> None:
        if value is None:
            raise errors.FormatError("a counter without a value")
        name = self.tracks[uuid].name if uuid in self.tracks else ""
        kind = int(EventKind.COUNTER)
        site = self._site(
            name, "counter", kind, ("", "", 0), arg_names=("value",), arg_types=(value[0],)
        )
        payload = self.rows.add_words(value[1])
        self.rows.add(kind, time_ns, time_ns, site, track, payload=payload)

    def _instant(
        self,
        name: str,
        category: str,
        source: tuple[str, str, int],
        track: int,
        time_ns: int,
        args: dict[str, Any],
        flows: list[tuple[int, int]],
    ) -> None:
        rows = self.rows
        for kind, flow in flows:
            payload = rows.add_words(flow)
            site = self._site(name, category, kind, source)
            rows.add(kind, time_ns, time_ns, site, track, payload=payload)
        if flows:
            return
        kind = int(_INSTANT_KINDS.get(name, EventKind.MARK))
        if kind == EventKind.MARK or not isinstance(args.get("Bytes"), int):
            site = self._site(name, category, int(EventKind.MARK), source)
            row = rows.add(int(EventKind.MARK), time_ns, time_ns, site, track)
            put_args(rows, row, args)
            return
        words = [_number(args.get(key)) for key in ("Bytes", "Total Allocated", "Total Reserved")]
        if kind == EventKind.MEMORY:
            address = args.get("Addr")
            words.insert(0, _address(address))
        site = self._site(
            name,
            category,
            kind,
            source,
            device_type=max(min(_number(args.get("Device Type")), 32767), -1),
            device_index=max(min(_number(args.get("Device Id")), 32767), -1),
        )
        rows.add(kind, time_ns, time_ns, site, track, payload=rows.add_words(*words))

    def _annotation(self, sequence: _Sequence, data: bytes, depth: int) -> tuple[str, Any]:
        """(name, value) of a DebugAnnotation."""
        if depth > _MAX_DEPTH:
            raise errors.FormatError("an annotation is nested too deeply")
        name = ""
        value: Any = None
        for number, content in fields(data):
            if number == 1:
                name = sequence.arguments.get(whole(content), "")
            elif number == 10:
                name = text(content)
            elif number == 2:
                value = bool(content)
            elif number == 3:
                value = whole(content)
            elif number == 4:
                value = signed(content)
            elif number == 5:
                value = real(content)
            elif number == 6:
                value = text(content)
            elif number == 7:
                value = hex(whole(content))
            elif number == 9:
                value = _json(text(content))
            elif number == 12:
                item = self._annotation(sequence, message(content), depth + 1)[1]
                if isinstance(value, list):
                    value.append(item)
                else:
                    value = [item]
        return name, value

    # ---- the table -----------------------------------------------------------------------------

    def table(self) -> EventTable:
        rows, facts = self.rows, self.facts
        start = np.frombuffer(rows.start, np.int64)
        last = max(rows.end, default=0)
        t1 = facts.get("session_stop_ns", last)
        for opened in self.open.values():
            for row in opened:
                rows.end[row] = max(t1, rows.start[row])
        process = next((t for t in self.tracks.values() if t.is_process), _Track())
        prefix = "dropped_"
        metadata: dict[str, Any] = {"format": "perfetto"}
        if self.skipped:
            metadata["skipped_packets"] = self.skipped
        return rows.finish(
            t0_ns=facts.get("session_start_ns", int(start.min()) if len(start) else 0),
            t1_ns=t1,
            clock_error_ns=facts.get("clock_error_ns", 0),
            pid=process.pid or 0,
            process_name=process.name,
            dropped={
                k.removeprefix(prefix): max(v, 0) for k, v in facts.items() if k.startswith(prefix)
            },
            metadata=metadata,
        )


def _json(source: str) -> Any:
    try:
        return json.loads(source)
    except (ValueError, RecursionError):
        return source


def _address(value: Any) -> int:
    """The number of an address, which is a number or hexadecimal text; 0 for anything else."""
    if isinstance(value, str) and len(value) <= 18:
        try:
            return int(value, 16)
        except ValueError:
            return 0
    return _number(value)


def _number(value: Any) -> int:
    return value if type(value) is int else 0
