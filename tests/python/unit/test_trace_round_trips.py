# SPDX-License-Identifier: Apache-2.0
"""A profile, written in each format and read again, gives the same answers."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bytearrays import MORE_BYTES

import fastprof
from fastprof import EventTable, Site, Track, record_function
from fastprof.analysis import memory_report
from fastprof.cli.formats import write_table
from fastprof.cli.main import main
from fastprof.exporters.memory_timeline import memory_timeline
from fastprof.model.table import EventFlag


@pytest.fixture(scope="module")
def profiled() -> Any:
    def work(depth: int) -> None:
        with record_function(f"level {depth}", n=depth, text='a "quoted" \u00e9'):
            fastprof.mark("here")
            if depth:
                work(depth - 1)
                work(depth - 1)

    with fastprof.profile(with_stack=True, profile_memory=True) as profile:
        threads = [threading.Thread(target=work, args=(4,), name=f"w{i}") for i in range(3)]
        for thread in threads:
            thread.start()
        work(5)
        for step in range(3):
            fastprof.counter("loss", 1 / (step + 1))
        with record_function("allocating"):
            fastprof.report_memory_usage(0x1000, 640, 640, 1024)
        fastprof.report_memory_usage(0x1000, -640, 0, 1024)
        for thread in threads:
            thread.join()
    return profile


def averages(table: EventTable) -> list[tuple[Any, ...]]:
    return sorted(
        (e.key, e.count, e.self_cpu_time_total, e.cpu_time_total, e.cpu_memory_usage)
        for e in table.events().key_averages()
    )


NAMES = ("t.json", "t.json.gz", "t.pftrace", "t.fastprof", "t.fastprof.gz")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_answers(profiled: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    profiled.export(path)
    table = fastprof.load(path)
    assert averages(table) == averages(profiled.event_table)
    assert table.pid == profiled.event_table.pid
    assert (table.t0_ns, table.t1_ns) == (profiled.event_table.t0_ns, profiled.event_table.t1_ns)
    assert table.clock_error_ns == profiled.event_table.clock_error_ns
    names = {track.name for track in table.tracks}
    assert {"w0", "w1", "w2"} <= names
    (cpu,) = memory_timeline(table)
    assert cpu.recorded.tolist() == [640, 0] and cpu.allocated.tolist() == [640, 0]
    counted = [table.name(row) for row in range(len(table))]
    assert counted.count("loss") == 3 and counted.count("here") == 63 + 3 * 31


@pytest.mark.parametrize("name", NAMES)
def test_the_same_stacks(profiled: Any, tmp_path: Path, name: str) -> None:
    self_written = tmp_path / name
    profiled.export(self_written)

    def stacks(table: EventTable) -> set[tuple[str, ...]]:
        column = table.coded["stack"]
        return {tuple(column[row] or ()) for row in range(len(table))}

    assert stacks(fastprof.load(self_written)) == stacks(profiled.event_table)


@pytest.mark.parametrize("name", NAMES)
def test_dropped_events_are_still_counted(name: str, tmp_path: Path) -> None:
    with fastprof.profile(max_bytes=65536) as profile:
        for _ in range(5000):
            with record_function("x"):
                pass
    table = profile.event_table
    assert sum(table.dropped.values()) > 0
    path = tmp_path / name
    profile.export(path)
    found = fastprof.load(path).dropped
    assert {k: v for k, v in found.items() if v} == {k: v for k, v in table.dropped.items() if v}


@pytest.mark.parametrize("name", ["t.json", "t.pftrace", "t.fastprof"])
@pytest.mark.parametrize("command", ["report", "explain"])
@pytest.mark.filterwarnings("ignore:profile")
def test_a_file_says_what_is_not_recorded(
    name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fastprof.profile(post_processing_timeout_s=1.0) as profile, record_function("x"):
        pass
    ((what, reason),) = profile.missing.items()
    path = tmp_path / name
    profile.export(path)
    assert fastprof.load(path).metadata["missing"] == profile.missing
    assert main([command, str(path)]) == 0
    assert f"Not recorded: {what}: {reason}\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_open_ranges_stay_open(name: str, tmp_path: Path) -> None:
    left = record_function("open")
    with fastprof.profile() as profile:
        left.__enter__()
        with record_function("ended"):
            pass
    left.__exit__(None, None, None)
    path = tmp_path / name
    profile.export(path)
    table = fastprof.load(path)
    flags = table.column("flags").tolist()
    finished = {table.name(row): bool(flags[row] & EventFlag.FINISHED) for row in range(len(table))}
    assert finished == {"open": False, "ended": True}
    assert max(table.end_ns.tolist()) == table.t1_ns


@pytest.mark.parametrize("name", ["t.json", "t.pftrace", "t.fastprof"])
def test_memory_reports_keep_all_their_numbers(name: str, tmp_path: Path) -> None:
    with fastprof.profile(profile_memory=True) as profile:
        fastprof.report_memory_usage(
            0x7F0012345678, 640, 1640, 2048, device_type="cuda", device_index=3
        )
    path = tmp_path / name
    profile.export(path)
    table = fastprof.load(path)
    (row,) = [row for row in range(len(table)) if table.name(row) == "[memory]"]
    at = int(table.column("payload")[row])
    assert table.payload_words is not None
    assert table.payload_words[at : at + 4].tolist() == [0x7F0012345678, 640, 1640, 2048]
    site = table.sites[int(table.column("site")[row])]
    assert (site.device_type, site.device_index) == (1, 3)


@pytest.mark.parametrize("name", ["t.json", "t.pftrace", "t.fastprof"])
def test_allocators_and_failed_requests_keep_their_names(name: str, tmp_path: Path) -> None:
    with fastprof.profile(python_memory="exact") as profile, record_function("work"):
        kept = bytearray(300_000)
        fastprof.report_memory_usage(0x1000, 640)
        with pytest.raises(MemoryError):
            bytearray(1 << 60)
    path = tmp_path / name
    profile.export(path)
    again = fastprof.load(path)
    wanted, found = (memory_report(of).to_dict() for of in (profile, again))
    assert all(device["sums"]["difference_bytes"] == 0 for device in found["devices"])
    assert [d["device"] for d in found["devices"]] == [d["device"] for d in wanted["devices"]]
    assert [d["sums"] for d in found["devices"]] == [d["sums"] for d in wanted["devices"]]
    assert [f["size_bytes"] for f in found["failures"]] == [(1 << 60) + MORE_BYTES]
    assert found["failures"][0]["ranges"] == ("work",)
    assert len(kept) == 300_000


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("t.pftrace", "other"),
        ("t.pftrace.gz", "main"),
        ("t.pftrace", "main: overlapping 1"),  # a thread that is called as a track of another
        ("t.json", "other"),
    ],
)
def test_ranges_that_do_not_nest_come_back_on_their_thread(
    tmp_path: Path, name: str, other: str
) -> None:
    """Viewers draw nested slices alone, so they are written to further tracks below that of the thread."""
    rows = [  # name, start, end, track
        ("a", 0, 50, 0), ("b", 10, 70, 0), ("c", 20, 90, 0), ("d", 25, 30, 0), ("e", 0, 40, 1), ("f", 5, 60, 1),
        ("g", 80, 95, 1),
    ]  # fmt: skip
    table = EventTable(
        {
            "start_ns": [row[1] for row in rows], "end_ns": [row[2] for row in rows],
            "site": range(len(rows)), "track": [row[3] for row in rows],
        },
        sites=[Site(row[0]) for row in rows],
        tracks=[Track(0, 7, 71, "main"), Track(1, 7, 72, other)], pid=7, process_name="p",
    )  # fmt: skip
    path = tmp_path / name
    write_table(table, str(path), "chrome" if "json" in name else "perfetto")
    again = fastprof.load(path)
    tracks = [again.tracks[int(number)] for number in again.column("track")]
    found = {
        (again.name(i), int(again.start_ns[i]), int(again.end_ns[i]), track.name, track.tid)
        for i, track in enumerate(tracks)
    }
    assert found == {(*row[:3], table.tracks[row[3]].name, 71 + row[3]) for row in rows}
    assert len(again.tracks) == 2 or name == "t.json"  # which keeps tracks without rows


@pytest.mark.parametrize("tid", [7, 0])
@pytest.mark.parametrize("name", ["t.json", "t.pftrace"])
def test_threads_of_two_processes_keep_equal_ids(tmp_path: Path, name: str, tid: int) -> None:
    events = [
        {"ph": "X", "name": f"p{pid}", "ts": 1, "dur": 5, "pid": pid, "tid": tid} for pid in (1, 2)
    ]
    (tmp_path / "other.json").write_text(json.dumps(events))
    write_table(
        fastprof.load(tmp_path / "other.json"),
        str(tmp_path / name),
        "chrome" if "json" in name else "perfetto",
    )
    again = fastprof.load(tmp_path / name)
    tracks = [again.tracks[int(number)] for number in again.column("track")]
    found = {(again.name(row), track.pid, track.tid) for row, track in enumerate(tracks)}
    assert found == {("p1", 1, tid), ("p2", 2, tid)}
    assert not any("(tid" in track.name for track in tracks)


@pytest.mark.parametrize("name", NAMES)
def test_names_and_nodes_that_files_use_themselves(tmp_path: Path, name: str) -> None:
    with fastprof.profile() as prof, record_function("outer"):
        with record_function("remote", node_id=2, finished=False, **{"Call stack": "mine"}):
            pass
        fastprof.counter("exact", np.int64(2**53 + 1))
    prof.export(tmp_path / name)
    table = fastprof.load(tmp_path / name)
    assert averages(table) == averages(prof.event_table) and table.unfinished == 0


def test_arguments_whose_names_are_taken(tmp_path: Path) -> None:
    with fastprof.profile() as prof, record_function("x", finished=1, finished_=2):
        pass
    for name in ("t.json", "t.pftrace"):
        prof.export(tmp_path / name)
        (text,) = (event.metadata_json for event in fastprof.load(tmp_path / name).events())
        assert json.loads(text) == {"finished_": 1, "finished__": 2}
