# SPDX-License-Identifier: Apache-2.0
"""Helpers that describe Perfetto traces for tests: packets, by name, and the expected rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Packet = dict[Any, Any]
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED, NEEDED = 1, 2  # sequence flags
REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6


@dataclass
class Scenario:
    """Packets of one trace. slices: (ns, duration, name, category), duration -1: no end, 0 for instants."""

    packets: list[Packet]
    slices: list[tuple[int, int, str, str]] = field(default_factory=list)
    counters: list[tuple[int, str, float]] = field(default_factory=list)
    flows: list[tuple[str, str]] = field(default_factory=list)
    args: dict[str, Any] = field(default_factory=dict)  # of the slice that is called "args"
    threads: dict[str, tuple[int, int, str]] = field(
        default_factory=dict
    )  # of a slice: pid, tid, name
    skipped_packets: dict[str, int] = field(default_factory=dict)
    skipped_events: dict[str, int] = field(default_factory=dict)
    oracle: bool = True  # Perfetto's trace processor says the same


def event(ns: int | None, kind: int = 0, name: str = "", seq: int = 1, **more: Any) -> Packet:
    """Return a packet with a track event. more: fields of the event, except the three that belong to the packet."""
    packet: Packet = {} if ns is None else {"timestamp": ns}
    if seq:
        packet["trusted_packet_sequence_id"] = seq
    for name_of in ("sequence_flags", "timestamp_clock_id", "previous_packet_dropped"):
        if name_of in more:
            packet[name_of] = more.pop(name_of)
    body: Packet = dict(more)
    if kind:
        body["type"] = kind
    if name:
        body["name"] = name
    packet["track_event"] = body
    return packet


def legacy(ns: int, phase: str, name: str = "", **more: Any) -> Packet:
    """Return an event with a legacy_event of this phase of Chrome's format. more: its fields, then the event's."""
    fields = {"phase": ord(phase)}
    for key in (
        "duration_us", "unscoped_id", "local_id", "global_id", "id_scope", "bind_id", "flow_direction", "name_iid",
        "pid_override", "tid_override", "bind_to_enclosing", "instant_event_scope",
    ):  # fmt: skip
        if key in more:
            fields[key] = more.pop(key)
    return event(ns, 0, name, legacy_event=fields, **more)


def state(seq: int = 1, **more: Any) -> Packet:
    return {"trusted_packet_sequence_id": seq, "sequence_flags": CLEARED, **more}


def track(uuid: int, seq: int = 1, **more: Any) -> Packet:
    return {"trusted_packet_sequence_id": seq, "track_descriptor": {"uuid": uuid, **more}}


THREAD = {"thread": {"pid": 7, "tid": 71, "thread_name": "worker"}}
DEFAULTS = {"trace_packet_defaults": {"track_event_defaults": {"track_uuid": 5}}}
NAMES = {
    "interned_data": {
        "event_categories": [{"iid": 1, "name": "io"}],
        "event_names": [{"iid": 1, "name": "read"}, {"iid": 2, "name": "write"}],
    }
}


def clocks(*readings: tuple[int, int], seq: int = 1, primary: int = 0, **more: Any) -> Packet:
    """A clock snapshot of (clock, reading); more: fields of the last clock."""
    entries: list[Packet] = [{"clock_id": clock, "timestamp": ns} for clock, ns in readings]
    entries[-1].update(more)
    snapshot: Packet = {"clocks": entries}
    if primary:
        snapshot["primary_trace_clock"] = primary
    return {"trusted_packet_sequence_id": seq, "clock_snapshot": snapshot}
