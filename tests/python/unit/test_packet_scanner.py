# SPDX-License-Identifier: Apache-2.0
"""The native reader of Perfetto traces gives the table of the plain one, of valid and of damaged files; --salvage."""

from __future__ import annotations

import gzip
import os
import random
import zlib
from pathlib import Path

import pytest
from perfetto_encoder import encode, encode_trace, field
from perfetto_mutations import mutated
from perfetto_scenario import BEGIN, COUNTER, END, INSTANT, NEEDED, event, state, track
from perfetto_scenarios import SCENARIOS
from same_tables import same_outcome
from trace_tables import every_column_table

import fastprof
from fastprof import errors
from fastprof.cli.main import main
from fastprof.exporters.trace_writers import write_perfetto_trace
from fastprof.importers import perfetto_trace

INPUTS = int(os.environ.get("FASTPROF_FUZZ_INPUTS", "600"))  # of each fuzz test


@pytest.mark.parametrize("name", SCENARIOS)
def test_traces_of_others_are_read_alike(tmp_path: Path, name: str) -> None:
    data = encode_trace(SCENARIOS[name].packets)
    assert same_outcome(tmp_path / "t", data)
    assert same_outcome(tmp_path / "t.gz", data, pack=gzip.compress)
    compressed = field(1, encode({"compressed_packets": zlib.compress(data)}))
    assert same_outcome(tmp_path / "t", compressed + data)


def test_random_traces_are_read_alike(tmp_path: Path) -> None:
    """Fuzz: FASTPROF_FUZZ_INPUTS traces of packets of all scenarios, mutated by fields."""
    rng = random.Random(5)
    everything = [packet for scenario in SCENARIOS.values() for packet in scenario.packets]
    accepted = 0
    for i in range(INPUTS):
        scenario = rng.choice(list(SCENARIOS.values())).packets if i % 2 else everything
        try:
            data = encode_trace([mutated(rng, rng.choice(scenario)) for _ in range(20)])
        except AssertionError:  # the encoder refuses a value
            continue
        accepted += same_outcome(tmp_path / "t", data, salvage=i % 3 == 0)
    assert accepted > INPUTS // 5


def test_damaged_traces_are_refused_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fuzz: FASTPROF_FUZZ_INPUTS traces, mutated by bytes."""
    rng = random.Random(6)
    accepted = 0
    for i in range(INPUTS):
        monkeypatch.setattr(perfetto_trace, "_PIECE_BYTES", rng.choice([1, 16, 300, 1 << 20]))
        data = bytearray(encode_trace(rng.choice(list(SCENARIOS.values())).packets))
        for _ in range(rng.randrange(1, 3)):
            at = rng.randrange(1, len(data))
            data[at : at + rng.choice([0, 1, 1, 4])] = bytes([rng.randrange(256)])
        accepted += same_outcome(tmp_path / "t", bytes(data), salvage=i % 2 == 0)
    assert accepted > INPUTS // 4


def test_our_own_traces_are_read_alike(tmp_path: Path) -> None:
    write_perfetto_trace(every_column_table(), tmp_path / "own.pftrace")
    assert same_outcome(tmp_path / "t", (tmp_path / "own.pftrace").read_bytes())


def test_a_captured_profile_is_read_alike_and_by_the_scanner(tmp_path: Path) -> None:
    with fastprof.profile(record_shapes=True, profile_memory=True) as profile:
        for i in range(300):
            with fastprof.record_function(f"n{i % 7}", shapes=[[i, 2]], index=i, text="\u00e9"):
                fastprof.mark("m")
                fastprof.counter("c", i)
                fastprof.counter("d", i / 3)
                fastprof.flow(i).begin()
    profile.export_perfetto_trace(tmp_path / "t.pftrace")
    assert same_outcome(tmp_path / "t", (tmp_path / "t.pftrace").read_bytes())


def many(count: int) -> list[dict[object, object]]:
    """Return packets of `count` slices with args, a counter and an arrow each."""
    packets = [state(interned_data={"event_names": [{"iid": 1, "name": "slice"}]})]
    packets += [track(5, name="work"), track(6, name="value", counter={})]
    for i in range(count):
        args = [{"name": "number", "int_value": i}, {"name": "text", "string_value": f"t{i % 3}"}]
        packets += [
            event(10 * i, BEGIN, sequence_flags=NEEDED, name_iid=1, track_uuid=5, debug_annotations=args, flow_ids=[i]),
            event(10 * i + 1, COUNTER, track_uuid=6, counter_value=i),
            event(10 * i + 2, INSTANT, "arrives", track_uuid=5, terminating_flow_ids=[i]),
            event(10 * i + 9, END, track_uuid=5),
        ]  # fmt: skip
    return packets


@pytest.mark.parametrize("size", [91, 123])
def test_a_first_packet_whose_length_is_a_bracket_is_a_packet(tmp_path: Path, size: int) -> None:
    packets = [event(5, INSTANT, "a"), event(6, INSTANT, "b")]
    short = len(encode_trace(packets[:1]))
    packets[0] = event(5, INSTANT, "a" * (1 + size + 2 - short))
    data = encode_trace(packets)
    assert data[:2] == bytes([10, size])
    (tmp_path / "t").write_bytes(data)
    assert fastprof.load(tmp_path / "t").metadata["format"] == "perfetto"


def test_slices_args_counters_and_arrows_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert same_outcome(path, encode_trace(many(500)))
    assert len(fastprof.load(path)) == 500 * 5


@pytest.mark.parametrize("packed", [False, True])
def test_salvage_reads_all_events_before_the_damage(tmp_path: Path, packed: bool) -> None:
    data = encode_trace(many(400))
    path = tmp_path / "t.pftrace"
    cut = data[: len(data) // 2]
    path.write_bytes(gzip.compress(data)[: len(gzip.compress(data)) // 2] if packed else cut)
    with pytest.raises(errors.FormatError):
        fastprof.load(path)
    table = fastprof.load(path, salvage=True)
    assert 500 < len(table) < 1800
    damage = str(table.metadata["damage"])
    assert str(path) in damage and ("gzip" in damage if packed else "offset" in damage)
    assert main(["explain", "--salvage", str(path)]) == 0
    path.write_bytes(data)
    assert "damage" not in fastprof.load(path, salvage=True).metadata
    with pytest.raises(errors.FormatError, match="max_memory_bytes"):
        fastprof.load(path, salvage=True, max_memory_bytes=1 << 16)
