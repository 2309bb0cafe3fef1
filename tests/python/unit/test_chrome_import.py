# SPDX-License-Identifier: Apache-2.0
"""load() of Chrome and Kineto JSON: each kind of event, exact times, clear errors, bounded memory."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_tables import one_by_one
from trace_tables import ODD_NAMES

import fastprof
from fastprof import errors
from fastprof.importers import json_stream
from fastprof.importers.chrome_events import MARKS_PID
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


def test_times_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    rng = random.Random(3)
    quarter = 7889238 * 10**9
    starts = sorted(rng.randrange(quarter) for _ in range(2000))
    ends = [start + rng.randrange(10 ** rng.randrange(1, 12)) for start in starts]
    text = ",\n".join(
        f'{{"ph":"X","name":"a","pid":1,"tid":1,"ts":{s // 1000}.{s % 1000:03d},'
        f'"dur":{(e - s) // 1000}.{(e - s) % 1000:03d}}}'
        for s, e in zip(starts, ends, strict=True)
    )
    file = tmp_path / "t.json"
    file.write_text(f'{{"traceEvents": [{text}], "baseTimeNanoseconds": {BASE}}}')
    table = fastprof.load(file)
    np.testing.assert_array_equal(table.start_ns, np.array(starts) + BASE)
    np.testing.assert_array_equal(table.end_ns, np.array(ends) + BASE)
    assert table.t0_ns == starts[0] + BASE


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


def test_pairs_instants_counters_flows_memory(tmp_path: Path) -> None:
    memory = {"Addr": 2**64 - 1, "Bytes": -64, "Total Allocated": 10, "Total Reserved": 20}
    memory |= {"Device Type": 1, "Device Id": 2}
    table = load(
        tmp_path,
        [
            event("outer", 0, ph="B"),
            event("inner", 1, ph="B"),
            event("", 2, ph="E"),
            event("", 9, ph="E"),
            event("", 9, ph="E"),
            event("left open", 10, ph="B"),
            event("io", 3, ph="b", id=1),
            event("io", 5, ph="e", id=1),
            event("here", 4, ph="i", s="t"),
            event("load", 4, ph="C", args={"a": 1, "b": 2.5, "c": "no number"}),
            event("arrow", 4, ph="s", id="0x10"),
            event("arrow", 6, ph="f", id=16, bp="e"),
            event("arrow", 6, ph="s", id="text"),
            event("[memory]", 7, ph="i", args=memory),
            event("sample", 7, ph="P"),
            event("span", 7, 1, pid="Spans"),
            event("last", 20, 1),
        ],
    )
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


def test_of_the_formats_own_marks_all_but_metadata_are_counted(tmp_path: Path) -> None:
    """They repeat what the lists of the file's top level say."""
    events = [
        event("process_name", 0, ph="M", pid=MARKS_PID, args={"name": "marks"}),
        event("mark", 1, ph="i", pid=MARKS_PID), event("mark", 2, ph="i", pid=MARKS_PID),
        event("own", 3, 1),
    ]  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"fastprof": {}, "traceEvents": events}))
    table = fastprof.load(path)
    assert names(table) == ["own"] and table.metadata["skipped_events"] == {"Trace": 2}


def test_an_unknown_phase_is_counted_by_its_first_8_characters(tmp_path: Path) -> None:
    events = [event("odd", 1, ph="phase of another kind"), event("known", 2, 1)]
    table = load(tmp_path, events)
    assert names(table) == ["known"] and table.metadata["skipped_events"] == {"phase of": 1}


def test_kernels_belong_to_the_op_that_launched_them(tmp_path: Path) -> None:
    on_device = {"device": 1, "stream": 7, "External id": 3}
    table = load(
        tmp_path,
        [
            event("outer", 0, 100),
            event("mm", 1, 50, args={"External id": 3}),
            event("cudaLaunchKernel", 2, 3, cat="cuda_runtime", args={"External id": 3}),
            event("gemm", 60, 40, cat="kernel", pid=1, tid=7, args=on_device),
            event("copy", 110, 5, cat="gpu_memcpy", pid=1, tid=7, args={"device": 1, "stream": 7}),
        ],
    )
    events = {e.name: e for e in fastprof.EventList.from_table(table, use_device="cuda")}
    assert [k.name for k in events["mm"].kernels] == ["gemm"]
    assert events["mm"].device_time_total == events["outer"].device_time_total == 40
    assert events["gemm"].device_type == fastprof.DeviceType.CUDA
    assert events["gemm"].device_index == 1 and events["gemm"].device_resource_id == 7
    assert events["copy"].self_device_time_total == 5
    assert events["outer"].self_cpu_time_total == 50


