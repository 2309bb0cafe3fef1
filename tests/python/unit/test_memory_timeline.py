# SPDX-License-Identifier: Apache-2.0
"""export_memory_timeline: totals over time per device, in each format; and progress of exports."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trace_tables import T0

import fastprof
from fastprof import errors
from fastprof.exporters.memory_timeline import export_memory_timeline, memory_timeline
from fastprof.exporters.progress import terminal_progress
from fastprof.model.table import EventKind, EventTable

CPU, CUDA = 0, 1


def table(records: list[tuple[int, int, int, int]]) -> EventTable:
    """Return a table of memory rows (time in us, site, bytes, allocated). Site 0 is cpu:0, 1 cuda:2, 2 a range."""
    kinds = [EventKind.RANGE if site == 2 else EventKind.MEMORY for _, site, _, _ in records]
    start = [T0 + time * 1000 for time, _, _, _ in records]
    words: list[int] = []
    for _, _, size, allocated in records:
        words += [7, size, allocated, 2 * allocated]
    return EventTable(
        {
            "start_ns": start,
            "end_ns": [s + (100_000 if k == 0 else 0) for s, k in zip(start, kinds, strict=True)],
            "site": [site for _, site, _, _ in records],
            "kind": kinds,
            "payload": [4 * i if k else 0xFFFFFFFF for i, k in enumerate(kinds)],
            "track": [i % 2 for i in range(len(records))],
        },
        sites=[
            fastprof.Site("[memory]", kind=6, device_type=CPU, device_index=-1),
            fastprof.Site("[memory]", kind=6, device_type=CUDA, device_index=2),
            fastprof.Site("op"),
        ],
        tracks=[fastprof.Track(0), fastprof.Track(1)],
        payload_words=np.array(words, np.int64).view(np.uint64),
        t0_ns=T0,
        process_name="<b>program</b>",
    )


RECORDS = [
    (0, 2, 0, 0),
    (30, 0, -100, 0),
    (10, 0, 100, 0),
    (20, 1, 64, 640),
    (20, 0, 50, 0),
    (40, 1, -64, 576),
    (5000, 0, -8, 0),
]


def test_totals_run_in_the_order_of_time() -> None:
    cpu, cuda = memory_timeline(table(RECORDS))
    assert (cpu.device, cuda.device) == ("cpu:0", "cuda:2")
    assert ((cpu.time_ns - T0) // 1000).tolist() == [10, 20, 30, 5000]
    assert cpu.recorded.tolist() == [100, 150, 50, 42]
    assert cuda.recorded.tolist() == [64, 0]
    assert cuda.allocated.tolist() == [640, 576] and cuda.reserved.tolist() == [1280, 1152]


def test_each_format(tmp_path: Path) -> None:
    source = table(RECORDS)
    for suffix in (".json", ".csv", ".html", ".json.gz"):
        export_memory_timeline(source, tmp_path / f"m{suffix}")
    document = json.loads((tmp_path / "m.json").read_text())
    assert document["unit"] == "bytes" and document["t0_ns"] == T0
    assert document["devices"][0]["times_us"] == [10, 20, 30, 5000]
    assert document["devices"][1]["allocated"] == [640, 576]
    assert b"\r" not in (tmp_path / "m.csv").read_bytes()
    rows = list(csv.reader(io.StringIO((tmp_path / "m.csv").read_text())))
    assert rows[0] == ["device", "time_us", "bytes", "recorded", "allocated", "reserved"]
    assert rows[5] == ["cuda:2", "20.0", "64", "64", "640", "1280"]
    page = (tmp_path / "m.html").read_text()
    assert "&lt;b&gt;program" in page and "<b>" not in page and "<script" not in page
    assert len(re.findall("<polyline", page)) == 4  # recorded twice, allocated, reserved
    export_memory_timeline(source, tmp_path / "one.json", device="cuda")
    assert len(json.loads((tmp_path / "one.json").read_text())["devices"]) == 1


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    empty = EventTable({"start_ns": [1], "end_ns": [2], "site": [0]}, sites=[fastprof.Site("a")])
    with pytest.raises(errors.ValueError, match="profile_memory=True"):
        export_memory_timeline(empty, tmp_path / "m.json")
    with pytest.raises(errors.ValueError, match="xpu"):
        export_memory_timeline(table(RECORDS), tmp_path / "m.json", device="xpu")
    with pytest.raises(errors.ValueError, match=r"\.html"):
        export_memory_timeline(table(RECORDS), tmp_path / "m.png")
    assert list(tmp_path.iterdir()) == []


def test_a_payload_outside_the_words_is_an_error() -> None:
    whole = table(RECORDS)
    assert whole.payload_words is not None
    for missing in (1, 4):
        words = whole.payload_words[: len(whole.payload_words) - missing]
        cut = EventTable(whole.to_dict(), sites=list(whole.sites), payload_words=words)
        with pytest.raises(errors.ValueError, match="outside payload_words"):
            memory_timeline(cut)


def test_the_page_has_exact_curves_and_peaks(tmp_path: Path) -> None:
    source = table([(0, 0, 100, 0), (500, 0, 300, 0), (1000, 0, -350, 0)])
    source = EventTable(
        source.to_dict(), sites=list(source.sites), payload_words=source.payload_words,
        t0_ns=T0, t1_ns=T0 + 2_000_000,
    )  # fmt: skip
    export_memory_timeline(source, tmp_path / "m.html")
    page = (tmp_path / "m.html").read_text()
    (width, height) = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', page)[0])
    points = re.findall(r'points="([^"]*)"', page)[0].split()
    # 100 bytes at the begin, 400 from a quarter of the time on, 50 from the middle on.
    heights = [height, height * 0.75, height * 0.75, 0, 0, height * 0.875, height * 0.875]
    times = [0, 0, width / 4, width / 4, width / 2, width / 2, width]
    x, y = zip(*(map(float, point.split(",")) for point in points), strict=True)
    assert x == pytest.approx(times, abs=0.06) and y == pytest.approx(heights, abs=0.06)
    assert "3 records in 2.000 ms; bytes from 0 to 400" in page
    assert "in use</td><td>400</td><td>50</td>" in page
    assert "<title>memory</title>" in page


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal_progress("x", io.StringIO()) as progress:
        assert progress is None
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with terminal_progress("x", Terminal()) as progress:
        assert progress is None

    class Bar:
        seen: list[Any] = []  # noqa: RUF012 - one bar
        n = 0

        def __init__(self, **options: Any) -> None:
            self.total = options["total"]

        def update(self, step: int) -> None:
            self.n += step
            self.seen.append((self.n, self.total))

        def close(self) -> None:
            self.seen.append("closed")

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))  # type: ignore[arg-type]
    with terminal_progress("x", Terminal()) as progress:
        assert progress is not None
        progress(3, 10)
        progress(10, 10)
    assert Bar.seen == [(3, 10), (10, 10), "closed"]
