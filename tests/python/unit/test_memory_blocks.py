# SPDX-License-Identifier: Apache-2.0
"""Blocks matched by address, sums that reconcile, reports and snapshots of memory that has no categories."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_tables import T0

import fastprof
from fastprof import errors
from fastprof.analysis import explain, memory_report
from fastprof.analysis.memory_blocks import memory_blocks
from fastprof.cli.main import main
from fastprof.exporters.memory_snapshot import memory_snapshot
from fastprof.exporters.memory_timeline import export_memory_timeline
from fastprof.model.table import EventKind, EventTable

Record = tuple[int, int, int]  # device (0: cpu:0, 1: cuda:1), address, bytes


def table_of(records: list[Record], failures: list[tuple[int, int]] = []) -> EventTable:  # noqa: B006
    """Return a table of a range around everything, the records at 10, 20 ... ns in it, then failed requests."""
    words: list[int] = []
    rows: list[tuple[int, int, int, int, int]] = [
        (0, 10 * (len(records) + len(failures) + 2), 4, EventKind.RANGE, 0xFFFFFFFF)
    ]
    for device, address, size in records:
        rows.append((10 * len(rows),) * 2 + (device, EventKind.MEMORY, len(words)))
        words += [address, size, 0, 0]
    for device, size in failures:
        rows.append((10 * len(rows),) * 2 + (2 + device, EventKind.OUT_OF_MEMORY, len(words)))
        words += [size, 0, 0]
    start, end, site, kind, payload = (list(column) for column in zip(*rows, strict=True))
    devices = [{"device_type": 0, "device_index": -1}, {"device_type": 1, "device_index": 1}]
    return EventTable(
        {
            "start_ns": [T0 + t for t in start],
            "end_ns": [T0 + t for t in end],
            "site": site,
            "kind": kind,
            "payload": payload,
            "parent": [-1] + [0] * (len(rows) - 1),
        },
        sites=[
            *(fastprof.Site("[memory]", kind=6, **one) for one in devices),
            *(fastprof.Site("[OutOfMemory]", kind=7, **one) for one in devices),
            fastprof.Site("work"),
        ],
        payload_words=np.array(words, np.int64).view(np.uint64),
        t0_ns=T0,
        t1_ns=T0 + end[0],
    )


class Model:
    """The same by walking: what is in use, what was there before, what was lost."""

    def __init__(self, records: list[Record], device: int) -> None:
        self.live: dict[int, int] = {}
        self.lost: list[int] = []
        self.before = self.allocated = self.freed = 0
        held, self.peak = 0, 0
        heights = []
        for on, address, size in records:
            if on != device:
                continue
            held += size
            heights.append(held)
            if size > 0:
                self.allocated += size
                if address in self.live:
                    self.lost.append(self.live[address])
                self.live[address] = size
            else:
                self.freed -= size
                if self.live.pop(address, None) is None:
                    self.before -= size
        self.peak = self.before + max(heights, default=0)


@st.composite
def recordings(draw: st.DrawFn) -> list[Record]:
    """Records in which each free has its allocation's size, with frees of unknown blocks and lost frees."""
    records: list[Record] = []
    live: dict[tuple[int, int], int] = {}
    for _ in range(draw(st.integers(1, 60))):
        key = (draw(st.integers(0, 1)), draw(st.integers(1, 6)) * 16)
        frees = draw(st.booleans())
        size = (
            live.pop(key, draw(st.integers(1, 1 << 40))) if frees else draw(st.integers(1, 1 << 40))
        )
        if not frees:
            live[key] = size
        records.append((*key, -size if frees else size))
    return records


@given(recordings())
def test_blocks_and_sums_are_those_of_a_walk(records: list[Record]) -> None:
    table = table_of(records)
    for blocks in memory_blocks(table):
        walked = Model(records, 0 if blocks.device == "cpu:0" else 1)
        sums = blocks.sums()
        assert sums.difference_bytes == 0
        assert (sums.in_use_at_begin, sums.allocated, sums.freed) == (
            walked.before,
            walked.allocated,
            walked.freed,
        )
        assert sums.in_use_at_end == sum(walked.live.values()) + sum(walked.lost)
        assert sums.lost_frees == len(walked.lost)
        assert int(blocks.in_use_bytes.max()) == walked.peak
        last = len(blocks.record_rows) - 1
        assert sorted(blocks.size_bytes[blocks.live_after(last)].tolist()) == sorted(
            [*walked.live.values(), *walked.lost]
        )


