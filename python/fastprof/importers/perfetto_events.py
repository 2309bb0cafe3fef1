# SPDX-License-Identifier: Apache-2.0
"""TrackEvents: decode the TrackEvent messages of a Perfetto trace into rows."""

from __future__ import annotations

from typing import Any

from fastprof.importers.flow_links import FlowStep
from fastprof.importers.perfetto_annotations import annotation
from fastprof.importers.perfetto_clocks import Clocks
from fastprof.importers.perfetto_fields import Event, EventType, InternedData, LegacyEvent
from fastprof.importers.perfetto_legacy import add_legacy_event, legacy_flow, legacy_thread
from fastprof.importers.perfetto_rows import EventRows, TrackEvent
from fastprof.importers.perfetto_sequence import Sequence, SourceLocation, location
from fastprof.importers.protobuf import by_number, message, numbers, real, signed, text, whole

__all__ = ["TrackEvents"]

_MONOTONIC = 3
_NOWHERE: SourceLocation = ("", "", 0)
_UNDERSTOOD = frozenset(value for name, value in vars(Event).items() if not name.startswith("_"))
_REPEATED = frozenset(
    {
        Event.CATEGORY_IIDS,
        Event.DEBUG_ANNOTATIONS,
        Event.EXTRA_COUNTER_VALUES,
        Event.CATEGORIES,
        Event.EXTRA_COUNTER_TRACK_UUIDS,
        Event.FLOW_IDS_OLD,
        Event.TERMINATING_FLOW_IDS_OLD,
        Event.EXTRA_DOUBLE_COUNTER_TRACK_UUIDS,
        Event.EXTRA_DOUBLE_COUNTER_VALUES,
        Event.FLOW_IDS,
        Event.TERMINATING_FLOW_IDS,
    }
)
_FLOWS = (
    (Event.FLOW_IDS, Event.FLOW_IDS_OLD, FlowStep.PASS),
    (Event.TERMINATING_FLOW_IDS, Event.TERMINATING_FLOW_IDS_OLD, FlowStep.END),
)
_SESSION = "fastprof session"


