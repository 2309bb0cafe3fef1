# SPDX-License-Identifier: Apache-2.0
"""fastprof merge, and report and explain of several traces: one timeline, processes, devices and ids apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.cli.main import main

BASE = 1_775_000_000_000_000_000


def rank(path: Path, number: int, base: int = BASE, device: int = 0) -> Path:
    """Write a trace of torch.profiler: pid 5 on each host, the same External ids, one GPU."""
    thread = {"ph": "X", "pid": 5, "tid": 5}
    op, kernel = f"aten::op{number}", f"kernel{number}"
    args: dict[str, Any] = {"External id": 1}
    events = [
        {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "python"}},
        {**thread, "cat": "cpu_op", "name": op, "ts": 10 * number, "dur": 5, "args": args},
        {**thread, "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": 10 * number + 6,
         "dur": 2, "args": {**args, "device": device, "stream": 7}},
        {**thread, "ph": "i", "cat": "c", "name": "[memory]", "ts": 10 * number + 1,
         "args": {"Bytes": 64 + number, "Device Type": 1, "Device Id": device}},
        {},
    ]  # fmt: skip
    info = {"rank": number, "world_size": 2}
    file = path / f"rank{number}.json"
    top = {"baseTimeNanoseconds": base, "distributedInfo": info, "traceEvents": events}
    file.write_text(json.dumps(top))
    return file


def facts(table: Any) -> set[tuple[str, int, str]]:
    """Return (name, begin in us since BASE, process) of each op."""
    names = {each["pid"]: each["name"] for each in table.metadata["processes"]}
    return {
        (table.name(i), (int(table.start_ns[i]) - BASE) // 1000, names[table.tracks[t].pid])
        for i, t in enumerate(table.column("track").tolist())
        if table.name(i).startswith("aten")
    }


@pytest.mark.parametrize("suffix", [".fastprof", ".json", ".pftrace"])
def test_ranks_that_share_pids_devices_and_ids(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(rank(tmp_path, number)) for number in (0, 1)]
    output = tmp_path / f"all{suffix}"
    assert main(["merge", *files, "-o", str(output)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{files[0]}: rank 0: python (pid 5); error of its clock unknown"
    assert len(lines) == 2 and "rank 1: python (pid " in lines[1]
    table = fastprof.load(output)
    assert facts(table) == {("aten::op0", 0, "rank 0: python"), ("aten::op1", 10, "rank 1: python")}
    kernels = table.kernels
    assert kernels is not None
    launched = {table.name(int(row)): kernels.names[name]
                for row, name in zip(kernels.row, kernels.name, strict=True)}  # fmt: skip
    assert launched == {"aten::op0": "kernel0", "aten::op1": "kernel1"}
    on_gpu = table.column("device_type") == 1
    assert sorted(table.column("device_index")[on_gpu].tolist()) == [0, 1]
    memory = [row for row in range(len(table)) if table.name(row) == "[memory]"]
    assert sorted(table.sites[int(table.column("site")[row])].device_index for row in memory) == [
        0,
        1,
    ]
    assert table.payload_words is not None
    sizes = [int(table.payload_words[int(table.column("payload")[row]) + 1]) for row in memory]
    assert sorted(sizes) == [64, 65]


def test_devices_that_differ_keep_their_numbers(tmp_path: Path) -> None:
    files = [rank(tmp_path, number, device=5 - number) for number in (0, 1)]
    table = fastprof.merge_tables([fastprof.load(each) for each in files])
    on_gpu = table.column("device_type") == 1
    assert table.column("device_index")[on_gpu].tolist() == [5, 4]


@pytest.mark.parametrize("suffix", [".fastprof", ".json"])
def test_numbers_of_ops_and_calls_do_not_meet(tmp_path: Path, suffix: str) -> None:
    files = []
    for number in (0, 1):
        ids = {"Sequence number": 3, "Record function id": 7}
        call = {"Python id": 0, "Python parent id": -1}
        inner = {"Python id": 1, "Python parent id": 0}
        events = [
            {"ph": "X", "pid": 5, "tid": 5, "cat": cat, "name": f"{name}{number}", "ts": ts, "dur": dur, "args": args}
            for cat, name, ts, dur, args in (
                ("cpu_op", "op", 0, 1, ids), ("python_function", "outer", 2, 1, call),
                ("python_function", "inner", 2.5, 0.2, inner),
            )
        ]  # fmt: skip
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps({"baseTimeNanoseconds": BASE, "traceEvents": events}))
    assert main(["merge", *map(str, files), "-o", str(tmp_path / f"all{suffix}")]) == 0
    found = {e.name: e for e in fastprof.load(tmp_path / f"all{suffix}").events()}
    assert found["op0"].sequence_nr == 3 != found["op1"].sequence_nr
    for number in (0, 1):
        assert found[f"inner{number}"].python_parent_id == found[f"outer{number}"].python_id
    assert len({event.python_id for event in found.values() if event.python_id >= 0}) == 4


def test_report_and_explain_of_several_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(rank(tmp_path, number)) for number in (0, 1)]
    page = tmp_path / "all.html"
    assert main(["report", *files, "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert "aten::op0" in text and "aten::op1" in text
    assert f"{files[1]}: rank 1: python" in text
    assert "not read: event without a phase (ph) (2)" in text
    assert page.stat().st_size > 100_000
    assert main(["explain", *files]) == 0
    capsys.readouterr()
    assert main(["merge", files[0], "-o", str(tmp_path / "one.json")]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path}/one.json: 3 events\n"
    assert main(["convert", *files, str(tmp_path / "all.json")]) == 0
    assert len(facts(fastprof.load(tmp_path / "all.json"))) == 2


def test_recordings_and_traces_without_unix_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fastprof.profile() as profile:
        with fastprof.record_function("step", batch="first", size=3):
            fastprof.mark("here")
    own = tmp_path / "own.fastprof"
    fastprof.save(profile, own)
    uptime = rank(tmp_path, 1, base=0)
    assert main(["merge", str(own), str(uptime), "-o", str(tmp_path / "all.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "clock within" in lines[0]
    assert lines[1].endswith("no Unix times: begins with the first other")
    table = fastprof.load(tmp_path / "all.json")
    start = {table.name(row): int(table.start_ns[row]) for row in range(len(table))}
    assert start["aten::op1"] == profile.event_table.t0_ns  # its first event
    step = next(row for row in range(len(table)) if table.name(row) == "step")
    arguments = json.loads(table.coded["metadata_json"][step])
    assert (arguments["batch"], arguments["size"]) == ("first", 3)
    assert len({track.pid for track in table.tracks if track.pid}) == 2
    assert main(["merge", str(own), str(tmp_path / "none"), "-o", str(tmp_path / "x.json")]) == 2


def test_tables_of_recordings_are_refused_with_the_remedy() -> None:
    with fastprof.profile() as profile:
        with fastprof.record_function("step", batch="first"):
            pass
    with pytest.raises(fastprof.errors.ValueError, match="Chrome trace"):
        fastprof.merge_tables([profile.event_table] * 2)
    with pytest.raises(fastprof.errors.ValueError, match="at least one"):
        fastprof.merge_tables([])
