# SPDX-License-Identifier: Apache-2.0
"""Counters, flows, annotations and clocks of Perfetto traces as other programs write them, and what they mean."""

from __future__ import annotations

from perfetto_scenario import (
    BEGIN,
    BOOTTIME,
    COUNTER,
    END,
    INSTANT,
    MONOTONIC,
    NEEDED,
    REALTIME,
    THREAD,
    Scenario,
    clocks,
    event,
    state,
    track,
)

VALUE_SCENARIOS: dict[str, Scenario] = {
    "counters": Scenario(
        [
            state(),
            track(20, name="int", counter={}),
            track(21, name="double", counter={}),
            track(22, name="kB", counter={"unit_multiplier": 1024}),
            track(23, name="steps", counter={"is_incremental": True, "unit_multiplier": 10}),
            event(100, COUNTER, track_uuid=20, counter_value=5),
            event(101, COUNTER, track_uuid=20, counter_value=-5),
            event(102, COUNTER, track_uuid=21, double_counter_value=0.25),
            event(103, COUNTER, track_uuid=22, counter_value=2),
            event(104, COUNTER, track_uuid=23, counter_value=3),
            event(105, COUNTER, track_uuid=23, counter_value=-1),
            event(106, COUNTER, track_uuid=23, counter_value=4),
        ],
        counters=[
            (100, "int", 5), (101, "int", -5), (102, "double", 0.25), (103, "kB", 2048), (104, "steps", 30),
            (105, "steps", 20), (106, "steps", 60),
        ],
    ),
    "incremental counters begin anew with the state": Scenario(
        [
            state(),
            track(23, name="steps", counter={"is_incremental": True}),
            event(104, COUNTER, track_uuid=23, counter_value=3),
            event(105, COUNTER, track_uuid=23, counter_value=2),
            state(),
            event(106, COUNTER, track_uuid=23, counter_value=4),
        ],
        counters=[(104, "steps", 3), (105, "steps", 5), (106, "steps", 4)],
    ),
    "counters at slices": Scenario(
        [
            state(
                trace_packet_defaults={
                    "track_event_defaults": {
                        "track_uuid": 5,
                        "extra_counter_track_uuids": [20, 22],
                        "extra_double_counter_track_uuids": [21],
                    }
                }
            ),
            track(5, **THREAD),
            track(20, parent_uuid=5, counter={"type": 1}),
            track(21, parent_uuid=5, name="load", counter={}),
            track(22, parent_uuid=5, name="other", counter={}),
            event(
                100, BEGIN, "work", extra_counter_values=[11, 12], extra_double_counter_values=[1.5]
            ),
            event(110, END, extra_counter_values=[13]),
            event(120, INSTANT, "m", extra_counter_values=[99], extra_counter_track_uuids=[22]),
        ],
        [(100, 10, "work", ""), (120, 0, "m", "")],
        counters=[
            (100, "load", 1.5), (100, "other", 12), (100, "thread_time", 11), (110, "thread_time", 13),
            (120, "other", 99),
        ],
    ),
    "counters that are none": Scenario(
        [
            state(),
            track(5, **THREAD),
            track(20, name="mine", counter={"is_incremental": True}),
            event(100, COUNTER, track_uuid=5, counter_value=5),
            event(101, COUNTER, track_uuid=20),
            event(102, COUNTER, seq=2, track_uuid=20, counter_value=1),
        ],
        counters=[(102, "mine", 1)],
        skipped_events={"value of a track that is no counter": 1, "counter without a value": 1},
    ),
    "flows": Scenario(
        [
            track(5, **THREAD),
            track(6, thread={"pid": 7, "tid": 72}),
            event(100, BEGIN, "first", track_uuid=5, flow_ids=[77, 78]),
            event(110, END, track_uuid=5),
            event(120, BEGIN, "second", track_uuid=6, flow_ids=[77]),
            event(130, END, track_uuid=6),
            event(140, INSTANT, "last", track_uuid=5, terminating_flow_ids=[77]),
            event(150, INSTANT, "other", track_uuid=5, terminating_flow_ids_old=[78]),
            event(160, INSTANT, "anew", track_uuid=5, flow_ids_old=[77]),
            event(170, INSTANT, "end", track_uuid=6, terminating_flow_ids=[77, 12]),
        ],
        [
            (100, 10, "first", ""), (120, 10, "second", ""), (140, 0, "last", ""), (150, 0, "other", ""),
            (160, 0, "anew", ""), (170, 0, "end", ""),
        ],
        flows=[("first", "second"), ("second", "last"), ("first", "other"), ("anew", "end")],
        skipped_events={"flow that ends without a begin": 1},
    ),
    "annotations": Scenario(
        [
            state(
                interned_data={
                    "debug_annotation_names": [{"iid": 1, "name": "interned"}],
                    "debug_annotation_string_values": [{"iid": 4, "str": "kept once"}],
                    "source_locations": [
                        {"iid": 3, "file_name": "a.cc", "function_name": "f", "line_number": 12}
                    ],
                }
            ),
            track(5, **THREAD),
            event(
                100, BEGIN, "args", track_uuid=5, sequence_flags=NEEDED, source_location_iid=3,
                debug_annotations=[
                    {"name_iid": 1, "bool_value": True},
                    {"name": "unsigned", "uint_value": (1 << 64) - 1},
                    {"name": "int", "int_value": -5},
                    {"name": "double", "double_value": 0.5},
                    {"name": "text", "string_value": "é"},
                    {"name": "shared", "string_value_iid": 4},
                    {"name": "pointer", "pointer_value": 0xABC},
                    {"name": "json", "legacy_json_value": '{"k": [1, 2]}'},
                    {
                        "name": "dict",
                        "dict_entries": [
                            {"name": "a", "int_value": 1},
                            {"name": "b", "dict_entries": [{"name": "c", "string_value": "deep"}]},
                        ],
                    },
                    {
                        "name": "list",
                        "array_values": [{"int_value": 1}, {"array_values": [{"int_value": 2}]}],
                    },
                    {
                        "name": "nested",
                        "nested_value": {
                            "nested_type": 1,
                            "dict_keys": ["x", "y"],
                            "dict_values": [
                                {"int_value": -1},
                                {
                                    "nested_type": 2,
                                    "array_values": [{"bool_value": True}, {"string_value": "s"}],
                                },
                            ],
                        },
                    },
                ],
            ),
            event(110, END, track_uuid=5, debug_annotations=[{"name": "result", "int_value": 8}]),
        ],
        [(100, 10, "args", "")],
        args={
            "interned": True, "unsigned": (1 << 64) - 1, "int": -5, "double": 0.5, "text": "é",
            "shared": "kept once", "pointer": "0xabc", "json": {"k": [1, 2]},
            "dict": {"a": 1, "b": {"c": "deep"}},
            "list": [1, [2]],
            "nested": {"x": -1, "y": [True, "s"]},
            "result": 8,
        },
    ),
    "a clock of the sequence, incremental and in us": Scenario(
        [
            state(
                trace_packet_defaults={
                    "timestamp_clock_id": 64,
                    "track_event_defaults": {"track_uuid": 5},
                }
            ),
            clocks((BOOTTIME, 1_000_000), (64, 0), is_incremental=True, unit_multiplier_ns=1000),
            track(5, **THREAD),
            event(10, BEGIN, "a", sequence_flags=NEEDED),
            event(5, END, sequence_flags=NEEDED),
            event(1, BEGIN, "b", sequence_flags=NEEDED),
            event(5, END, sequence_flags=NEEDED),
            event(1_500_000, INSTANT, "plain", timestamp_clock_id=BOOTTIME, sequence_flags=NEEDED),
            event(1, INSTANT, "c", sequence_flags=NEEDED),
        ],
        [
            (1_010_000, 5000, "a", ""), (1_016_000, 5000, "b", ""), (1_500_000, 0, "plain", ""),
            (1_022_000, 0, "c", ""),
        ],
    ),
    "clocks by snapshots": Scenario(
        [
            state(),
            clocks((BOOTTIME, 1000), (MONOTONIC, 100)),
            clocks((BOOTTIME, 5000), (MONOTONIC, 3000)),
            clocks((BOOTTIME, 6000), (REALTIME, 50_000)),
            track(5, **THREAD),
            event(90, INSTANT, "before", track_uuid=5, timestamp_clock_id=MONOTONIC),
            event(150, INSTANT, "first", track_uuid=5, timestamp_clock_id=MONOTONIC),
            event(3500, INSTANT, "second", track_uuid=5, timestamp_clock_id=MONOTONIC),
            event(50_100, INSTANT, "real", track_uuid=5, timestamp_clock_id=REALTIME),
            event(7000, INSTANT, "boot", track_uuid=5),
        ],
        [
            (990, 0, "before", ""), (1050, 0, "first", ""), (5500, 0, "second", ""), (6100, 0, "real", ""),
            (7000, 0, "boot", ""),
        ],
    ),
    "clocks over another clock": Scenario(
        [
            state(),
            clocks((BOOTTIME, 1000), (MONOTONIC, 100)),
            clocks((MONOTONIC, 200), (64, 7000)),
            track(5, **THREAD),
            event(7010, INSTANT, "a", track_uuid=5, timestamp_clock_id=64),
        ],
        [(1110, 0, "a", "")],
    ),
    "primary clock": Scenario(
        [
            state(),
            clocks((BOOTTIME, 1000), (MONOTONIC, 100), primary=MONOTONIC),
            track(5, **THREAD),
            event(150, INSTANT, "monotonic", track_uuid=5),
            event(1060, INSTANT, "boot", track_uuid=5, timestamp_clock_id=BOOTTIME),
        ],
        [(150, 0, "monotonic", ""), (160, 0, "boot", "")],
    ),
    "a clock without a snapshot": Scenario(
        [
            state(),
            clocks((BOOTTIME, 1000), (MONOTONIC, 100)),
            track(5, **THREAD),
            event(150, INSTANT, "nowhere", track_uuid=5, timestamp_clock_id=99),
            event(1060, INSTANT, "boot", track_uuid=5),
        ],
        [(1060, 0, "boot", "")],
        skipped_packets={"time of clock 99, which no snapshot relates": 1},
    ),
    "events that cannot be placed": Scenario(
        [
            track(5, **THREAD),
            event(None, INSTANT, "when", track_uuid=5),
            event(100, INSTANT, "whose", seq=0, track_uuid=5),
            event(110, 0, "what", track_uuid=5),
            event(None, INSTANT, "since", track_uuid=5, timestamp_delta_us=1),
            event(120, INSTANT, "good", track_uuid=5),
        ],
        [(120, 0, "good", "")],
        skipped_packets={"track event without a sequence": 1},
        skipped_events={
            "event without a timestamp": 1,
            "TrackEvent of type 0": 1,
            "time since a thread descriptor that is missing": 1,
        },
    ),
}  # fmt: skip
