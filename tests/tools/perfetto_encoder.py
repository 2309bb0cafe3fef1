# SPDX-License-Identifier: Apache-2.0
"""Encodes Perfetto packets from dictionaries with the names of Perfetto's .proto files; needs no package of Perfetto's.

`encode_trace` writes what Perfetto's own builders write for the same dictionaries, byte for byte;
tests/python/integration/test_perfetto_oracle.py compares the two.
"""

from __future__ import annotations

import struct
from typing import Any

from fastprof.importers import perfetto_fields as pf

MESSAGES: dict[str, type] = {
    "track_event": pf.Event,
    "legacy_event": pf.LegacyEvent,
    "debug_annotations": pf.Annotation,
    "dict_entries": pf.Annotation, "nested_value": pf.Nested, "dict_values": pf.Nested,
    "interned_data": pf.InternedData, "event_categories": pf.Interned, "event_names": pf.Interned,
    "debug_annotation_names": pf.Interned,
    "debug_annotation_string_values": pf.Interned,
    "source_locations": pf.Location,
    "source_location": pf.Location,
    "clock_snapshot": pf.ClockSnapshot,
    "clocks": pf.Clock,
    "trace_packet_defaults": pf.Defaults,
    "track_event_defaults": pf.EventDefaults,
    "track_descriptor": pf.TrackDescriptor,
    "process": pf.Process, "process_descriptor": pf.Process, "thread": pf.Thread,
    "thread_descriptor": pf.Thread, "counter": pf.Counter,
}  # fmt: skip
FIXED64 = {"flow_ids", "terminating_flow_ids"}


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: Any, *, fixed: bool = False) -> bytes:
    """Return an encoded field: a varint of an int or bool (fixed: fixed64), fixed64 of a float, bytes of others."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if fixed:
        return varint(number << 3 | 1) + struct.pack("<Q", value & (1 << 64) - 1)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + bytes(value)


def encode(message: dict[Any, Any], fields: type = pf.Packet) -> bytes:
    """Return an encoded message, its fields in order of their numbers. A key is a field's name, or its number."""
    out: list[tuple[int, bytes]] = []
    for name, values in message.items():
        number = name if isinstance(name, int) else _number(fields, name)
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, dict):
                inner = fields if name == "array_values" else MESSAGES[name]
                value = encode(value, inner)
            out.append((number, field(number, value, fixed=name in FIXED64)))
    return b"".join(data for _, data in sorted(out, key=lambda entry: entry[0]))


def _number(fields: type, name: str) -> int:
    if fields is pf.Interned and name == "str":
        name = "name"
    found = getattr(fields, name.upper(), None)
    if found is None and fields is pf.Packet:
        found = {known: number for number, known in pf.PACKET_NAMES.items()}[name]
    assert isinstance(found, int), (fields, name)
    return found


def encode_trace(packets: list[dict[Any, Any]]) -> bytes:
    return b"".join(field(1, encode(packet)) for packet in packets)
