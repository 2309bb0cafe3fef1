# SPDX-License-Identifier: Apache-2.0
"""load() of Perfetto traces, compressed, truncated, damaged or large: a table or FormatError; memory is bounded."""

from __future__ import annotations

import random
import re
import zlib
from pathlib import Path

import pytest
from perfetto_encoder import encode, encode_trace, field
from perfetto_mutations import mutated
from perfetto_scenario import BEGIN, INSTANT, event, state, track
from perfetto_scenarios import SCENARIOS
from perfetto_tables import load, slices

import fastprof
from fastprof import errors, record_function


def compressed(packets: bytes) -> bytes:
    return field(1, encode({"compressed_packets": zlib.compress(packets)}))


def test_compressed_packets(tmp_path: Path) -> None:
    packets = encode_trace(SCENARIOS["interned names and defaults"].packets)
    table = load(tmp_path, compressed(packets) + encode_trace([event(900, INSTANT, "more")]))
    expected = [*SCENARIOS["interned names and defaults"].slices, (900, 0, "more", "")]
    assert sorted(slices(table)) == sorted(expected)
    for data, message in (
        (field(1, encode({"compressed_packets": b"junk"})), "packet 0 at offset 0: damaged"),
        (field(1, encode({"compressed_packets": zlib.compress(packets)[:-9]})), "truncated"),
        (compressed(compressed(packets)), "other than packets"),
        (compressed(field(2, b"")), "other than packets"),
    ):
        with pytest.raises(errors.FormatError, match=message):
            load(tmp_path, data)
    with pytest.raises(errors.FormatError, match="exceed 900 bytes when decompressed"):
        load(tmp_path, compressed(packets * 9), max_decompressed_bytes=900)
    bomb = compressed(encode_trace([event(1, INSTANT, "x" * 4_000_000)]))
    with pytest.raises(errors.FormatError, match=r"exceed \d+ bytes when decompressed"):
        load(tmp_path, bomb, max_memory_bytes=8 << 20)


@pytest.mark.parametrize("name", ["interned names and defaults", "annotations", "flows"])
def test_a_trace_that_is_cut_short(tmp_path: Path, name: str) -> None:
    """A trace that ends between packets is a shorter trace; one that ends within a packet raises, with the offset."""
    packets = [field(1, encode(packet)) for packet in SCENARIOS[name].packets]
    data = b"".join(packets)
    ends = {sum(map(len, packets[:i])) for i in range(len(packets) + 1)}
    for size in range(1, len(data)):
        if size in ends:
            load(tmp_path, data[:size])
        else:
            with pytest.raises(errors.FormatError, match="offset"):
                load(tmp_path, data[:size])


def ends_of_packets(data: bytes) -> list[int]:
    at, ends = 0, []
    while at < len(data):
        size, shift = 0, 0
        while True:
            at, byte = at + 1, data[at + 1]
            size, shift = size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        at += 1 + size
        ends.append(at)
    return ends


def test_an_own_trace_that_is_cut_between_packets(tmp_path: Path) -> None:
    """Each cut is found, also one that takes only ends of ranges; what is left can be salvaged."""
    whole, cut = tmp_path / "whole.pftrace", tmp_path / "cut.pftrace"
    with fastprof.profile() as profile:
        for _ in range(3):
            with record_function("outer"), record_function("inner"):
                pass
    profile.export(whole)
    data = whole.read_bytes()
    ends = ends_of_packets(data)
    assert len(fastprof.load(whole)) == 6 and "skipped_packets" not in fastprof.load(whole).metadata
    found = []
    for size in ends[:-1]:
        cut.write_bytes(data[:size])
        table = fastprof.load(cut, salvage=True)
        found.append(len(table))
        if table.metadata.get("damage"):  # from the packet on that announces the closing one
            with pytest.raises(errors.FormatError, match=f"truncated.* {found[-1]} of 6 rows"):
                fastprof.load(cut)
        else:
            assert not table.metadata.get("damage") and found[-1] == 0
    assert found == sorted(found) and found[-1] == 6
    cut.write_bytes(data[: ends[-2]] + data)
    with pytest.raises(errors.FormatError, match="of 12 rows"):
        fastprof.load(cut)
    cut.write_bytes(data + data)
    assert len(fastprof.load(cut)) == 12


def test_memory_is_bounded_whatever_a_trace_makes_the_reader_keep(tmp_path: Path) -> None:
    begin = [event(i, BEGIN, f"n{i}", track_uuid=i + 1) for i in range(3000)]
    late = [event(9000 - i, BEGIN, "same", track_uuid=1) for i in range(9000)]  # read again, sorted
    linked = [event(i, INSTANT, "same", track_uuid=1, flow_ids=[i]) for i in range(9000)]
    sequences = [state(i + 1) for i in range(3000)]
    described = [track(i + 1, name="x") for i in range(3000)]
    for packets in (begin, late, linked, sequences, described):
        data = encode_trace(packets)
        load(tmp_path, data)
        with pytest.raises(errors.FormatError, match="max_memory_bytes"):
            load(tmp_path, data, max_memory_bytes=1_000_000)


@pytest.mark.parametrize("seed", range(6))
def test_random_traces_are_read_or_refused_and_can_be_used(tmp_path: Path, seed: int) -> None:
    """Packets of all scenarios with fields omitted, repeated or replaced: valid Protobuf with a damaged meaning."""
    rng = random.Random(seed)
    everything = [packet for scenario in SCENARIOS.values() for packet in scenario.packets]
    used = 0
    for _ in range(25):
        packets = [mutated(rng, rng.choice(everything)) for _ in range(60)]
        try:
            data = encode_trace(packets)
            table = load(tmp_path, data)
        except (errors.FormatError, AssertionError):
            continue
        used += 1
        fastprof.EventList.from_table(table).key_averages().table()
        fastprof.save(table, tmp_path / "saved")
        assert slices(fastprof.load(tmp_path / "saved")) == slices(table)
    assert used > 0


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_never_escape_format_error(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = encode_trace([packet for scenario in SCENARIOS.values() for packet in scenario.packets])
    messages: list[str] = []
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(1, len(damaged))] = rng.randrange(256)
        try:
            table = load(tmp_path, bytes(damaged))
        except errors.FormatError as error:
            messages.append(str(error))
            continue
        fastprof.EventList.from_table(table).key_averages().table()
    assert len(messages) > 10
    assert all(re.search(r"offset \d|row \d|site \d", message) for message in messages)