def test_processes_have_addresses_of_their_own() -> None:
    table = table_of([(0, 16, 100), (0, 16, 200), (0, 16, -100), (0, 16, -200)])
    columns = {
        name: table.column(name)
        for name in ("start_ns", "end_ns", "site", "kind", "payload", "parent")
    }
    both = EventTable(
        {**columns, "track": [0, 0, 1, 0, 1]},
        sites=table.sites,
        tracks=[fastprof.Track(0, pid=7), fastprof.Track(1, pid=8)],
        payload_words=table.payload_words,
        pid=7,
        t0_ns=T0,
    )
    blocks = memory_blocks(both)
    assert [one.device for one in blocks] == ["cpu:0", "cpu:0 of process 8"]
    assert [one.size_bytes.tolist() for one in blocks] == [[100], [200]]
    for one in blocks:
        assert one.sums().lost_frees == one.sums().difference_bytes == one.sums().in_use_at_end == 0


RECORDS = [(1, 16, 1 << 20), (1, 32, 1000), (1, 16, -(1 << 20)), (1, 48, 10), (0, 16, 7)]


def test_the_report_has_peak_temporaries_and_failures_as_text_and_data() -> None:
    report = memory_report(table_of(RECORDS, [(1, 1 << 34)]))
    assert [one.device for one in report.devices] == ["cpu:0", "cuda:1"]
    cuda = report.devices[1]
    assert (cuda.peak_bytes, cuda.peak_ns) == ((1 << 20) + 1000, 20)
    assert [(p.size_bytes, p.count, p.ranges) for p in cuda.parts] == [
        ((1 << 20) + 1000, 2, ("work",))
    ]
    assert [(t.size_bytes, t.life_ns) for t in cuda.temporaries] == [(1 << 20, 20)]
    (failure,) = report.failures
    assert (failure.device, failure.size_bytes, failure.ranges) == ("cuda:1", 1 << 34, ("work",))
    text = report.text()
    assert "allocated 1,049,586 - freed 1,048,576 = 1,010 bytes in use at the end" in text
    assert "16.00 GB" in text
    data = json.loads(json.dumps(report.to_dict()))
    assert data["devices"][1]["sums"]["difference_bytes"] == 0
    assert memory_report(table_of(RECORDS), "cuda").devices[0].device == "cuda:1"
    with pytest.raises(errors.ValueError, match="no memory records of xpu"):
        memory_report(table_of(RECORDS), "xpu")
    with pytest.raises(errors.ValueError, match="python_memory=True"):
        memory_report(table_of([]))


def test_the_command_prints_it_and_report_mentions_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "a.fastprof")
    fastprof.save(table_of(RECORDS, [(1, 1 << 34)]), path)
    assert main(["report", "--memory", path]) == 0
    assert "What the peak consists of" in capsys.readouterr().out
    assert main(["report", path]) == 0
    assert "Out of memory: 1 requests failed, the largest of 16.00 GB" in capsys.readouterr().out
    fastprof.save(table_of(RECORDS), path)
    assert main(["report", path]) == 0
    assert "Out of memory" not in capsys.readouterr().out


def test_files_of_memory_over_time_list_failed_requests(tmp_path: Path) -> None:
    table = table_of(RECORDS, [(1, 1 << 34)])
    for name in ("m.json", "m.csv", "m.html"):
        export_memory_timeline(table, tmp_path / name)
    (failure,) = json.loads((tmp_path / "m.json").read_text())["failures"]
    assert failure == {"device": "cuda:1", "time_us": 0.06, "bytes": 1 << 34}
    assert (tmp_path / "m.csv").read_text().splitlines()[
        -1
    ] == "cuda:1,0.06,17179869184,out of memory,,"
    assert "<td>17,179,869,184</td>" in (tmp_path / "m.html").read_text()
    export_memory_timeline(table, tmp_path / "m.json", device="cpu")
    assert json.loads((tmp_path / "m.json").read_text())["failures"] == []


def test_explain_names_the_peak_and_failed_requests() -> None:
    found = explain(table_of(RECORDS, [(1, 1 << 34)]))
    texts = [claim.text for claim in found.memory]
    assert texts[0].startswith("peak of cpu:0: 7 B")
    assert "peak of cuda:1: 1.00 MB at 0.020us" in texts[1]
    assert "allocated in work" in texts[1]
    assert texts[2].startswith(
        "1 request for memory failed; the largest: 16.00 GB of cuda:1 in work"
    )
    assert explain(table_of(RECORDS), breakdown=False).memory == []
    assert explain(table_of([])).memory == []


