# SPDX-License-Identifier: Apache-2.0
"""The native reader of Chrome traces gives the table of the plain one, of valid and of damaged files; --salvage."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from same_tables import same_outcome
from trace_tables import every_column_table

import fastprof
from fastprof import errors
from fastprof.cli.main import main
from fastprof.exporters.trace_writers import write_chrome_trace
from fastprof.importers import json_stream

INPUTS = int(os.environ.get("FASTPROF_FUZZ_INPUTS", "1500"))  # of the fuzz test
NUMBERS = ["0", "-0", "1", "-3", "7.5", "1e3", "1E-2", "0.0005", "1.0015", "2.0025", "-0.0015",
           "1699853000000000.123", "9007199254740.993", "8796093022207.999", "123456789012345",
           "1234567890123456", "18446744073709551615", "18446744073709551616",
           "-9223372036854775808", "4e15", "1e400", "NaN", "-Infinity", "Infinity"]  # fmt: skip
TEXTS = ['"a"', '""', '"\\u0041"', '"\\ud800"', '"\u00e9\U0001f600"', '"[memory]"', '"x\\n"', '"12"', '"cpu_op"',
         '"autograd::engine::evaluate_function: a"', '"0x10"', '"Spans"', '"X"', '"i"']  # fmt: skip
OTHERS = ["true", "false", "null", "[]", "{}", "[[1,2],[]]", '["a", "b"]', '{"a":[1]}', "[ 1 ]"]
KEYS = ["ph", "ts", "dur", "pid", "tid", "name", "cat", "id", "args", "bp", "\\u0070h", "x", "sf",
        "stack"]  # fmt: skip
ARGS = ["External id", "device", "stream", "Sequence number", "Fwd thread id", "Node id",
        "Record function id", "Python id", "Input Dims", "Input type", "Concrete Inputs", "Call stack",
        "Overload name", "Module Hierarchy", "finished", "is_async", "End thread", "clamped", "Bytes",
        "Addr", "Total Allocated", "Total Reserved", "Device Type", "Device Id", "Allocator",
        "odd", "\\u0041", "name"]  # fmt: skip


def random_value(rng: random.Random) -> str:
    return rng.choice(rng.choice([NUMBERS, NUMBERS, TEXTS, OTHERS]))


def random_event(rng: random.Random) -> str:
    args = {key: random_value(rng) for key in rng.sample(ARGS, rng.randrange(6))}
    if rng.random() < 0.1:  # a memory record
        args |= {"Bytes": rng.choice(["64", "-64", random_value(rng)]), "Addr": rng.choice(NUMBERS)}
        args |= {
            "Device Type": rng.choice(["0", "1", "70000"]),
            "Device Id": rng.choice(["0", "-1"]),
        }
    for key in ("External id", "stream", "device"):
        if key in args and rng.random() < 0.8:
            args[key] = str(rng.randrange(4))
    members = {
        "ph": f'"{rng.choice("XXXXXXXXinCsfBEbeM")}"',
        "cat": rng.choice(['"cpu_op"', '"kernel"', '"user_annotation"', '"cuda_runtime"', '"ac2g"']),
        "name": '"[memory]"' if "Addr" in args else rng.choice(['"a"', '"b"', '"mm"', rng.choice(TEXTS)]),
        "pid": str(rng.randrange(2)),
        "tid": str(rng.randrange(3)),
        "ts": rng.choice([f"{rng.random() * 1e6:.3f}", str(rng.randrange(10**9))]),
        "dur": rng.choice([f"{rng.random() * 100:.3f}", str(rng.randrange(100)), "-1"]),
        "id": str(rng.randrange(9)),
        "args": "{" + ", ".join(f'"{key}":{value}' for key, value in args.items()) + "}",
    }  # fmt: skip
    parts = [f'"{key}": {value}' for key, value in members.items() if rng.random() < 0.97]
    if rng.random() < 0.15:
        parts.append(f'"{rng.choice(KEYS)}": {random_value(rng)}')
    return "{" + rng.choice([",", ", ", " ,\n"]).join(parts) + "}"


@pytest.mark.parametrize("seed", range(6))
def test_random_traces_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Events are chosen among those that the plain reader accepts, so that tables are compared, too."""
    rng = random.Random(seed)
    monkeypatch.setattr(json_stream, "_SCAN_BYTES", rng.choice([5, 300, 1 << 22]))
    path = tmp_path / "t.json"
    accepted: list[str] = []
    refused = 0
    while len(accepted) < 150:
        event = random_event(rng)
        if same_outcome(path, f"[{event}]".encode()):
            accepted.append(event)
        else:
            refused += 1
    assert refused
    whole = (
        '{"traceEvents": [' + ",\n".join(accepted) + '], "fastprof": {}, "baseTimeNanoseconds": 5}'
    )
    assert same_outcome(path, whole.encode())


