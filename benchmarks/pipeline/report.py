# SPDX-License-Identifier: Apache-2.0
"""Measure the HTML report of 10^6 events: bytes an event, time to write, and, in Chromium, time to open and frames a second.

``report.py [--json FILE] [--rounds N] [--events N]``. Two profiles: "recorded", nested ranges in a tight loop, whose times
compress well; and "spread", a table whose lengths and distances are spread evenly by magnitude from 100 ns to 100 us,
whose low bytes are random. ``write_s`` is export_html() after the events were read; ``first_write_s`` includes reading
them; ``write_cpu_s`` is the CPU time of all threads, which other load affects less. ``open_s`` counts from the navigation to the end of the page's start; ``frames_per_s`` over 120 frames of the
timeline, in which each shows other data: whole (all events in view), zoom and pan. A frame that takes longer than the
browser's own 1/60 s lowers it; it cannot be higher than 60. Without a Chromium, these are left out, with a line that
says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import fastprof
from fastprof import record_function
from fastprof.model.table import EventTable
from fastprof.report.export import export_html
from fastprof.views import EventList

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tools"))

from chromium import Chromium, find_chromium

_FRAMES = """(async () => {
    const {timeline} = fastprof.parts;
    const {model} = await fastprof.ready;
    const canvas = timeline.canvas();
    const whole = model.end - model.begin;
    const windows = {
        whole: (i) => [model.begin - i * 10, model.end],
        zoom: (i) => { const half = whole * 0.8 ** (i % 60) / 2; const at = model.begin + 0.37 * whole; return [at - half, at + half]; },
        pan: (i) => [model.begin + i * whole / 8000, model.begin + i * whole / 8000 + whole / 200],
    };
    const found = {};
    for (const [name, window] of Object.entries(windows)) {
        let [frames, drawing] = [0, 0];
        const begun = performance.now();
        await new Promise((done) => {
            const step = () => {
                timeline.show(...window(frames));
                const before = performance.now();
                canvas.drawNow();
                drawing += performance.now() - before;
                frames += 1;
                if (frames < 120) requestAnimationFrame(step);
                else done();
            };
            requestAnimationFrame(step);
        });
        found[name] = {frames_per_s: 1000 * frames / (performance.now() - begun), draw_ms: drawing / frames};
    }
    return found;
})()"""


def recorded(count: int) -> EventList[Any]:
    """Return ``count`` nested ranges of 30 names."""
    names = [record_function(f"name {i}") for i in range(30)]
    with fastprof.profile(max_bytes=1 << 30) as prof:
        for i in range(count // 10):
            with names[i % 30]:
                for j in range(3):
                    with names[(i + j) % 30]:
                        with names[(7 * i + j) % 30]:
                            pass
                        with names[(3 * i + j) % 30]:
                            pass
    return prof.events()


def spread(count: int) -> EventList[Any]:
    """Return ``count`` ranges on 8 threads, a third of them with two ranges inside; lengths from 100 ns to 100 us."""
    rng = np.random.default_rng(0)
    outer = count // 3
    gap = np.exp(rng.uniform(np.log(300), np.log(300_000), outer)).astype(np.int64)
    thread = np.sort(rng.integers(0, 8, outer))
    begin = np.cumsum(gap) - gap
    length = (gap * rng.uniform(0.5, 0.95, outer)).astype(np.int64)
    inner = (length * rng.uniform(0.2, 0.45, outer)).astype(np.int64)
    start = np.stack([begin, begin + 1, begin + 2 + inner], 1).reshape(-1)
    end = np.stack([begin + length, begin + 1 + inner, begin + 2 + 2 * inner], 1).reshape(-1)
    rows = np.arange(3 * outer, dtype=np.int32)
    parent = np.where(rows % 3 == 0, -1, rows - rows % 3)
    table = EventTable(
        {
            "start_ns": start, "end_ns": end, "site": rng.integers(0, 500, 3 * outer),
            "track": np.repeat(thread, 3), "parent": parent,
        },
        sites=[fastprof.Site(f"function {i}") for i in range(500)],
        tracks=[fastprof.Track(i, 1, 100 + i, f"worker {i}") for i in range(8)],
        begin_ordered=True,
    )  # fmt: skip
    return EventList.from_table(table)


def write(events: EventList[Any], path: Path, rounds: int) -> dict[str, float]:
    """Return bytes an event, the seconds of the first and of the fastest export, and the CPU seconds of the cheapest."""
    took, cpu = [], []
    for _ in range(3 * rounds):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        export_html(events, path)
        took.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - cpu_begin)
    return {
        "bytes_an_event": path.stat().st_size / len(events),
        "first_write_s": took[0],
        "write_s": min(took),
        "write_cpu_s": min(cpu),
    }


def look(path: Path, rounds: int) -> dict[str, float]:
    """Return the least seconds to open, and of each kind of movement the best frames per second."""
    found: dict[str, float] = {}
    with Chromium() as browser:
        for _ in range(rounds):
            page = browser.open(path)
            opened = page.run("fastprof.opened_ms") / 1000
            found["open_s"] = min(found.get("open_s", opened), opened)
            page.view("timeline")
            for name, values in page.run(_FRAMES).items():
                for what, better in (("frames_per_s", max), ("draw_ms", min)):
                    key = f"{name}_{what}"
                    found[key] = better(found.get(key, values[what]), values[what])
            page.close()
    return found


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if find_chromium() is None:
        print("no Chromium is installed: opening and frames are not measured")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("recorded", recorded), ("spread", spread)):
            path = Path(folder, f"{name}.html")
            events = make(options.events)
            row = {
                "suite": "report",
                "case": f"{name}, {len(events)} events",
                **write(events, path, options.rounds),
            }
            if find_chromium() is not None:
                row.update(look(path, options.rounds))
            rows.append(row)
            print(
                f"{row['case']:28}"
                + "  ".join(f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, float))
            )
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
