# SPDX-License-Identifier: Apache-2.0
"""load() of Chrome and Kineto JSON: each kind of event, exact times, clear errors, bounded memory."""

from __future__ import annotations

import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trace_tables import ODD_NAMES

import fastprof
from fastprof import errors
from fastprof.importers import json_stream
from fastprof.model.table import EventFlag, EventKind, EventTable

BASE = 1_699_853_000_000_000_000


def event(name: str, ts: float, dur: float | None = None, ph: str = "X", **more: Any) -> Any:
    made = {"ph": ph, "cat": "cpu_op", "name": name, "pid": 7, "tid": 8, "ts": ts, **more}
    if dur is not None:
        made["dur"] = dur
    return made


def load(path: Path, events: list[Any], **top: Any) -> EventTable:
    file = path / "trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, **top, "traceEvents": events}))
    return fastprof.load(file)


def names(table: EventTable) -> list[str]:
    return [table.name(row) for row in range(len(table))]


def test_names_args_and_tracks(tmp_path: Path) -> None:
    args = {
        "Input Dims": [[2, 3], []],
        "Concrete Inputs": ["", "1"],
        "Sequence number": 5,
        "Fwd thread id": 1,
        "Call stack": "inner;\nouter",
        "External id": 12,
        "x": float("nan"),
    }
    table = load(
        tmp_path,
        [
            event("", 0, 0, ph="M", args={"name": "bad"}) | {"name": "thread_name"},
            {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "prog"}},
            *[event(name, i * 10, 5) for i, name in enumerate(ODD_NAMES)],
            event("op", 1000, 5, args=args, tid="text"),
        ],
    )
    assert names(table) == [*ODD_NAMES, "op"]
    assert table.process_name == "prog" and table.pid == 7
    assert [t.name for t in table.tracks] == ["bad", "text"]
    row = len(ODD_NAMES)
    assert table.coded["input_shapes"][row] == [[2, 3], []]
    assert table.coded["concrete_inputs"][row] == ["", "1"]
    assert table.coded["stack"][row] == ["inner", "outer"]
    assert table.column("sequence_nr")[row] == 5
    assert table.column("external_id")[row] == 12
    assert table.column("scope")[row] == 1
    assert table.coded["metadata_json"][0] is None


@pytest.mark.parametrize(
    ("sizes", "values"), [([10**200] * 2, ["", ""]), ([3, 3, 3, 3], ["", "", "", "1e999"])]
)
def test_impossible_inputs_have_no_flops(
    tmp_path: Path, sizes: list[int], values: list[str]
) -> None:
    args = {"Input Dims": [sizes, sizes], "Concrete Inputs": values}
    table = load(
        tmp_path,
        [event("aten::mm", 0, 1, args=args), event("aten::conv2d", 2, 1, args=args)],
        with_flops=1,
    )
    assert table.column("flops").tolist() == [0, 0]


def test_states_of_a_range(tmp_path: Path) -> None:
    table = load(
        tmp_path,
        [
            event("open", 0, 9, args={"finished": False}),
            event("async", 1, 9, args={"is_async": True}),
            event("elsewhere", 2, 9, args={"is_async": True, "End thread": 3, "clamped": True}),
            event("no duration", 3),
        ],
    )
    assert table.unfinished == 1
    assert table.column("is_async").tolist() == [False, True, True, False]
    assert table.column("kind").tolist() == [0, 1, 0, 0]
    assert (
        table.column("flags")[2]
        == EventFlag.FINISHED | EventFlag.CROSS_THREAD_END | EventFlag.CLAMPED
    )
    assert "metadata_json" not in table.coded


def test_counters_that_are_no_numbers_of_json(tmp_path: Path) -> None:
    with fastprof.profile() as prof:
        for value in (1.0, math.nan, math.inf, -math.inf):
            fastprof.counter("loss", value)
    prof.export(tmp_path / "t.json")
    values = fastprof.load(tmp_path / "t.json").payload_words.view(np.float64)
    assert np.array_equal(values, [1.0, math.nan, math.inf, -math.inf], equal_nan=True)


