# SPDX-License-Identifier: Apache-2.0
"""load() of Perfetto traces that other programs wrote: every row as listed, what is not read counted and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perfetto_encoder import encode_trace
from perfetto_scenario import (
    BEGIN,
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


def test_annotations_of_chromes_json(tmp_path: Path) -> None:
    given = {"good": '{"a": [1]}', "text": "no JSON", "deep": "[" * 100_000}
    annotations = [{"name": n, "legacy_json_value": text} for n, text in given.items()]
    table = load(tmp_path, encode_trace([event(5, INSTANT, "args", debug_annotations=annotations)]))
    assert args_of(table, "args") == given | {"good": {"a": [1]}}


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