class TrackEvents:
    """Decoder of track events. `facts`, `metadata`: what fastprof's writer adds to a trace."""

    def __init__(self, target: EventRows, clocks: Clocks) -> None:
        self.target = target
        self.clocks = clocks
        self.facts: dict[str, int] = {}
        self.metadata: dict[str, Any] = {}
        self.rows = 0  # of all sessions in the trace
        self.closing_packets = 0  # that these announce

    def add(self, sequence: Sequence, data: bytes, time_ns: int | None) -> None:
        """Decode one event. time_ns: its packet's."""
        target = self.target
        found = by_number(data, _REPEATED)
        if not found.keys() <= _UNDERSTOOD:
            for number in found.keys() - _UNDERSTOOD:
                target.skipped[f"TrackEvent field {number}"] += 1
        kind = whole(found.get(Event.TYPE, 0))
        time_ns = self._time_ns(sequence, found, time_ns)
        if time_ns is None:
            return
        legacy = (
            by_number(message(found[Event.LEGACY_EVENT])) if Event.LEGACY_EVENT in found else {}
        )
        if kind == EventType.COUNTER and LegacyEvent.PHASE not in legacy:
            self._counter(sequence, found, time_ns)
            return
        event = TrackEvent(time_ns, size_bytes=32 * len(data))
        event.name = self._name(sequence, found, legacy)
        event.category = self._category(sequence, found)
        thread = self._set_track(sequence, found, legacy, event)
        self._details(sequence, found, event)
        if legacy:
            event.flows += legacy_flow(target, legacy)
        self._extra_counters(sequence, found, event)
        if LegacyEvent.PHASE in legacy:
            add_legacy_event(target, legacy, event, thread)
        elif kind == EventType.SLICE_BEGIN:
            target.begin(event)
        elif kind == EventType.SLICE_END:
            target.end(event)
        elif kind == EventType.INSTANT:
            self._instant(event)
        else:
            target.skipped[f"TrackEvent of type {kind}"] += 1

    def _time_ns(
        self, sequence: Sequence, found: dict[int, Any], packet_ns: int | None
    ) -> int | None:
        """Return the time of an event; None if unknown. Older traces use us of CLOCK_MONOTONIC."""
        if Event.TIMESTAMP_DELTA_US in found:
            if sequence.now_ns is None:
                self.target.skipped["time since a thread descriptor that is missing"] += 1
                return None
            sequence.now_ns += signed(found[Event.TIMESTAMP_DELTA_US]) * 1000
            time_ns = sequence.now_ns
        elif found.get(Event.TIMESTAMP_ABSOLUTE_US):
            time_ns = signed(found[Event.TIMESTAMP_ABSOLUTE_US]) * 1000
        else:
            if packet_ns is None:
                self.target.skipped["event without a timestamp"] += 1
            return packet_ns
        converted = self.clocks.at(_MONOTONIC, time_ns)
        return time_ns if converted is None else converted

    def _name(self, sequence: Sequence, found: dict[int, Any], legacy: dict[int, Any]) -> str:
        iid = whole(found.get(Event.NAME_IID, 0)) or whole(legacy.get(LegacyEvent.NAME_IID, 0))
        if not iid:
            return text(found.get(Event.NAME, b""))
        return sequence.interned(InternedData.EVENT_NAMES, iid, self.target.skipped) or ""

    def _category(self, sequence: Sequence, found: dict[int, Any]) -> str:
        names = []
        for iid in numbers(found.get(Event.CATEGORY_IIDS, [])):
            name = sequence.interned(InternedData.EVENT_CATEGORIES, iid, self.target.skipped)
            if name is not None:
                names.append(name)
        if Event.CATEGORIES in found:
            names += [text(category) for category in found[Event.CATEGORIES]]
        return names[0] if len(names) == 1 else ",".join(names)

    def _set_track(
        self, sequence: Sequence, found: dict[int, Any], legacy: dict[int, Any], event: TrackEvent
    ) -> tuple[int, int]:
        """Set the event's track: by uuid, else its sequence's thread. Return that thread's (pid, tid)."""
        tracks = self.target.tracks
        uuid = whole(found.get(Event.TRACK_UUID, sequence.track_uuid or 0))
        if uuid:
            event.key, event.track = uuid, tracks.index(uuid, event.name)
            known = tracks.known.get(uuid)
            return (known.pid or 0, known.tid) if known is not None else (0, 0)
        thread = legacy_thread(legacy, sequence.pid, sequence.tid) if legacy else None
        # An explicit track_uuid of 0 means the default track.
        explicit = Event.TRACK_UUID in found and Event.TYPE in found
        if thread is None and sequence.tid and not explicit:
            thread = (sequence.pid, sequence.tid)
        if thread is None:
            event.key, event.track = 0, tracks.index(0)
            return 0, 0
        event.key, event.track = ("thread", *thread), tracks.thread(*thread)
        return thread

    def _details(self, sequence: Sequence, found: dict[int, Any], event: TrackEvent) -> None:
        """Decode args, source location and flows."""
        for entry in found.get(Event.DEBUG_ANNOTATIONS, ()):
            name, value = annotation(sequence, message(entry), self.target.skipped)
            event.args[name] = value
        if Event.SOURCE_LOCATION_IID in found:
            iid = whole(found[Event.SOURCE_LOCATION_IID])
            event.source = sequence.locations.get(iid, _NOWHERE)
        elif Event.SOURCE_LOCATION in found:
            event.source = location(by_number(message(found[Event.SOURCE_LOCATION])))
        for new, old, step in _FLOWS:
            values = found.get(new, found.get(old))
            if values is not None:
                event.flows += [(step, flow) for flow in numbers(values)]
        if self.target.is_own:
            spliced = event.args.pop("metadata", None)
            if isinstance(spliced, dict):
                event.args.update(spliced)
            elif spliced is not None:
                event.args["metadata"] = spliced

    def _instant(self, event: TrackEvent) -> None:
        if event.name == _SESSION and type(event.args.get("session_start_ns")) is int:
            self.facts = {key: value for key, value in event.args.items() if type(value) is int}
            if isinstance(described := event.args.get("session_metadata"), dict):
                self.metadata = (
                    described | self.metadata
                )  # the first trace's, if several were joined
            self.target.is_own = True
            self.rows += self.facts.get("rows", 0)
            self.closing_packets += self.facts.get("closing_packets", 0)
            return
        self.target.instant(event)

    def _counter(self, sequence: Sequence, found: dict[int, Any], time_ns: int) -> None:
        target = self.target
        uuid = whole(found.get(Event.TRACK_UUID, sequence.track_uuid or 0))
        value: float
        if Event.COUNTER_VALUE in found:
            value = signed(found[Event.COUNTER_VALUE])
        elif Event.DOUBLE_COUNTER_VALUE in found:
            value = real(found[Event.DOUBLE_COUNTER_VALUE])
        else:
            target.skipped["counter without a value"] += 1
            return
        if Event.DEBUG_ANNOTATIONS in found:
            target.skipped["args of a counter"] += 1
        # A counter has its own track; the thread that set it is the sequence's default track.
        thread = sequence.track_uuid
        track = target.tracks.index(thread) if thread and thread != uuid else None
        target.track_counter(uuid, track, time_ns, value)

    def _extra_counters(self, sequence: Sequence, found: dict[int, Any], event: TrackEvent) -> None:
        """Add the values of counters that were read at the event."""
        values: list[tuple[float, int]] = []
        for numbers_field, uuids_field, default in (
            (Event.EXTRA_COUNTER_VALUES, Event.EXTRA_COUNTER_TRACK_UUIDS, sequence.counters),
            (
                Event.EXTRA_DOUBLE_COUNTER_VALUES,
                Event.EXTRA_DOUBLE_COUNTER_TRACK_UUIDS,
                sequence.double_counters,
            ),
        ):
            if numbers_field not in found:
                continue
            convert = signed if numbers_field == Event.EXTRA_COUNTER_VALUES else real
            read = [convert(value) for value in numbers(found[numbers_field])]
            uuids = numbers(found[uuids_field]) if uuids_field in found else default
            if len(read) > len(uuids):
                self.target.skipped["value without a counter"] += len(read) - len(uuids)
            values += zip(read, uuids, strict=False)
        for value, uuid in values:
            self.target.track_counter(uuid, event.track, event.time_ns, value)
