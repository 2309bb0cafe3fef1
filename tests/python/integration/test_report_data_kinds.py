# SPDX-License-Identifier: Apache-2.0
"""HTML reports of all kinds of data in a real Chromium: hostile names, two profiles, devices, overlaps, no events.

Screenshots are kept in build/report_screenshots.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import SCREENSHOTS, Chromium
from needs import NEEDS_CHROMIUM
from processes import python
from trace_tables import T0

import fastprof
from fastprof import record_function
from fastprof.model.columns import CodedColumn
from fastprof.model.table import EventTable
from fastprof.report.export import export_comparison, export_html

pytestmark = [pytest.mark.integrations, NEEDS_CHROMIUM]


HOSTILE = [
    "</script><script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 2'>",
    "javascript:window.hit=3", "\u202egnp.exe\u2066", "a\0b\x1b[31m\ufeff", "lone \ud800 surrogate \udfff",
    "__proto__", "constructor", "${window.hit=4}", "=cmd|' /C calc'!A0", "long " * 100_000,
]  # fmt: skip


def hostile_table() -> EventTable:
    size = len(HOSTILE)
    texts = [f'{{"{i}": "</script><script>window.hit = 5</script>"}}' for i in range(size)]
    return EventTable(
        {
            "start_ns": T0 + 10 * np.arange(size),
            "end_ns": T0 + 1000 - np.arange(size),
            "site": np.arange(size),
        },
        sites=[fastprof.Site(name, file=name, function=name, line=3) for name in HOSTILE],
        tracks=[fastprof.Track(0, 1, 1, HOSTILE[0])],
        coded={
            "metadata_json": CodedColumn.encode(texts),
            "stack": CodedColumn.encode([[f"{name}(3): {name}"[-300:]] for name in HOSTILE]),
        },
        process_name=HOSTILE[1],
        t0_ns=T0,
        metadata={"processes": [{"pid": 0, "name": HOSTILE[0]}]},
    )


def test_hostile_names_are_text(browser: Chromium, tmp_path: Path) -> None:
    table = hostile_table()
    export_html(table, tmp_path / "r.html", title=HOSTILE[0], missing={HOSTILE[0]: HOSTILE[1]})
    export_comparison(table, table, tmp_path / "d.html", titles=(HOSTILE[0], HOSTILE[1]))
    for file in ("r.html", "d.html"):
        page = browser.open(tmp_path / file)
        views = page.run(
            "[...document.querySelectorAll('[role=tab]')].map((tab) => tab.id.slice(4))"
        )
        scripts = page.run("document.scripts.length")
        for view in views:
            page.view(view)
            page.run("fastprof.parts.state.selectRow(2)")
            page.run("new Promise((done) => setTimeout(done, 60))")
            page.screenshot(SCREENSHOTS / f"hostile_{view}.png")
        for row in range(len(HOSTILE)):
            page.run(f"fastprof.parts.state.selectRow({row})")
            page.run("new Promise((done) => setTimeout(done, 20))")
            text = page.run("document.querySelector('.details').textContent")
            assert "\u202e" not in text and "\0" not in text
        assert page.run("window.hit") is None
        assert page.run("document.scripts.length") <= scripts
        assert page.run("document.querySelectorAll('img, iframe, object, embed').length") == 0
        assert page.run("[...document.links].every((link) => !link.href.startsWith('javascript'))")
        names = page.run("fastprof.ready.then(({model}) => model.keys.map((key) => key.name))")
        assert "__proto__" in names and "constructor" in names
        page.view("table")
        page.run("fastprof.parts.table.update()")
        assert "'=cmd" in page.run("fastprof.parts.table.asCsv()")
        assert page.errors == [] and page.requests == [(tmp_path / file).as_uri()]
        page.close()


def test_the_policy_stops_what_is_not_the_pages_own(browser: Chromium, tmp_path: Path) -> None:
    """Even if some text became markup: no script, no style, no request."""
    export_html(hostile_table(), tmp_path / "r.html")
    page = browser.open(tmp_path / "r.html")
    page.run(
        """(() => {
            window.stopped = 0;
            document.addEventListener('securitypolicyviolation', () => { window.stopped += 1; });
            const div = document.createElement('div');
            div.innerHTML = '<img src="https://example.org/x.png" onerror="window.hit = 1" onload="window.hit = 1">';
            document.body.append(div);
            const script = document.createElement('script');
            script.textContent = 'window.hit = 2';
            document.body.append(script);
            fetch('https://example.org/').catch(() => 0);
        })()"""
    )
    page.wait_until("window.stopped >= 3")
    page.settle()
    assert page.run("window.hit") is None
    assert len(page.errors) >= 3 and all("Content Security Policy" in e for e in page.errors)
    page.close()


def test_two_profiles(browser: Chromium, tmp_path: Path) -> None:
    def profiled(n: int) -> Any:
        with fastprof.profile() as prof, record_function("all"):
            for _ in range(n):
                with record_function("grows"):
                    sum(range(1000))
            with record_function("only before" if n == 1 else "only after"):
                pass
        return prof.events()

    before, after = profiled(1), profiled(50)
    export_comparison(before, after, tmp_path / "d.html", titles=("old", "new"))
    page = browser.open(tmp_path / "d.html")
    rows = {row["name"]: row for row in page.run("fastprof.parts.diff.rows()")}
    for listed, side in ((before, "before"), (after, "after")):
        for average in listed.key_averages():
            assert rows[average.key][side] == round(average.self_cpu_time_total * 1000)
    assert rows["only before"]["after"] == 0 and rows["only after"]["before"] == 0
    tree = page.run("(({total, before}) => [total, before])(fastprof.parts.diff.tree())")
    assert tree == [
        round(after.self_cpu_time_total * 1000),
        round(before.self_cpu_time_total * 1000),
    ]
    page.screenshot(SCREENSHOTS / "diff.png")
    assert page.errors == []
    page.close()


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_overlap_are_all_drawn(browser: Chromium, tmp_path: Path, seed: int) -> None:
    """Rows without parents that overlap lie on one line; each that is wide enough is drawn, wherever it began."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.integers(0, 1_000_000, 3000))
    length = np.exp(rng.uniform(0, np.log(300_000), 3000)).astype(np.int64)
    table = EventTable(
        {
            "start_ns": T0 + start,
            "end_ns": T0 + start + length,
            "site": rng.integers(0, 3, 3000),
            "parent": np.full(3000, -1),
        },
        sites=[fastprof.Site(name) for name in "abc"],
        t0_ns=T0,
    )
    export_html(table, tmp_path / "r.html")
    page = browser.open(tmp_path / "r.html")
    page.view("timeline")
    missing = page.run(
        """(async () => {
            const {timeline, timelineDraw} = fastprof.parts;
            const {model} = await fastprof.ready;
            let missing = 0;
            let wide = 0;
            for (let i = 0; i < 60; i++) {
                timeline.show(i * 15000, i * 15000 + 1000000 * 0.8 ** (i % 20));
                const drawn = [];
                timelineDraw.record(drawn);
                timeline.canvas().drawNow();
                timelineDraw.record(null);
                const rows = new Set(drawn.map(({row}) => row));
                const {begin, end} = timeline.view;
                const cell = 2 * (end - begin) / (timeline.canvas().width - timelineDraw.GUTTER);
                for (let row = 0; row < model.n; row++) {
                    const last = model.start[row] + model.length[row];
                    if (model.length[row] <= cell || last <= begin + cell || model.start[row] >= end) continue;
                    wide += 1;
                    if (!rows.has(row)) missing += 1;
                }
            }
            return [missing, wide > 1000];
        })()"""
    )
    assert missing == [0, True]
    page.close()