def test_lanes_of_our_writer_go_back_to_their_thread(tmp_path: Path) -> None:
    def thread_name(tid: int, name: str) -> Any:
        return {"ph": "M", "name": "thread_name", "pid": 7, "tid": tid, "args": {"name": name}}

    events = [
        thread_name(8, "python"),
        thread_name(100, "python: async 0"),
        thread_name(9, "python"),
        thread_name(101, "python: overlapping 0"),
        event("a", 0, 10),
        event("b", 1, 20, tid=100, args={"is_async": True}),
        event("c", 2, 3, tid=101),
        event("d", 2, 3, tid=9),
    ]
    own = {"session_start_ns": BASE - 5, "session_stop_ns": BASE + 9, "dropped": {"memory": 2}}
    table = load(tmp_path, events, fastprof=own, baseTimeNanoseconds=BASE)
    assert [table.tracks[i].tid for i in table.column("track")] == [8, 8, 9, 9]
    assert (table.t0_ns, table.t1_ns, table.dropped) == (BASE - 5, BASE + 9, {"memory": 2})
    assert [table.tracks[i].tid for i in load(tmp_path, events).column("track")] == [8, 100, 101, 9]


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
        ('{"traceEvents": [{"ph": "X", "ts": 1', r"offset 17: Expecting"),
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


def test_pieces_of_any_size_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        event(f"n\u00e9 \U0001f600 {i}", i * 1.5, 123.456, args={"k": -1.5e-7}) for i in range(40)
    ]
    expected = load(tmp_path, events, numbers=[12345, 1.5], late=None)
    for size in (1, 2, 7, 64):
        monkeypatch.setattr(json_stream, "_PIECE_BYTES", size)
        table = fastprof.load(tmp_path / "trace.json")
        assert names(table) == names(expected)
        np.testing.assert_array_equal(table.start_ns, expected.start_ns)
        assert table.metadata == expected.metadata


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
    junk: list[Any] = [
        None,
        True,
        -1,
        2**80,
        -(2**80),
        1.5,
        1e308,
        "x",
        "-",
        "12",
        [],
        [1],
        {},
        {"a": []},
    ]
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