def test_pairs_instants_counters_flows_memory(tmp_path: Path) -> None:
    memory = {"Addr": 2**64 - 1, "Bytes": -64, "Total Allocated": 10, "Total Reserved": 20}
    memory |= {"Device Type": 1, "Device Id": 2}
    table = load(
        tmp_path,
        [
            event("outer", 0, ph="B"), event("inner", 1, ph="B"), event("", 2, ph="E"), event("", 9, ph="E"),
            event("", 9, ph="E"), event("left open", 10, ph="B"), event("io", 3, ph="b", id=1),
            event("io", 5, ph="e", id=1), event("here", 4, ph="i", s="t"),
            event("load", 4, ph="C", args={"a": 1, "b": 2.5, "c": "no number"}),
            event("arrow", 4, ph="s", id="0x10"),
            event("arrow", 6, ph="f", id=16, bp="e"),
            event("arrow", 6, ph="s", id="text"),
            event("[memory]", 7, ph="i", args=memory),
            event("sample", 7, ph="P"), event("span", 7, 1, pid="Spans"), event("last", 20, 1),
        ],
    )  # fmt: skip
    got = list(
        zip(
            names(table),
            (table.start_ns // 1000).tolist(),
            (table.end_ns // 1000).tolist(),
            strict=True,
        )
    )
    assert got[:4] == [("outer", 0, 9), ("inner", 1, 2), ("left open", 10, 21), ("io", 3, 5)]
    kinds = table.column("kind").tolist()
    assert kinds == [0, 0, 0, 1, 2, 3, 3, 4, 5, 4, 6, 0]
    assert table.unfinished == 1
    assert table.payload_words is not None
    words = table.payload_words[table.column("payload")[5:10].astype(int)]
    assert words[0] == 1 and words[1:2].view(np.float64)[0] == 2.5
    assert words[2] == words[3] == 16 and words[4] == 1 << 63
    memory_row = kinds.index(EventKind.MEMORY)
    first = int(table.column("payload")[memory_row])
    assert table.payload_words[first : first + 4].view(np.int64).tolist() == [-1, -64, 10, 20]
    site = table.sites[int(table.column("site")[memory_row])]
    assert (site.device_type, site.device_index) == (1, 2)
    assert table.metadata["skipped_events"] == {"end without begin": 1, "P": 1, "Trace": 1}


@pytest.mark.parametrize(
    "text",
    ["[]", "[\n]", '{"traceEvents":[]}', '\ufeff {"a": {}, "traceEvents": [ ] , "b": NaN}\n'],
)
def test_empty_traces(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    assert len(fastprof.load(tmp_path / "t")) == 0


def test_array_form_may_stop_anywhere_between_events(tmp_path: Path) -> None:
    one = json.dumps(event("a", 1, 2))
    for text in (f"[{one}]", f"[{one}", f"[{one},\n", f"[{one},]"):
        (tmp_path / "t").write_text(text)
        assert names(fastprof.load(tmp_path / "t")) == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"traceEvents": [1]}', r"event 0.*expected an object"),
        ('{"traceEvents": [{"ph": "X", "ts": "a"}]}', r"event 0.*microseconds as ts, found 'a'"),
        ('{"traceEvents": [{"ph": "X", "ts": NaN}]}', "as ts, found 'nan'"),
        ('{"traceEvents": [{"ph": "X", "ts": 1e300}]}', "64 bits"),
        ('{"traceEvents": [{"ph": "X", "ts": true}]}', "as ts, found 'True'"),
        ('{"traceEvents": [{"ph": 3, "ts": 1}]}', "as the phase"),
        ('{"traceEvents": [{"ph": "X", "ts": 1, "dur": []}]}', "microseconds as dur"),
        ('{"traceEvents": [{"ph": "X", "ts": 1} {}]}', r"offset 38: expected ',' or ']'"),
        ('{"traceEvents": [{"ph": "X", "ts": 1}', "expected ',' or ']' after event 0"),
        ('{"traceEvents": [{"ph": "X", "ts": 1', r"offset 17: the file ends within a value"),
        ('{"a": 1}', "no traceEvents"),
        ("{}", "no traceEvents"),
        ('{"traceEvents": [], "traceEvents": []}', "two members traceEvents"),
        ('{"traceEvents": []} x', "unexpected text"),
        ('{"traceEvents": [], 3: 4}', "name of a member"),
        ('{"traceEvents": [{"a": ' + "[" * 100_000, "nested too deeply|Expecting"),
        ('{"traceEvents": [{"ph": "X", "ts": ' + "9" * 5000 + "}]}", "invalid value|64 bits"),
    ],
)
def test_malformed_traces_name_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(errors.FormatError, match=message) as caught:
        fastprof.load(path)
    assert f"{path}: offset " in str(caught.value)