def test_damaged_traces_are_refused_alike(tmp_path: Path) -> None:
    """Fuzz: FASTPROF_FUZZ_INPUTS inputs, mutated by bytes and by tokens."""
    rng = random.Random(11)
    path = tmp_path / "t.json"
    tokens = [
        text.encode()
        for text in (*NUMBERS, *TEXTS, *OTHERS, ",", "}", "]", "{", "[", ":", '"', " ")
    ]
    tokens += [b"\xff", b"\xed\xa0\x80", b"\xf0\x9f", b"\x00", b"\xef\xbb\xbf", b"[" * 300]
    accepted = 0
    for i in range(INPUTS):
        if i % 50 == 0:
            events = [random_event(rng) for _ in range(6)]
            clean = ('{"traceEvents":[' + ",".join(events) + "]}").encode()
        data = bytearray(clean)
        for _ in range(rng.randrange(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice([0, 1, 1, 4])] = (
                rng.choice(tokens) if rng.random() < 0.7 else bytes([rng.randrange(256)])
            )
        accepted += same_outcome(path, bytes(data), salvage=i % 2 == 0)
    assert accepted > INPUTS // 20


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_our_own_traces_are_read_alike(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    write_chrome_trace(every_column_table(), tmp_path / "own.json")
    assert same_outcome(tmp_path / "t", (tmp_path / "own.json").read_bytes(), pack=pack)


def odd_event(rng: random.Random) -> dict[str, Any]:
    event: dict[str, Any] = {
        "ph": rng.choice("XXXXXXiC"),
        "cat": rng.choice(["cpu_op", "user_annotation", "kernel", 5]),
        "name": rng.choice(["a", "b", "c", ["d"], 7]),
        "pid": rng.choice([1, 1, 1, "Spans", 1.0, True]),
        "tid": rng.choice([1, 2, "3", {"x": 1}]),
        "ts": rng.choice([1, 2.5, 1e9 + 0.001, 1e12 + 0.123, -3.25, 9007199254740.993]),
        "dur": rng.choice([0, 1.5, 0.001, 1234.567, -1.0, 7]),
        "args": rng.choice([{}, {}, {}, {"x": 1}, {"External id": 3}, None, []]),
    }
    for key in rng.sample(["cat", "name", "pid", "tid", "dur", "args"], rng.randrange(2)):
        del event[key]
    return event


@pytest.mark.parametrize("seed", range(4))
def test_events_with_members_of_odd_types_are_read_alike(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    events = [odd_event(rng) for _ in range(400)]
    trace: Any = events if seed % 2 else {"displayTimeUnit": "ms", "traceEvents": events, "last": 1}
    assert same_outcome(tmp_path / "t", json.dumps(trace, indent=rng.choice([None, 1])).encode())


GOOD = '{"ph": "X", "name": "x", "cat": "c", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2.0, "args": {}}'


@pytest.mark.parametrize("bad", ['{"ph": }', '{"ph": "X"'])
@pytest.mark.parametrize("before", [0, 1, 700])
def test_errors_name_the_event(tmp_path: Path, bad: str, before: int) -> None:
    begin = "[" + f"{GOOD},\n" * before
    data = (begin + ",\n".join([bad, GOOD, GOOD]) + "]").encode()
    assert not same_outcome(tmp_path / "t", data)
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(errors.FormatError) as error:
        fastprof.load(tmp_path / "t")
    place = re.search(r"offset (\d+)", str(error.value))
    assert place and len(begin) <= int(place[1]) <= len(begin) + len(bad) + 2


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{}", "event without a phase (ph)"),
        ("null", "event that is not an object"),
        ('{"ph": "X", "name": "x", "ts": "12.5", "dur": 1}', "ts that is not a number"),
        ('{"ph": "X", "name": "x"}', "event without ts"),
        ('{"ph": "X", "name": "x", "ts": 1, "dur": null}', "dur that is not a number"),
        ('{"ph": "X", "name": "x", "ts": 1e300}', "ts that exceeds 64 bits"),
        ('{"ph": "X", "name": "x", "ts": 9.2e15, "dur": 9.2e15}', "dur that exceeds 64 bits"),
        ('{"ph": "B", "name": "x", "ts": true}', "ts that is not a number"),
    ],
)
@pytest.mark.parametrize("before", [0, 700])
def test_malformed_events_are_skipped_and_counted(
    tmp_path: Path, bad: str, reason: str, before: int
) -> None:
    path = tmp_path / "t"
    assert same_outcome(path, f"[{','.join([GOOD] * before + [bad, bad, GOOD])}]".encode())
    table = fastprof.load(path)
    assert len(table) == before + 1
    assert table.metadata["skipped_events"] == {reason: 2}
    assert not same_outcome(path, f"[{bad}, {bad}]".encode())  # nothing in the file is readable


def test_values_that_the_scanner_refuses_do_not_end_its_reading(tmp_path: Path) -> None:
    deep = '{"ph":"i","name":"deep","ts":%d,"args":{"a":' + "[" * 200 + "]" * 200 + "}}"
    plain = '{"ph":"X","name":"a","ts":%d,"dur":1}'
    events = [(deep if i % 900 == 5 else plain) % i for i in range(4000)]
    assert same_outcome(tmp_path / "t", f"[{','.join(events)}]".encode())
    assert fastprof.load(tmp_path / "t").start_ns.tolist() == [1000 * i for i in range(4000)]


@pytest.mark.parametrize("packed", [False, True])
def test_salvage_reads_all_events_before_the_damage(
    tmp_path: Path, packed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(3)
    events = [
        {"ph": "X", "name": f"e{rng.randrange(99)}", "ts": i, "dur": 1, "args": {"n": rng.random()}}
        for i in range(3000)
    ]
    data = json.dumps({"traceEvents": events}).encode()
    path = tmp_path / "t.json"
    if packed:
        data = gzip.compress(data)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(errors.FormatError):
        fastprof.load(path)
    table = fastprof.load(path, salvage=True)
    assert abs(len(table) - 1500) < 100
    assert table.start_ns.tolist() == [i * 1000 for i in range(len(table))]
    damage = str(table.metadata["damage"])
    assert str(path) in damage and ("gzip" in damage if packed else "offset" in damage)
    if packed:  # every complete event of what can be decompressed
        import zlib

        text = zlib.decompressobj(31).decompress(data[: len(data) // 2])
        assert len(table) == text.count(b"}}")
    assert main(["report", str(path)]) == 2
    capsys.readouterr()
    assert main(["report", "--salvage", str(path)]) == 0
    assert damage in capsys.readouterr().err
    assert main(["convert", "--salvage", str(path), str(tmp_path / "o.json")]) == 0
    assert len(fastprof.load(tmp_path / "o.json")) == len(table)
    assert main(["diff", "--salvage", str(path), str(path)]) == 0