def test_async_pairs_are_told_apart_by_category_and_id(tmp_path: Path) -> None:
    def part(ph: str, ts: float, name: str, cat: str, **more: Any) -> Any:
        return event(name, ts, ph=ph, **more) | {"cat": cat}

    table = load(
        tmp_path,
        [
            part("b", 1, "first", "io", id=1),
            part("b", 2, "second", "io", id=2),
            part("b", 3, "other category", "net", id=1),
            part("S", 4, "older", "io", id2={"local": "0x1"}),
            part("b", 5, "inner", "io", id=1),
            part("e", 6, "", "io", id=1),
            part("e", 10, "", "io", id=1),
            part("F", 20, "", "io", id2={"local": "0x1"}),
            part("e", 30, "", "net", id=1),
            part("e", 40, "", "io", id=2),
        ],
    )
    ends = dict(zip(names(table), (table.end_ns // 1000).tolist(), strict=True))
    assert ends == {"first": 10, "second": 40, "other category": 30, "older": 20, "inner": 6}
    assert table.column("kind").tolist() == [EventKind.ASYNC_RANGE] * 5
    assert table.unfinished == 0 and "skipped_events" not in table.metadata


def test_sites_are_of_the_kind_of_their_rows(tmp_path: Path) -> None:
    table = load(
        tmp_path,
        [
            event("range", 0, 1),
            event("mark", 1, ph="i"),
            event("value", 1, ph="C", args={"n": 1}),
            event("arrow", 1, ph="s", id=1),
            event("arrow", 2, ph="f", id=1),
            event("io", 3, ph="b", id=1),
        ],
    )
    kinds = [table.sites[int(site)].kind for site in table.column("site")]
    assert kinds == table.column("kind").tolist() == [0, 2, 3, 4, 5, 1]


def test_numbers_among_the_args_become_columns_if_they_fit(tmp_path: Path) -> None:
    for given, kept in (
        (2**31 - 1, 2**31 - 1),
        (-(2**31), -(2**31)),
        (2**31, -1),
        (-(2**31) - 1, -1),
    ):
        table = load(tmp_path, [event("op", 0, 1, args={"Node id": given})])
        assert table.column("node_id")[0] == kept
    args = {"Record function id": 2**40, "Python id": 1, "Python parent id": 2}
    args |= {"Python module id": 3, "Sequence number": "4", "Fwd thread id": 5}
    table = load(tmp_path, [event("op", 0, 1, args=args)])
    columns = ("record_function_id", "python_id", "python_parent_id", "python_module_id")
    assert [int(table.column(name)[0]) for name in columns] == [2**40, 1, 2, 3]
    assert (table.column("sequence_nr")[0], table.column("fwd_thread")[0]) == (4, 5)
    nothing = load(tmp_path, [event("op", 0, 1, args={"Fwd thread id": 0, "Node id": "x"})])
    assert (nothing.column("fwd_thread")[0], nothing.column("node_id")[0]) == (-1, -1)


def test_every_phase_of_an_instant_is_a_mark(tmp_path: Path) -> None:
    table = load(tmp_path, [event(phase, 1, ph=phase) for phase in ("i", "I", "R", "n")])
    assert names(table) == ["i", "I", "R", "n"]
    assert table.column("kind").tolist() == [EventKind.MARK] * 4
    assert table.metadata["format"] == "chrome"


def test_lists_among_the_args_become_columns(tmp_path: Path) -> None:
    args = {
        "Input type": ["float", ""],
        "Input Dims": [[1], []],
        "Input Strides": [[1], []],
        "Concrete Inputs": ["", "2"],
        "Overload name": "out",
        "Module Hierarchy": "top.child",
    }
    table = load(tmp_path, [event("op", 0, 1, args=args)])
    assert {name: column[0] for name, column in table.coded.items() if name != "metadata_json"} == {
        "input_dtypes": ["float", ""],
        "input_shapes": [[1], []],
        "structured_input_strides": [[1], []],
        "concrete_inputs": ["", "2"],
        "overload_name": "out",
        "module_hierarchy": "top.child",
    }


def test_arrows_with_texts_and_numbers_as_ids_stay_apart(tmp_path: Path) -> None:
    ids = ["x", "y", (1 << 63) - 1, "0x10", "0x" + "g" * 4, 7, "7"]
    events = [event("arrow", 10 * i, ph="s", id=value, cat="c") for i, value in enumerate(ids)]
    table = load(tmp_path, events)
    assert table.payload_words is not None
    words = [int(table.payload_words[int(at)]) for at in table.column("payload")]
    text = 1 << 63
    assert words == [text, text + 1, (1 << 63) - 1, 16, text + 2, 7, text + 3]


def test_zero_is_a_number_among_the_args(tmp_path: Path) -> None:
    args = {"Sequence number": 0, "Fwd thread id": 0, "External id": 0}
    table = load(tmp_path, [event("a", 0, 1, args=args), event("b", 2, 1)])
    assert table.column("sequence_nr").tolist() == [0, -1]
    memory = {"Addr": 0, "Bytes": 0, "Total Allocated": 0, "Device Type": 0, "Device Id": 0}
    table = load(tmp_path, [event("[memory]", 0, ph="i", args=memory)])
    assert table.payload_words is not None and table.payload_words.tolist()[:3] == [0, 0, 0]


@pytest.mark.parametrize("number", [0, 1, -1])
def test_external_ids_begin_at_one(number: int, tmp_path: Path) -> None:
    kernel = event("gemm", 3, 2, pid=0, tid=7, args={"stream": 7, "External id": number})
    op = event("mm", 0, 10, args={"External id": number})
    table = load(tmp_path, [op, {**kernel, "cat": "kernel"}])
    assert (table.kernels is not None and len(table.kernels) == 1) == (number == 1)


@pytest.mark.parametrize("encoding", [bytes, one_by_one])
def test_many_plain_events_are_read_as_single_ones_are(
    tmp_path: Path, encoding: Callable[[bytes], bytes]
) -> None:
    """Complete events without args are added as arrays; others between them keep their place."""
    rng = random.Random(9)
    events: list[Any] = []
    for i in range(300):
        start, duration = rng.randrange(10**9) / 1000, rng.randrange(10**6) / 1000
        args = {} if rng.random() < 0.8 else {"x": i}
        events.append(event(f"op{i % 7}", start, duration, tid=i % 3, args=args))
    events += [
        event("negative", 5.0, -1.0, args={}),
        event("whole", 7, 2, args={}),
        event("no category", 7.5, 2.0, args={}),
        event("mark", 9.0, ph="i"),
    ]
    del events[-2]["cat"]
    file = tmp_path / "t.json"
    file.write_bytes(encoding(json.dumps({"traceEvents": events}).encode()))
    table = fastprof.load(file)
    expected = [
        (
            e["name"],
            round(e["ts"] * 1000),
            round(e["ts"] * 1000) + round(e.get("dur", 0) * 1000),
            e["tid"],
        )
        for e in events
        if e["name"] != "negative"
    ]
    tid = [table.tracks[int(t)].tid for t in table.column("track")]
    found = zip(names(table), table.start_ns.tolist(), table.end_ns.tolist(), tid, strict=True)
    assert [row for row in found if row[0] != "negative"] == expected


def test_a_trace_without_events_is_of_no_duration(tmp_path: Path) -> None:
    for top, base in (({}, 0), ({"baseTimeNanoseconds": BASE}, BASE)):
        table = load(tmp_path, [], **top)
        assert (len(table), table.t0_ns, table.t1_ns) == (0, base, base)


def test_words_that_are_no_numbers_are_0(tmp_path: Path) -> None:
    memory = {"Addr": "no address", "Bytes": 64, "Total Allocated": None, "Total Reserved": [1]}
    made = event("[memory]", 1, ph="i", args={**memory, "Device Type": 0, "Device Id": -1})
    table = load(tmp_path, [made])
    words, at = table.payload_words, int(table.column("payload")[0])
    assert words is not None and words[at : at + 4].tolist() == [0, 64, 0, 0]
