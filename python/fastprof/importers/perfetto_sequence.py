# SPDX-License-Identifier: Apache-2.0
"""Sequence: incremental state of one packet sequence: interned texts, defaults, the thread of older traces.

Packets refer to state from earlier packets of the sequence, until the writer clears it. After a lost
packet the state is invalid until it is cleared again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fastprof.importers.perfetto_fields import (
    Defaults,
    EventDefaults,
    Interned,
    InternedData,
    Location,
    Thread,
)
from fastprof.importers.protobuf import by_number, fields, message, numbers, signed, text, whole

if TYPE_CHECKING:
    from fastprof.importers.perfetto_native import NativeState

__all__ = ["Sequence", "SourceLocation", "location"]

SourceLocation = tuple[str, str, int]  # file, function, line

# In the order of trace_proto::TextKind.
_TEXTS = (
    InternedData.EVENT_CATEGORIES,
    InternedData.EVENT_NAMES,
    InternedData.DEBUG_ANNOTATION_NAMES,
    InternedData.DEBUG_ANNOTATION_STRING_VALUES,
)
_COUNTERS = frozenset(
    {EventDefaults.EXTRA_COUNTER_TRACK_UUIDS, EventDefaults.EXTRA_DOUBLE_COUNTER_TRACK_UUIDS}
)


class Sequence:
    """The state that packets of one sequence refer to."""

    __slots__ = (
        "clock",
        "counters",
        "double_counters",
        "id",
        "is_valid",
        "locations",
        "now_ns",
        "pid",
        "shared",
        "texts",
        "tid",
        "track_uuid",
    )

    def __init__(self, sequence_id: int, shared: NativeState) -> None:
        """shared: the state of the native scanner, which receives the texts and locations."""
        self.id = sequence_id
        self.shared = shared
        self.is_valid = False  # the state was cleared, and no packet has been lost since
        self.pid = 0  # from the last thread descriptor
        self.tid = 0
        self._forget()

    def _forget(self) -> None:
        self.clock = 0
        self.track_uuid: int | None = None
        self.counters: list[int] = []
        self.double_counters: list[int] = []
        self.now_ns: int | None = None  # base of timestamp_delta_us
        self.texts: dict[int, dict[int, str]] = {number: {} for number in _TEXTS}
        self.locations: dict[int, SourceLocation] = {}
        self.shared.scanner.forget_texts(self.id)

    def interned(self, kind: int, iid: int, skipped: Counter[str]) -> str | None:
        """Return an interned text of `kind` (InternedData); None, counted in `skipped`, if unknown."""
        found = self.texts[kind].get(iid)
        if found is None:
            skipped["text that is not interned"] += 1
        return found

    def clear(self) -> None:
        """Discard all state, as requested by the writer, and become valid."""
        self._forget()
        self.is_valid = True

    def lose(self) -> None:
        """Mark the state as invalid because packets were lost."""
        self.is_valid = False
        self.now_ns = None

    def set_defaults(self, data: bytes) -> None:
        """Apply TracePacketDefaults, which replace all earlier ones."""
        found = by_number(data)
        self.clock = whole(found.get(Defaults.TIMESTAMP_CLOCK_ID, 0))
        events = by_number(message(found.get(Defaults.TRACK_EVENT_DEFAULTS, b"")), _COUNTERS)
        uuid = events.get(EventDefaults.TRACK_UUID)
        self.track_uuid = None if uuid is None else whole(uuid)
        self.counters = numbers(events.get(EventDefaults.EXTRA_COUNTER_TRACK_UUIDS, []))
        self.double_counters = numbers(
            events.get(EventDefaults.EXTRA_DOUBLE_COUNTER_TRACK_UUIDS, [])
        )

    def intern(self, data: bytes, skipped: Counter[str]) -> None:
        """Add InternedData; unsupported kinds of entries are counted in `skipped`."""
        for number, value in fields(data):
            table = self.texts.get(number)
            if table is not None:
                entry = by_number(message(value))
                iid = whole(entry.get(Interned.IID, 0))
                name = table[iid] = text(entry.get(Interned.NAME, b""))
                self.shared.scanner.intern(self.id, _TEXTS.index(number), iid, name)
            elif number == InternedData.SOURCE_LOCATIONS:
                entry = by_number(message(value))
                iid = whole(entry.get(Location.IID, 0))
                place = self.locations[iid] = location(entry)
                self.shared.set_location(self.id, iid, place)
            else:
                skipped[f"InternedData field {number}"] += 1

    def set_thread(self, entry: dict[int, Any]) -> None:
        """Apply a ThreadDescriptor: the thread and time base of events without a track."""
        self.pid = signed(entry.get(Thread.PID, 0))
        self.tid = signed(entry.get(Thread.TID, 0))
        self.now_ns = signed(entry.get(Thread.REFERENCE_TIMESTAMP_US, 0)) * 1000


def location(entry: dict[int, Any]) -> SourceLocation:
    """Return (file, function, line) of a decoded SourceLocation."""
    return (
        text(entry.get(Location.FILE_NAME, b"")),
        text(entry.get(Location.FUNCTION_NAME, b"")),
        whole(entry.get(Location.LINE_NUMBER, 0)),
    )