def test_a_snapshot_of_plain_memory_has_events_segments_and_failures() -> None:
    snapshot = memory_snapshot(table_of(RECORDS, [(1, 1 << 34)]), device="cuda")
    none, trace = snapshot["device_traces"]
    assert none == []
    assert [(e["action"], e["size"]) for e in trace] == [
        ("alloc", 1 << 20),
        ("alloc", 1000),
        ("free_requested", 1 << 20),
        ("free_completed", 1 << 20),
        ("alloc", 10),
        ("oom", 1 << 34),
    ]
    assert sorted(s["total_size"] for s in snapshot["segments"]) == [10, 1000]
    assert trace[0]["frames"][0]["name"] == "work"
    only = memory_snapshot(table_of([], [(0, 5)]))
    assert [e["action"] for e in only["device_traces"][0]] == ["oom"]
    for device, text in (("xpu", "no memory of xpu"), (None, "contains no memory records")):
        with pytest.raises(errors.ValueError, match=text):
            memory_snapshot(table_of(RECORDS if device else []), device=device)


def report_block(address: int, size: int) -> None:
    fastprof.report_memory_usage(address, size)


def segments(snapshot: dict[str, Any]) -> list[int]:
    return [segment["total_size"] for segment in snapshot["segments"]]


def test_snapshots_while_a_profile_runs_from_any_thread(tmp_path: Path) -> None:
    with pytest.raises(errors.StateError):
        fastprof.profile(profile_memory=True).memory_snapshot()
    with fastprof.profile(profile_memory=True) as prof:
        with fastprof.record_function("open range"):
            report_block(16, 100)
            found: list[dict[str, Any]] = []
            thread = threading.Thread(target=lambda: found.append(prof.memory_snapshot()))
            thread.start()
            thread.join()
        report_block(32, 50)
        report_block(16, -100)
        prof.export_memory_snapshot(tmp_path / "now.pickle")
        fastprof.report_out_of_memory(1 << 40)
    assert segments(found[0]) == [100]
    assert found[0]["segments"][0]["frames"][0]["name"] == "open range"
    written = pickle.loads((tmp_path / "now.pickle").read_bytes())
    assert segments(written) == [50]
    assert [e["action"] for e in written["device_traces"][0]] == [
        "alloc",
        "alloc",
        "free_requested",
        "free_completed",
    ]
    # The recording went on, and its end has everything.
    assert prof.memory_snapshot()["device_traces"][0][-1]["action"] == "oom"
    assert len(memory_blocks(prof.event_table)[0].record_rows) == 3


def test_snapshots_race_with_the_end_of_the_profile() -> None:
    for _ in range(5):
        outcomes: list[str] = []
        prof = fastprof.profile(profile_memory=True)
        prof.start()
        report_block(16, 100)

        def look(profile: Any = prof, seen: list[str] = outcomes) -> None:
            for _ in range(20):
                try:
                    profile.memory_snapshot()
                    seen.append("snapshot")
                except errors.StateError:
                    seen.append("ended")

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        prof.stop()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 60
        assert segments(prof.memory_snapshot()) == [100]


def test_a_spilling_profile_says_that_it_cannot_be_read_while_it_runs() -> None:
    with fastprof.profile(profile_memory=True, overflow="spill") as prof:
        report_block(16, 100)
        with pytest.raises(errors.StateError, match="overflow policy"):
            prof.memory_snapshot()
    assert segments(prof.memory_snapshot()) == [100]


def test_memory_from_before_the_recording_is_a_part_of_the_peak() -> None:
    (device,) = memory_report(table_of([(0, 16, 50), (0, 32, -100)])).devices
    assert (device.peak_bytes, device.peak_ns) == (150, 10)
    assert [(p.size_bytes, p.count, p.ranges, p.row) for p in device.parts] == [
        (100, 1, ("before the recording",), -1), (50, 1, ("work",), 0),
    ]  # fmt: skip
    table = table_of([(0, 16, 50)])
    without = {name: table.column(name) for name in table.to_dict() if name != "parent"}
    alone = EventTable(without, sites=table.sites, payload_words=table.payload_words, t0_ns=T0)
    ((part,),) = (device.parts for device in memory_report(alone).devices)
    assert (part.ranges, part.row) == (
        ("work",),
        0,
    )  # found by thread and time, as from a trace file
    nameless = table_of([(0, 0, 50)])
    assert memory_report(nameless).devices[0].parts == []
