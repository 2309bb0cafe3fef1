# SPDX-License-Identifier: Apache-2.0
"""load() of Perfetto traces that other programs wrote: every row as listed, what is not read counted and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perfetto_encoder import encode, encode_trace, varint
from perfetto_scenario import (
    BEGIN,
    COUNTER,
    DEFAULTS,
    END,
    INSTANT,
    NEEDED,
    THREAD,
    clocks,
    event,
    state,
    track,
)
from perfetto_scenarios import SCENARIOS
from perfetto_tables import args_of, counters, flows, load, slices

from fastprof import errors
from fastprof.cli.main import main
from fastprof.importers import perfetto_fields as pf
from fastprof.importers import perfetto_packets
from fastprof.importers.perfetto_clocks import Clocks
from fastprof.model.table import EventKind


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_row_of_a_trace_of_others(tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]
    table = load(tmp_path, encode_trace(scenario.packets))
    assert sorted(slices(table)) == sorted(scenario.slices)
    assert sorted(counters(table)) == sorted(scenario.counters)
    assert sorted(flows(table)) == sorted(scenario.flows)
    assert table.metadata.get("skipped_packets", {}) == scenario.skipped_packets
    assert table.metadata.get("skipped_events", {}) == scenario.skipped_events
    if scenario.args:
        assert args_of(table, "args") == scenario.args
    for slice_name, thread in scenario.threads.items():
        tracks = {
            table.tracks[int(table.column("track")[row])][1:4]
            for row in range(len(table))
            if table.name(row) == slice_name
        }
        assert tracks == {thread}, slice_name


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_quick_way_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    data = encode_trace(SCENARIOS[name].packets)
    quick = load(tmp_path, data)
    monkeypatch.setattr(perfetto_packets, "_MOST_KNOWN", 0)
    plain = load(tmp_path, data)
    assert (slices(quick), counters(quick), quick.metadata) == (
        slices(plain), counters(plain), plain.metadata,
    )  # fmt: skip
    assert list(quick.tracks) == list(plain.tracks) and list(quick.sites) == list(plain.sites)
    columns, others = quick.to_dict(), plain.to_dict()
    assert {name: values.tolist() for name, values in columns.items()} == {
        name: values.tolist() for name, values in others.items()
    }


def test_an_event_that_repeats_and_never_ends_is_unfinished(tmp_path: Path) -> None:
    repeated = [event(ns, BEGIN, "a", track_uuid=1) for ns in (5, 6, 7)]
    table = load(tmp_path, encode_trace([track(1, **THREAD), *repeated]))
    assert table.column("flags").tolist() == [0, 0, 0] and table.unfinished == 3


def test_a_range_of_a_sequences_thread_ends_whoever_decodes_its_begin(tmp_path: Path) -> None:
    """Plain events are read by the scanner, those with annotations are not."""
    annotated = {
        "debug_annotations": [{"name": "x", "dict_entries": [{"name": "y", "int_value": 1}]}]
    }
    packets = [state(thread_descriptor={"pid": 7, "tid": 71})]
    for i, (begin, end) in enumerate([({}, {}), (annotated, {}), ({}, annotated), ({}, {})]):
        packets.append(event(10 * i + 1, BEGIN, f"r{i}", sequence_flags=NEEDED, **begin))
        packets.append(event(10 * i + 6, END, sequence_flags=NEEDED, **end))
    table = load(tmp_path, encode_trace(packets))
    assert table.unfinished == 0 and "skipped_events" not in table.metadata
    found = table.column("end_ns") - table.column("start_ns")
    assert found.tolist() == [5] * 4


def test_what_was_remembered_is_forgotten_when_its_meaning_changes(tmp_path: Path) -> None:
    """Packets that differ only in their timestamp get another name, track or clock after a change of state."""
    begin = event(0, BEGIN, sequence_flags=NEEDED, name_iid=1)["track_event"]

    def pair(ns: int) -> list[dict[Any, Any]]:
        packet = {"trusted_packet_sequence_id": 1, "sequence_flags": NEEDED, "track_event": begin}
        return [
            {"timestamp": ns, **packet},
            event(ns + 1, END, sequence_flags=NEEDED),
            {"timestamp": ns + 2, **packet},
            event(ns + 4, END, sequence_flags=NEEDED),
        ]

    def names(name: str) -> dict[str, Any]:
        return {"interned_data": {"event_names": [{"iid": 1, "name": name}]}}

    packets = [
        state(**names("one"), **DEFAULTS),
        track(5, **THREAD),
        track(6, thread={"pid": 7, "tid": 72, "thread_name": "second"}),
        *pair(100),
        {"trusted_packet_sequence_id": 1, **names("two")},
        *pair(200),
        {
            "trusted_packet_sequence_id": 1,
            "trace_packet_defaults": {"track_event_defaults": {"track_uuid": 6}},
        },
        *pair(300),
        clocks((6, 10_000), (64, 400)),
        {
            "trusted_packet_sequence_id": 1,
            "trace_packet_defaults": {
                "timestamp_clock_id": 64,
                "track_event_defaults": {"track_uuid": 6},
            },
        },
        *pair(400),
        clocks((6, 20_000), (64, 500)),
        *pair(500),
        state(**names("three"), **DEFAULTS),
        *pair(600),
        event(700, END, sequence_flags=NEEDED, previous_packet_dropped=True),
        *pair(710),
    ]
    table = load(tmp_path, encode_trace(packets))
    assert [(ns, duration, name) for ns, duration, name, _ in slices(table)] == [
        (100, 1, "one"), (102, 2, "one"), (200, 1, "two"), (202, 2, "two"), (300, 1, "two"), (302, 2, "two"),
        (10_000, 1, "two"), (10_002, 2, "two"), (20_000, 1, "two"), (20_002, 2, "two"), (600, 1, "three"),
        (602, 2, "three"),
    ]  # fmt: skip
    assert [table.tracks[t].tid for t in table.column("track").tolist()] == [
        *[71] * 4,
        *[72] * 6,
        *[71] * 2,
    ]
    assert table.metadata["skipped_packets"] == {
        "lost before they were written": 1,
        "needs state that was lost or not yet cleared": 5,
    }


def test_an_end_in_another_sequence_and_of_a_track_that_nobody_described(tmp_path: Path) -> None:
    table = load(
        tmp_path,
        encode_trace([event(5, BEGIN, "a", track_uuid=9), event(8, END, seq=2, track_uuid=9)]),
    )
    assert slices(table) == [(5, 3, "a", "")]
    assert table.tracks[0][1:4] == (
        0,
        0,
        "a",
    )  # a track without a name gets that of its first event


def test_a_descriptor_may_follow_its_events_and_a_ring_of_parents_ends(tmp_path: Path) -> None:
    packets = [
        event(5, INSTANT, "a", track_uuid=9),
        track(9, parent_uuid=10, name="ring"),
        track(10, parent_uuid=9, name="other"),
        event(6, INSTANT, "b", track_uuid=11),
        track(11, **THREAD),
    ]
    table = load(tmp_path, encode_trace(packets))
    assert [t[1:4] for t in table.tracks] == [(0, 0, "ring"), (7, 71, "worker")]
    assert (table.pid, table.t0_ns, table.t1_ns) == (7, 5, 6)


def test_the_process_of_the_trace(tmp_path: Path) -> None:
    named = track(1, process={"pid": 8, "cmdline": ["/bin/server", "--port"]})
    old = {"process_descriptor": {"pid": 8, "process_name": "old"}}
    for packets, expected in (
        ([named], (8, "/bin/server")),
        ([track(1, process={"pid": 8}), old], (8, "old")),
        ([old, track(3, **THREAD)], (8, "old")),
        ([track(3, **THREAD)], (7, "")),
        ([state(thread_descriptor={"pid": 9, "tid": 1}), event(1, INSTANT, "x")], (9, "")),
    ):
        table = load(tmp_path, encode_trace([*packets, event(5, INSTANT, "a")]))
        assert (table.pid, table.process_name) == expected


def test_a_snapshot_after_the_events_of_its_clock(tmp_path: Path) -> None:
    packets = [
        state(),
        track(5, **THREAD),
        event(100, BEGIN, "early", track_uuid=5, timestamp_clock_id=3),
        event(120, END, track_uuid=5, timestamp_clock_id=3),
        event(130, BEGIN, "early", track_uuid=5, timestamp_clock_id=3),
        event(140, END, track_uuid=5, timestamp_clock_id=3),
        clocks((6, 5000), (3, 90)),
        event(150, INSTANT, "late", track_uuid=5, timestamp_clock_id=3),
    ]
    table = load(tmp_path, encode_trace(packets))
    assert slices(table) == [
        (5010, 20, "early", ""),
        (5040, 10, "early", ""),
        (5060, 0, "late", ""),
    ]
    assert "skipped_packets" not in table.metadata


def test_snapshots_that_contradict_and_clocks_that_are_set_back(tmp_path: Path) -> None:
    packets = [
        state(),
        clocks((6, 1000), (70, 10), unit_multiplier_ns=10),
        clocks((6, 2000), (70, 10), unit_multiplier_ns=20),  # in another unit
        clocks((6, 3000), (6, 10)),  # one clock twice
        event(11, INSTANT, "a", timestamp_clock_id=70),
        clocks((6, 4000), (1, 900)),
        clocks((6, 5000), (1, 100)),  # the wall clock was set back: times on it have no meaning
        event(950, INSTANT, "b", timestamp_clock_id=1),
    ]
    table = load(tmp_path, encode_trace(packets))
    assert slices(table) == [(1010, 0, "a", "")]
    assert table.metadata["skipped_packets"] == {
        "clock snapshot that contradicts another": 2,
        "time of clock 1, which no snapshot relates": 1,
    }
    with pytest.raises(
        errors.FormatError, match="packet 0 at offset 0: a clock snapshot has 65 clocks"
    ):
        load(tmp_path, encode_trace([clocks(*((128 + i, i) for i in range(65)))]))


def test_unknown_packets_and_fields_are_counted_by_what_they_are(tmp_path: Path) -> None:
    packets = [
        {"ftrace_events": b"\x08\x01"},
        {"ftrace_events": b""},
        {777: b"x", "trusted_packet_sequence_id": 1},
        {"trace_config": b""},
        state(interned_data={99: b"", "event_names": [{"iid": 1, "name": "n"}]}),
        event(
            5,
            INSTANT,
            track_uuid=3,
            name_iid=1,
            sequence_flags=NEEDED,
            debug_annotations=[{"name": "p", 14: b"proto"}],
        ),
    ]
    packets[-1]["track_event"][21] = b"log"
    packets[-1][888] = 1
    table = load(tmp_path, encode_trace(packets))
    assert slices(table) == [(5, 0, "n", "")]
    assert args_of(table, "n") == {"p": None}
    assert table.metadata["skipped_packets"] == {
        "ftrace_events": 2, "packet field 777": 1, "trace_config": 1, "packet field 888": 1,
    }  # fmt: skip
    assert table.metadata["skipped_events"] == {
        "InternedData field 99": 1, "TrackEvent field 21": 1, "DebugAnnotation field 14": 1,
    }  # fmt: skip


def test_the_report_tells_what_was_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = [
        {"ftrace_events": b""},
        {"ftrace_events": b""},
        event(5, END),
        event(9, INSTANT, "a"),
    ]
    path = tmp_path / "t.pftrace"
    path.write_bytes(encode_trace(packets))
    assert main(["report", str(path)]) == 0
    assert "\nnot read: ftrace_events (2), end without begin (1)\n" in capsys.readouterr().out
    path.write_bytes(encode_trace([*packets, *({number: b""} for number in range(200, 209))]))
    assert main(["report", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "packet field 206 (1), 3 other kinds\n" in shown and "field 207" not in shown
    path.write_bytes(encode_trace([event(9, INSTANT, "a")]))
    assert main(["report", str(path)]) == 0
    assert "not read" not in capsys.readouterr().out


def test_packed_numbers_are_read_like_single_ones(tmp_path: Path) -> None:
    packet = event(5, BEGIN, "a", track_uuid=3)
    packet["track_event"][36] = varint(7) + varint(300)  # flow_ids_old, packed
    packets = [packet, event(6, INSTANT, "b", track_uuid=4, terminating_flow_ids=[7, 300])]
    assert flows(load(tmp_path, encode_trace(packets))) == [("a", "b"), ("a", "b")]


def test_devices_of_memory_records_stay_within_their_columns(tmp_path: Path) -> None:
    def record(kind: int, index: int) -> dict[Any, Any]:
        values = {"Addr": 1, "Bytes": 2, "Device Type": kind, "Device Id": index}
        annotations = [{"name": n, "int_value": v} for n, v in values.items()]
        return event(5, INSTANT, "[memory]", debug_annotations=annotations)

    for given, kept in (((1, 2), (1, 2)), ((20, 32767), (20, 32767)), ((20, 32768), (20, 32767)),
                        ((0, -1), (0, -1)), ((0, -2), (0, -1))):  # fmt: skip
        table = load(tmp_path, encode_trace([track(5, **THREAD), record(*given)]))
        (site,) = table.sites
        assert (site.device_type, site.device_index) == kept
        assert table.column("kind").tolist() == [EventKind.MEMORY]


def test_an_event_without_a_track_is_on_none_of_the_described_ones(tmp_path: Path) -> None:
    packets = [track(1, **THREAD), event(5, INSTANT, "here", track_uuid=1)]
    table = load(tmp_path, encode_trace([*packets, event(6, INSTANT, "a", track_uuid=0, seq=2)]))
    rows = range(len(table))
    tracks = {table.name(row): table.tracks[int(table.column("track")[row])] for row in rows}
    assert tracks["here"][1:4] == (7, 71, "worker") and tracks["a"][1:3] == (0, 0)


def test_annotations_of_chromes_json(tmp_path: Path) -> None:
    given = {"good": '{"a": [1]}', "text": "no JSON", "deep": "[" * 100_000}
    annotations = [{"name": n, "legacy_json_value": text} for n, text in given.items()]
    table = load(tmp_path, encode_trace([event(5, INSTANT, "args", debug_annotations=annotations)]))
    assert args_of(table, "args") == given | {"good": {"a": [1]}}


def test_an_end_that_is_written_late_closes_what_was_open_at_its_time(tmp_path: Path) -> None:
    packets = [
        track(5, **THREAD),
        event(10, BEGIN, "first", track_uuid=5),
        event(30, BEGIN, "second", track_uuid=5),
        event(20, END, track_uuid=5),
    ]
    table = load(tmp_path, encode_trace(packets))
    assert slices(table) == [(10, 10, "first", ""), (30, -1, "second", "")]


def test_a_begin_that_is_written_late_is_below_what_began_before_it(tmp_path: Path) -> None:
    packets = [
        track(5, **THREAD),
        event(30, BEGIN, "later", track_uuid=5),
        event(10, BEGIN, "earlier", track_uuid=5),
        event(35, END, track_uuid=5),
    ]
    table = load(tmp_path, encode_trace(packets))
    assert sorted(slices(table)) == [(10, -1, "earlier", ""), (30, 5, "later", "")]


def test_counters_that_only_have_a_type_are_named_by_it(tmp_path: Path) -> None:
    given = {1: "thread_time", 2: "thread_instruction_count"}  # CounterDescriptor.BuiltinType
    packets = [track(10 + kind, parent_uuid=1, counter={"type": kind}) for kind in given]
    packets += [event(kind, COUNTER, track_uuid=10 + kind, counter_value=5) for kind in given]
    table = load(tmp_path, encode_trace([track(1, **THREAD), *packets]))
    assert [name for _, name, _ in counters(table)] == list(given.values())


def test_a_trace_without_events_is_of_no_duration(tmp_path: Path) -> None:
    table = load(tmp_path, encode_trace([track(1, **THREAD)]))
    assert (len(table), table.t0_ns, table.t1_ns) == (0, 0, 0)


def test_packets_that_begin_in_one_piece_and_end_in_the_next(tmp_path: Path) -> None:
    """A file is read in pieces of a few MB."""
    text = "t" * 1_500_000
    packets = [
        event(i, INSTANT, f"e{i}", debug_annotations=[{"name": "text", "string_value": text}])
        for i in range(8)
    ]
    table = load(tmp_path, encode_trace(packets))
    assert [table.name(row) for row in range(len(table))] == [f"e{i}" for i in range(8)]
    assert all(args_of(table, f"e{i}") == {"text": text} for i in range(8))


def test_a_trace_in_the_order_of_time_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []

    class Counted(perfetto_packets.PacketReader):
        def __init__(self, *args: Any, **more: Any) -> None:
            made.append(True)
            super().__init__(*args, **more)

    monkeypatch.setattr("fastprof.importers.perfetto_trace.PacketReader", Counted)
    ordered = [track(1, **THREAD), event(5, BEGIN, "a", track_uuid=1), event(6, END, track_uuid=1)]
    assert len(load(tmp_path, encode_trace(ordered))) == 1 and len(made) == 1
    late = [event(7, BEGIN, "b", track_uuid=1), event(4, BEGIN, "early", track_uuid=1)]
    assert len(load(tmp_path, encode_trace([*ordered, *late]))) == 3 and len(made) == 3


def test_counters_beyond_64_bits_are_floats(tmp_path: Path) -> None:
    """A unit can make a number of 64 bits larger than that."""
    edge = 1 << 62
    packets = [
        track(1, name="times two", counter={"unit_multiplier": 2}),
        *(
            event(at, COUNTER, track_uuid=1, counter_value=value)
            for at, value in enumerate((edge - 1, edge, -edge, -edge - 1), 1)
        ),
    ]
    found = counters(load(tmp_path, encode_trace(packets)))
    assert found == [
        (1, "times two", 2 * edge - 2), (2, "times two", float(2 * edge)), (3, "times two", -2 * edge),
        (4, "times two", float(-2 * edge - 2)),
    ]  # fmt: skip
    assert [type(value) for _, _, value in found] == [int, float, int, float]


@pytest.mark.parametrize(
    ("reading", "unit_ns", "simple"),
    [
        (1 << 62, 1, True), ((1 << 63) - 1, 1, True), (1 << 62, 2, False), ((1 << 62) - 1, 2, True),
        (-(1 << 62), 2, True), (-(1 << 62) - 1, 2, False), (0, (1 << 63) - 1, True), (0, 1 << 63, False),
    ],
)  # fmt: skip
def test_times_of_64_bits_are_converted_natively(reading: int, unit_ns: int, simple: bool) -> None:
    """What is not a number of 64 bits in ns is left to Python, whose numbers are of any size."""
    clock = {
        "clock_id": 64,
        "timestamp": reading,
        "unit_multiplier_ns": unit_ns,
        "is_incremental": True,
    }
    found = Clocks()
    found.trace_clock = key = Clocks.key(1, 64)
    found.add_snapshot(1, encode({"clocks": clock}, pf.ClockSnapshot))
    conversion = found.conversion(key)
    edges = (-(1 << 63), (1 << 63) - 1)
    assert conversion == ((unit_ns, True, reading * unit_ns, *edges, 0) if simple else None)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"uint_value": 2**63 - 1}, 2**63 - 1),
        ({"string_value": "0x7f00ff"}, 0x7F00FF),
        ({"string_value": "ff"}, 0xFF),
        ({"string_value": "0x7fffffffffffffff"}, 2**63 - 1),  # 18 characters
        ({"string_value": "0x00000000000000001"}, 0),  # longer than any address
        ({"string_value": "xyz"}, 0),
        ({"bool_value": True}, 0),
        ({"double_value": 1.5}, 0),
    ],
)
def test_addresses_of_memory_records(tmp_path: Path, given: dict[str, Any], address: int) -> None:
    numbers = {"Bytes": -64, "Total Allocated": 5, "Total Reserved": 9}
    annotations = [{"name": n, "int_value": v} for n, v in numbers.items()]
    annotations += [{"name": "Addr", **given}, {"name": "Allocator", "string_value": "mine"}]
    records = [
        event(5, INSTANT, name, debug_annotations=annotations)
        for name in ("[memory]", "[OutOfMemory]")
    ]
    table = load(tmp_path, encode_trace(records))
    words, at = table.payload_words, table.column("payload")
    assert words is not None
    assert table.column("kind").tolist() == [EventKind.MEMORY, EventKind.OUT_OF_MEMORY]
    assert words[at[0] : at[0] + 4].view(np.int64).tolist() == [address, -64, 5, 9]
    assert words[at[1] : at[1] + 3].view(np.int64).tolist() == [-64, 5, 9]
    assert [site.function for site in table.sites] == ["mine", "mine"]


def test_a_memory_record_without_its_size_is_a_mark(tmp_path: Path) -> None:
    for value in ({"string_value": "64"}, {"double_value": 64.0}):
        annotations = [{"name": "Bytes", **value}]
        table = load(
            tmp_path, encode_trace([event(5, INSTANT, "[memory]", debug_annotations=annotations)])
        )
        assert table.column("kind").tolist() == [EventKind.MARK]


def test_times_of_older_traces_are_those_of_the_monotonic_clock(tmp_path: Path) -> None:
    """Before a snapshot relates that clock to the trace's, they are taken as they are."""
    packets = [
        state(thread_descriptor={"pid": 7, "tid": 71, "reference_timestamp_us": 1}),
        event(None, INSTANT, "delta", sequence_flags=NEEDED, timestamp_delta_us=2),
        event(None, INSTANT, "absolute", sequence_flags=NEEDED, timestamp_absolute_us=20),
    ]
    assert slices(load(tmp_path, encode_trace(packets))) == [
        (3000, 0, "delta", ""), (20_000, 0, "absolute", ""),
    ]  # fmt: skip
    related = [clocks((6, 1_000_000), (3, 5)), *packets]
    assert slices(load(tmp_path, encode_trace(related))) == [
        (1_002_995, 0, "delta", ""), (1_019_995, 0, "absolute", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["first"], "first"),
        ([""], ""),
        (["", "late"], "late"),
        (["first", ""], "first"),  # a descriptor without a name keeps the name
        (["first", "second"], "second"),
    ],
)
def test_names_of_processes_of_older_traces(
    tmp_path: Path, names: list[str], expected: str
) -> None:
    packets = [
        {
            "trusted_packet_sequence_id": 1,
            "process_descriptor": {"pid": 7, **({"process_name": n} if n else {})},
        }
        for n in names
    ]
    table = load(tmp_path, encode_trace([*packets, event(5, INSTANT, "a")]))
    assert (table.pid, table.process_name) == (7, expected)