def test_device_lanes_of_a_loaded_trace(browser: Chromium, tmp_path: Path) -> None:
    """A trace as torch.profiler writes it on a GPU: kernels on streams, an arrow from the launch."""
    launch = {"External id": 7, "correlation": 3}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 50,
         "args": {"External id": 7}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 20,
         "dur": 10, "args": launch},
        *({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 40 + 100 * i, "dur": 90,
           "args": {"stream": 7, "device": 0, **launch}} for i in range(2)),
    ]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    python("-m", "fastprof", "report", "t.json", "--html", cwd=tmp_path, check=True)
    page = browser.open(tmp_path / "t.html")
    lanes = page.run("fastprof.ready.then(({model}) => model.lanes.map((l) => [l.label, l.count]))")
    assert ["cuda:0 stream 7", 2] in lanes
    page.view("table")
    page.run("fastprof.parts.table.update()")
    groups = {g["label"]: g for g in page.run("fastprof.parts.table.groups()")}
    averages = {a.key: a for a in _cli_list(tmp_path / "t.json").key_averages()}
    assert set(groups) == set(averages)
    for name, average in averages.items():
        group = groups[name]
        assert group["count"] == average.count
        assert group["selfDevice"] == round(average.self_device_time_total * 1000)
        assert group["device"] == round(average.device_time_total * 1000)
        assert group["total"] == round(average.cpu_time_total * 1000)
    page.view("summary")
    assert "on 1 device stream" in page.run("document.body.innerText")
    assert page.errors == []
    page.close()


def _cli_list(path: Path) -> Any:
    return fastprof.load(path).events()