def test_text_that_is_not_utf8_and_damaged_gzip(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b'{"traceEvents": [{"name": "\xff"}]}')
    with pytest.raises(errors.FormatError, match="offset 27: not UTF-8"):
        fastprof.load(tmp_path / "t")
    packed = gzip.compress(json.dumps([event("a", i, 1) for i in range(500)]).encode())
    (tmp_path / "ok").write_bytes(packed)
    assert len(fastprof.load(tmp_path / "ok")) == 500
    for damaged in (
        packed[:-20],
        packed[:60] + b"\xff" * 8 + packed[68:],
        packed[:-8] + b"12345678",
    ):
        (tmp_path / "t").write_bytes(damaged)
        with pytest.raises(errors.FormatError, match=r"gzip|offset"):
            fastprof.load(tmp_path / "t")


def test_one_value_cannot_take_all_memory(tmp_path: Path) -> None:
    from fastprof.importers.source import Source

    path = tmp_path / "t"
    path.write_text('["' + "x" * 5_000_000)
    with Source(path, 1 << 30, 1 << 30, 64 << 20) as source:
        stream = json_stream.JsonStream(source)
        stream.take("[")
        with pytest.raises(errors.FormatError, match="exceeds 1048576 characters"):
            stream.value()


def test_damaged_text_never_escapes_format_error(tmp_path: Path) -> None:
    rng = random.Random(21)
    events = [
        event("a", 1.5, 2, args={"Input Dims": [[1]], "External id": 4}),
        event("k", 1, 2, cat="kernel", args={"device": 0, "stream": 1, "External id": 4}),
        event("m", 1, ph="i"),
        event("c", 1, ph="C", args={"v": 3}),
        event("b", 1, ph="b", id=3),
        event("b", 2, ph="e", id=3),
        event("s", 2, ph="s", id=3),
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "t"}},
    ]
    text = json.dumps({"baseTimeNanoseconds": BASE, "traceEvents": events}).encode()
    tokens = [b"null", b"[]", b"{}", b'"x"', b"-1", b"1e400", b"9" * 30, b",", b"}", b"]", b"\xff"]
    path = tmp_path / "t"
    outcomes = {"read": 0, "refused": 0}
    for _ in range(700):
        damaged = bytearray(text)
        at = rng.randrange(len(text))
        length = rng.choice([0, 1, 3, 10])
        damaged[at : at + length] = rng.choice(tokens) if rng.random() < 0.7 else b""
        path.write_bytes(bytes(damaged))
        try:
            table = fastprof.load(path)
            fastprof.EventList.from_table(table, use_device="cuda").key_averages().table()
        except errors.FormatError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
    assert min(outcomes.values()) > 50


def test_values_of_any_type_never_escape_format_error(tmp_path: Path) -> None:
    rng = random.Random(22)
    junk: list[Any] = [None, True, -1, 2**80, -(2**80), 1.5, 1e308, "x", "-", "12", [], [1], {}, {"a": []}]  # fmt: skip
    keys = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args"]
    inner = ["External id", "device", "stream", "Input Dims", "Call stack", "Sequence number", "Addr",
             "Bytes", "Node id", "Fwd thread id", "finished", "is_async", "name", "Device Type"]  # fmt: skip
    loaded = 0
    for _ in range(300):
        events = []
        for _ in range(4):
            one = event(
                rng.choice(["a", "[memory]", "thread_name"]), 1, 2, ph=rng.choice("XiCsfBEbeM")
            )
            one["cat"] = rng.choice(["cpu_op", "kernel", "cuda_runtime"])
            one["args"] = {key: rng.choice(junk) for key in rng.sample(inner, 4)}
            for key in rng.sample(keys, rng.randrange(3)):
                one[key] = rng.choice(junk)
            events.append(one)
        try:
            table = load(tmp_path, events, baseTimeNanoseconds=rng.choice([BASE, *junk]))
            fastprof.EventList.from_table(table, use_device="cuda").key_averages().table()
            loaded += 1
        except errors.FormatError:
            pass
    assert loaded > 50
