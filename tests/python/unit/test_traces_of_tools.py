# SPDX-License-Identifier: Apache-2.0
"""Chrome traces as tools write them, beyond the format's description: rows of load(), lines of the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.cli.main import main


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


def spans(path: Path) -> list[tuple[str, float, float, int]]:
    """Return (name, start in us, duration in us, pid) of each row."""
    table = fastprof.load(path)
    return [
        (table.name(i), start / 1e3, duration / 1e3, table.tracks[track].pid)
        for i, (start, duration, track) in enumerate(
            zip(
                table.start_ns.tolist(),
                table.duration_ns.tolist(),
                table.column("track").tolist(),
                strict=True,
            )
        )
    ]


def write(path: Path, *events: Any, **top: Any) -> None:
    path.write_text(json.dumps({**top, "traceEvents": events}))


def test_the_empty_event_that_ends_traces_of_jax(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = {"ph": "X", "pid": 701, "tid": 1, "ts": 2987806.069, "dur": 15537.78, "name": "Pjit(f)"}
    write(trace, {**step, "args": {"step_num": "3"}}, {**step, "args": None}, {}, None)
    assert spans(trace) == [("Pjit(f)", 2987806.069, 15537.78, 701)] * 2
    assert main(["report", str(trace)]) == 0
    printed = capsys.readouterr().out
    assert "not read: event without a phase (ph) (1), event that is not an object (1)" in printed


def counts(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, str]:
    """Run a command that prints a table; return the last column by the first."""
    assert main(list(command)) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    return {line[0]: line[-1] for line in lines if len(line) > 4}


def test_ranges_that_nest_in_one_of_their_name_are_counted(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def recursive(n: int) -> None:
        with fastprof.record_function("f"):
            if n:
                recursive(n - 1)

    with fastprof.profile() as live:
        recursive(4)
    outputs = [trace.with_suffix(suffix) for suffix in (".json", ".pftrace", ".fastprof")]
    for output in outputs:
        live.export(str(output)) if output.suffix != ".fastprof" else fastprof.save(live, output)
        assert counts(capsys, "report", str(output))["f"] == "5"
    assert [row.count for row in live.key_averages() if row.key == "f"] == [5]


def test_templates_that_instantiate_each_other_in_a_trace_of_clang(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clang = {"pid": 1, "tid": 1, "ph": "X", "name": "InstantiateClass"}
    write(
        trace,
        {**clang, "ts": 0, "dur": 100, "name": "ExecuteCompiler"},
        *({**clang, "ts": 10 * i, "dur": 90 - 20 * i, "args": {"detail": "A"}} for i in (1, 2, 3)),
        beginningOfTime=1700000000000000,
    )
    assert counts(capsys, "report", str(trace))["InstantiateClass"] == "3"
    folded = trace.with_suffix(".folded")
    assert main(["convert", str(trace), str(folded)]) == 0
    assert "InstantiateClass;InstantiateClass;InstantiateClass" in folded.read_text()


def test_wrappers_of_ops_are_left_out(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    op = {"pid": 1, "tid": 1, "ph": "X", "name": "aten::mm", "cat": "cpu_op"}
    write(trace, *({**op, "ts": i, "dur": 9 - 2 * i} for i in range(3)))
    assert counts(capsys, "report", str(trace))["aten::mm"] == "1"


def test_an_end_closes_the_range_that_it_names(trace: Path) -> None:
    def event(ph: str, name: str, ts: float, **more: Any) -> dict[str, Any]:
        return {"pid": 1, "tid": 1, "ph": ph, "name": name, "ts": ts, **more}

    write(
        trace,
        *(event("B", name, ts) for ts, name in enumerate(("A", "B", "lost"))),
        *(event("E", name, ts) for ts, name in ((3, "B"), (4, "A"), (5, "no such"))),
        event("B", "step", 10, cat="x"),
        event("B", "step", 11, cat="y", args={"a": 1}),
        event("E", "step", 12, cat="x"),  # ends the inner one, too
        event("B", "step", 20),
        event("E", "", 29, args={"b": 2}),  # any name
    )
    assert [row[:3] for row in spans(trace)] == [
        ("A", 0, 4),
        ("B", 1, 2),
        ("lost", 2, 1),
        ("step", 10, 2),
        ("step", 11, 1),
        ("step", 20, 9),
    ]
    table = fastprof.load(trace)
    assert table.unfinished == 2
    assert table.metadata["skipped_events"] == {
        "begin without end, within a range that ended": 2,
        "end without begin": 1,
    }
    assert [table.coded["metadata_json"][row] for row in (4, 5)] == ['{"a": 1}', '{"b": 2}']


def test_ids_of_async_events_belong_to_processes_or_to_all(trace: Path) -> None:
    events: list[Any] = []

    def add(ph: str, name: str, ts: float, pid: int = 1, **more: Any) -> None:
        events.append({"ph": ph, "name": name, "ts": ts, "pid": pid, "tid": 1, "cat": "c", **more})

    local, shared = {"id2": {"local": "0x1"}}, {"id2": {"global": "0x7"}}
    add("b", "write", 10, **local)
    add("b", "write", 15, 2, **local)
    add("e", "write", 25, 2, **local)
    add("e", "write", 30, **local)
    add("b", "both", 40, **shared)
    add("e", "both", 60, 2, **shared)
    # Overlapping events of one id are told apart by their names.
    for ph, times in (("b", (100, 100, 101)), ("e", (105, 103, 104))):
        for name, ts in sorted(zip(("parent", "t0", "t1"), times, strict=True), key=lambda e: e[1]):
            add(ph, name, ts, id="1")
    add("S", "old", 200, id=9)
    add("F", "old", 250, id="0x9")
    write(trace, *events)
    assert spans(trace) == [
        ("write", 10, 20, 1),
        ("write", 15, 10, 2),
        ("both", 40, 20, 1),
        ("parent", 100, 5, 1),
        ("t0", 100, 3, 1),
        ("t1", 101, 3, 1),
        ("old", 200, 50, 1),
    ]


def test_local_flow_ids_connect_events_of_one_process(trace: Path) -> None:
    def arrow(pid: int, ph: str, ts: float) -> dict[str, Any]:
        return {"ph": ph, "name": "k", "pid": pid, "tid": 1, "ts": ts, "id2": {"local": "0x5"}}

    write(trace, *(arrow(pid, ph, ts) for pid in (10, 20) for ph, ts in (("s", 1), ("f", 2))))
    copy = trace.with_name("copy.json")
    assert main(["convert", str(trace), str(copy)]) == 0
    processes: dict[str, set[int]] = {}
    for event in json.loads(copy.read_text())["traceEvents"]:
        if event["ph"] in "sf":
            processes.setdefault(event["id"], set()).add(event["pid"])
    assert sorted(map(sorted, processes.values())) == [[10], [20]]


def test_processes_and_threads_whose_ids_are_texts_stay_apart(trace: Path) -> None:
    def event(name: str, pid: Any, tid: Any) -> dict[str, Any]:
        return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": 1, "dur": 2}

    write(
        trace,
        event("get", "127.0.0.1", "driver:01"),
        event("f", "127.0.0.1", "worker:02"),
        event("f", "10.0.0.2", "worker:02"),
        event("big", 1, 2**63 + 5),
        event("half", 1, 0.5),
        event("number", "7", "8"),
        {"ph": "M", "name": "process_name", "pid": "127.0.0.1", "args": {"name": "Node 1"}},
    )
    copies = [trace.with_name("copy.json"), trace.with_name("copy.pftrace")]
    for copy in copies:
        assert main(["convert", str(trace), str(copy)]) == 0
    for path in (trace, *copies):
        table = fastprof.load(path)
        tracks = [table.tracks[track] for track in table.column("track").tolist()]
        assert len({(track.pid, track.tid) for track in tracks}) == 6
        names = {p["pid"]: p["name"] for p in table.metadata["processes"]}
        found = {
            (table.name(row), names.get(track.pid, ""), track.name)
            for row, track in enumerate(tracks)
            if track.pid not in (1, 7)
        }
        assert found == {
            ("get", "Node 1", "driver:01"),
            ("f", "Node 1", "worker:02"),
            ("f", "10.0.0.2", "worker:02"),
        }
        assert {t.name for t in tracks if t.pid == 1} == {"9223372036854775813", "0.5"}
        assert [(t.pid, t.tid) for t in tracks if t.pid == 7] == [(7, 8)]


def ranges(*times: tuple[float, float], **more: Any) -> list[dict[str, Any]]:
    return [
        {"ph": "X", "name": "r", "pid": 5, "tid": 5, "ts": ts, "dur": dur, **more}
        for ts, dur in times
    ]


STEPS = [(10.0 * i, 8.0) for i in range(100)]
KERNELS = ranges(*STEPS, cat="kernel", args={"device": 0, "stream": 7})


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        (ranges(*((4820418852188.25 + t, d) for t, d in STEPS), *[(0.0, 0.0)] * 100),
         "100 of 200 events have no time (ts 0 or less): they stand 4820418.852s before all others, which take "
         "998.000us"),
        (ranges(*((t, 0.0) for t, _ in STEPS)), "100 of 100 ranges have no duration (0 ns)"),
        (ranges(*STEPS, *((1e9 + t, d) for t, d in STEPS)),
         "no event for 999.999s after the first 100 events, while all others take 1.996ms: a clock was changed, or "
         "the parts are of different clocks"),
        (ranges((0, 50), (1, 10), (5, 20), (30, 10)),
         "ranges of a thread overlap without nesting (1 times, by up to 6.000us): self times there are too long"),
        ([*ranges(*STEPS, cat="cpu_op"), *KERNELS],
         "100 of 100 GPU events are not linked to the op that launched them (External id): ops have no device times"),
        ([*ranges((0, 5), cat="python_function"), *ranges((4, 50)), *ranges((49, 9), cat="python_function")], ""),
        (ranges(*STEPS), ""),
        (KERNELS, ""),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_trace_is_said_first(
    trace: Path, capsys: pytest.CaptureFixture[str], events: list[Any], problem: str
) -> None:
    write(trace, *events, baseTimeNanoseconds=1_775_000_000_000_000_000)
    assert main(["doctor", str(trace)]) == bool(problem)
    found = capsys.readouterr().out.splitlines()[1:]
    assert found == [
        f"problem: {problem}" if problem else "nothing is wrong with its times and links"
    ]
    for command in ("report", "explain"):
        assert main([command, str(trace)]) == 0
        first = capsys.readouterr().out.splitlines()[:3]
        assert [line for line in first if line.startswith("problem: ")] == found * bool(problem)
    assert main(["doctor", "--as-json", str(trace)]) == bool(problem)
    assert json.loads(capsys.readouterr().out)["problems"] == [problem] * bool(problem)


def test_stacks_of_events_are_read(trace: Path) -> None:
    def event(**more: Any) -> dict[str, Any]:
        return {"ph": "X", "name": "r", "pid": 5, "tid": 1, "ts": 1000, "dur": 9, **more}

    frames = {
        "1": {"name": "main"},
        "2": {"name": "f", "parent": 1},
        "3": {"name": "a", "parent": 3},
    }
    write(
        trace,
        event(sf=2),
        event(stack=["leaf", "root"], ph="i"),
        event(sf="9"),
        event(sf=3),
        event(),
        stackFrames=frames,
    )
    table = fastprof.load(trace)
    stacks = [table.coded["stack"][row] for row in range(len(table))]
    assert stacks[:3] == [["f", "main"], ["leaf", "root"], None] and stacks[4] is None
    assert set(stacks[3]) == {"a"} and len(stacks[3]) == 1000  # its own parent
    assert table.metadata["skipped_events"] == {"stack (sf) that stackFrames lacks": 1}


def test_memory_records_are_read_with_all_their_words(trace: Path) -> None:
    args = {"Bytes": -64, "Addr": 2**64 - 1, "Total Allocated": 5, "Device Type": 1, "Device Id": 3}
    record = {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "s": "t"}
    arrow = {"ph": "s", "name": "k", "id": 7, "pid": 1, "tid": 1, "ts": 1}
    write(
        trace,
        {**record, "args": args},
        arrow,
        {**record, "args": {"Bytes": 8, "Allocator": "pool"}},
        {**record, "args": {"Bytes": "9", "Total Reserved": 1.5}},  # as the format does not say
        {**record, "args": {}},
    )
    table = fastprof.load(trace)
    kinds = [fastprof.EventKind(kind).name for kind in table.column("kind").tolist()]
    assert kinds == ["MEMORY", "FLOW_BEGIN", "MEMORY", "MEMORY", "MARK"]
    assert table.payload_words is not None
    words = table.payload_words.view("int64")
    first = table.column("payload")[:4].tolist()
    assert [words[at : at + 4].tolist() for at in (first[0], first[2], first[3])] == [
        [-1, -64, 5, 0],
        [0, 8, 0, 0],
        [0, 9, 0, 0],
    ]
    assert words[first[1]] == 7
    sites = [table.sites[site] for site in table.column("site").tolist()]
    assert [(s.device_type, s.device_index, s.function) for s in sites[:3:2]] == [
        (1, 3, ""),
        (0, -1, "pool"),
    ]
