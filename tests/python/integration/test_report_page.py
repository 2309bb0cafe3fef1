# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a real Chromium: what is drawn equals the table, no request is made, hostile names do nothing.

Screenshots are kept in build/report_screenshots.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import Chromium, Page, find_chromium
from report_reader import read_report
from trace_tables import T0

import fastprof
from fastprof import record_function
from fastprof.model.columns import CodedColumn
from fastprof.model.table import EventTable
from fastprof.report.export import export_comparison, export_html

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed"),
]
SCREENSHOTS = Path(__file__).resolve().parents[3] / "build" / "report_screenshots"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as running:
        yield running


@pytest.fixture(scope="module")
def prof() -> fastprof.profile:
    """Two threads with nested ranges, steps, calls, counters, marks, flows, memory, arguments and stacks."""

    def leaf(n: int) -> int:
        return sum(range(200 * n))

    def work(steps: int) -> None:
        for i in range(steps):
            with record_function("batch", number=i, shapes=[[i, 3]]):
                with record_function("forward"):
                    leaf(2)
                    fastprof.report_memory_usage(100 + i, 1024 * (i + 1), 0, 0, 0, 0)
                with record_function("backward"):
                    leaf(3)
                fastprof.counter("loss", 1 / (i + 1))
            if i % 4 == 0:
                fastprof.mark("checkpoint")

    with fastprof.profile(
        python_calls=True, with_stack=True, profile_memory=True, record_shapes=True
    ) as prof:
        fastprof.flow_begin(3, "handed over")
        other = threading.Thread(target=lambda: (fastprof.flow_end(3, "handed over"), work(6)))
        other.start()
        for _ in range(4):
            with record_function(f"ProfilerStep#{_}"):
                work(2 + 3 * (_ == 2))
        other.join()
    return prof


@pytest.fixture
def page(browser: Chromium, prof: fastprof.profile, tmp_path: Path) -> Iterator[Page]:
    prof.export_html(tmp_path / "report.html")
    opened = browser.open(tmp_path / "report.html")
    yield opened
    assert opened.errors == []
    assert opened.requests == [(tmp_path / "report.html").as_uri()]
    opened.close()


def test_the_decoded_columns_are_those_of_the_table(page: Page, tmp_path: Path) -> None:
    rows = read_report(tmp_path / "report.html").rows()
    got = page.run(
        """fastprof.ready.then(({model}) => ({
            start: [...model.start], length: [...model.length], depth: [...model.depth],
            parent: [...model.parent], name: [...model.start.keys()].map((row) => model.siteName(row))}))"""
    )
    for name in ("start", "length", "depth"):
        assert got[name] == rows[name].tolist()
    assert got["name"] == read_report(tmp_path / "report.html").names()


@pytest.mark.parametrize("calls", [True, False])
def test_the_table_is_key_averages(page: Page, prof: fastprof.profile, calls: bool) -> None:
    wanted = {
        a.key: (a.count, round(a.cpu_time_total * 1000), round(a.self_cpu_time_total * 1000))
        for a in prof.key_averages(include_python_functions=calls)
    }
    page.run(f"fastprof.parts.state.set({{calls: {str(calls).lower()}}})")
    page.view("table")
    page.run("fastprof.parts.table.update()")
    groups = page.run("fastprof.parts.table.groups()")
    assert {g["label"]: (g["count"], g["total"], g["self"]) for g in groups} == wanted
    shown = page.run("[...document.querySelectorAll('tr[data-key]')].length")
    assert shown == len(wanted)
    order = page.run("fastprof.parts.table.visible().map((group) => group.self)")
    assert order == sorted(order, reverse=True)


def test_the_table_by_shape_thread_and_stack(page: Page, prof: fastprof.profile) -> None:
    page.view("table")
    by_shape = prof.key_averages(group_by_input_shape=True, include_python_functions=True)
    wanted = sorted((a.count, round(a.self_cpu_time_total * 1000)) for a in by_shape)
    for by, count in (("shape", len(wanted)), ("thread", None), ("stack", None)):
        page.run(f"(fastprof.parts.table.choice.by = '{by}', fastprof.parts.table.update())")
        groups = page.run("fastprof.parts.table.groups()")
        assert sum(g["count"] for g in groups) == len(prof.events())
        if count is not None:
            assert sorted((g["count"], g["self"]) for g in groups) == wanted
    text = page.run("fastprof.parts.table.asCsv()")
    assert text.splitlines()[0].startswith("Name,By,Self (ns),Total (ns),Calls")


def test_every_slice_is_drawn_where_the_columns_say(page: Page, prof: fastprof.profile) -> None:
    page.resize(1366, 3000)  # all lines in view
    page.view("timeline")
    page.key("o")  # with the frames of before the start
    drawn = page.run(
        """(async () => {
            const {timeline, timelineDraw} = fastprof.parts;
            const {model} = await fastprof.ready;
            const drawn = [];
            const canvas = timeline.canvas();
            timelineDraw.record(drawn);
            const found = new Map();
            // Windows of 1/64 of the whole, so that slices are wide enough to be drawn one by one.
            const span = (model.end - model.begin) / 64;
            for (let i = -1; i < 65; i++) {
                timeline.show(model.begin + i * span, model.begin + (i + 1) * span);
                canvas.drawNow();
                const {begin, end} = timeline.view;
                const scale = (canvas.width - timelineDraw.GUTTER) / (end - begin);
                for (const {row, x, width} of drawn) {
                    const left = timelineDraw.GUTTER + (model.start[row] - begin) * scale;
                    const right = left + model.length[row] * scale;
                    const error = Math.max(Math.abs(x - Math.max(left, timelineDraw.GUTTER - 2)),
                                           Math.abs(x + width - Math.min(right, canvas.width + 2)));
                    found.set(row, Math.max(found.get(row) || 0, error));
                }
            }
            timelineDraw.record(null);
            const scale = (canvas.width - timelineDraw.GUTTER) / span;
            const wide = [...model.length.keys()].filter((row) => model.length[row] * scale > 3);
            const missing = wide.filter((row) => !found.has(row)).length;
            return {missing, wide: wide.length, worst: Math.max(...found.values())};
        })()"""
    )
    assert drawn["wide"] > 40 and drawn["missing"] == 0
    assert drawn["worst"] < 0.01


def test_a_click_selects_the_slice_under_it(page: Page, prof: fastprof.profile) -> None:
    page.resize(1366, 1600)
    page.view("timeline")
    at = page.run(
        """(async () => {
            const {model} = await fastprof.ready;
            const {timeline, timelineDraw, lanes} = fastprof.parts;
            const row = [...model.length.keys()].find((each) => model.siteName(each) === 'ProfilerStep#2');
            const band = timeline.layout().bands.find((each) => each.lane === model.laneOf(row));
            const box = timeline.canvas().element.getBoundingClientRect();
            const {begin, end, scroll} = timeline.view;
            const x = timelineDraw.GUTTER + (model.start[row] + model.length[row] / 2 - begin) / (end - begin)
                * (timeline.canvas().width - timelineDraw.GUTTER);
            const y = timelineDraw.RULER + band.y - scroll + 3 + (model.depth[row] - band.first + 0.5) * lanes.LINE;
            return {x: box.left + x, y: box.top + y, row};
        })()"""
    )
    page.click(at["x"], at["y"])
    assert page.run("fastprof.parts.state.state.row") == at["row"]
    page.run("new Promise((done) => setTimeout(done, 200))")
    details = page.run("document.querySelector('.details').innerText")
    assert "ProfilerStep#2" in details and "MainThread" in details
    page.screenshot(SCREENSHOTS / "timeline.png")
    page.key("m")
    begin, end = page.run("fastprof.parts.state.state.interval")
    length = next(e for e in prof.events() if e.trace_name == "ProfilerStep#2").cpu_time_total
    assert round(end - begin) == round(length * 1000)
    # What is inside a measured interval is what the table shows.
    page.view("table")
    groups = {g["label"]: g for g in page.run("fastprof.parts.table.groups()")}
    assert groups["ProfilerStep*"]["total"] == round(length * 1000)
    assert groups["ProfilerStep*"]["count"] == 1
    page.key("Escape")
    assert page.run("fastprof.parts.state.state.interval") is None


def test_the_flame_graph_adds_up(page: Page, prof: fastprof.profile) -> None:
    page.view("flame")
    sums = """(tree) => {
        const found = {};
        const visit = (node) => {
            if (node.parent) found[node.name] = (found[node.name] || 0) + node.self;
            if (node.children.some((child) => child.total > node.total + 1)) throw new Error(node.name);
            node.children.forEach(visit);
        };
        visit(tree);
        return {total: tree.total, found};
    }"""
    wanted = {
        a.key: round(a.self_cpu_time_total * 1000)
        for a in prof.key_averages(include_python_functions=True)
    }
    wanted = {name: ns for name, ns in wanted.items() if ns > 0}
    got = page.run(f"({sums})(fastprof.parts.flame.tree())")
    assert {name: ns for name, ns in got["found"].items() if ns > 0} == wanted
    assert got["total"] == sum(wanted.values())
    page.screenshot(SCREENSHOTS / "flame.png")
    page.run("(fastprof.parts.flame.choice.byThread = true, fastprof.parts.flame.update())")
    assert page.run(f"({sums})(fastprof.parts.flame.tree())")["total"] == got["total"]
    page.run(
        "(Object.assign(fastprof.parts.flame.choice, {byThread: false, stacks: true}), fastprof.parts.flame.update())"
    )
    assert page.run(f"({sums})(fastprof.parts.flame.tree())")["total"] == got["total"]
    # Upside down: a first level of what ran itself, with its self time.
    page.run(
        "(Object.assign(fastprof.parts.flame.choice, {stacks: false, inverted: true}), fastprof.parts.flame.update())"
    )
    first = page.run("fastprof.parts.flame.tree().children.map((node) => [node.name, node.total])")
    assert dict(first) == wanted
    widths = page.run(
        """(() => {
            fastprof.parts.flame.redraw();
            const {boxes, root} = fastprof.parts.flame.graphState();
            const width = Math.max(...boxes.map((box) => box.width));
            return boxes.filter((box) => box.node.parent === root).map((box) => [box.node.name, box.width / width]);
        })()"""
    )
    for name, share in widths:
        assert share == pytest.approx(wanted[name] / got["total"], abs=1e-9)


def test_the_search_finds_the_same_everywhere(page: Page, prof: fastprof.profile) -> None:
    page.view("flame")
    events = prof.events()
    count = sum("ward" in e.key for e in events)
    for query in ("WARD", "/w(a)rd/"):
        page.run(f"fastprof.parts.state.set({{query: '{query}'}})")
        said = page.run("document.querySelector('.find .note').innerText")
        assert f"{count} events" in said and said.startswith("2 names")
    page.view("timeline")
    found = []
    for _ in range(count):
        page.run("fastprof.parts.timeline.find(1)")
        found.append(page.run("fastprof.parts.state.state.row"))
    assert len(set(found)) == count and found == sorted(found)
    page.run("fastprof.parts.timeline.find(-1)")
    assert page.run("fastprof.parts.state.state.row") == found[-2]
    page.view("flame")
    share = page.run("document.querySelector('.view.flame .note').innerText")
    assert share.startswith("matched: ")
    page.view("table")
    assert page.run("document.querySelectorAll('tr[data-key]').length") == 2
    page.run("fastprof.parts.state.set({query: '/(/'})")  # not an expression: nothing matches
    assert page.run("document.querySelectorAll('tr[data-key]').length") == 0


def test_source_lines_have_the_time_of_stacks_and_calls(page: Page, prof: fastprof.profile) -> None:
    page.view("source")
    page.run("fastprof.parts.source.update()")
    lines = page.run(
        f"[...fastprof.parts.source.files().get({__file__!r}).lines].map(([line, of]) => [line, of.self, of.count])"
    )
    # All self time of calls and ranges of this file is on some line of it.
    assert sum(line[1] for line in lines) > 0
    definition = next(
        i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "def leaf" in text
    )
    calls = [f for f in prof.python_calls().functions if f.function == "leaf"]
    of_leaf = next(line for line in lines if line[0] == definition)
    assert (of_leaf[1], of_leaf[2]) == (calls[0].own_ns, calls[0].calls)
    assert page.run("document.querySelectorAll('.lines tr').length") > 100
    page.screenshot(SCREENSHOTS / "source.png")


def test_steps_and_memory(page: Page) -> None:
    page.view("steps")
    steps = page.run("fastprof.parts.steps.steps().map((step) => [step.name, step.length])")
    assert [name for name, _ in steps] == [f"ProfilerStep#{i}" for i in range(4)]
    assert "ProfilerStep#2 beside the median" in page.run(
        "document.querySelector('.step').innerText"
    ) or max(steps, key=lambda step: step[1])[0] in page.run(
        "document.querySelector('.step').innerText"
    )
    page.screenshot(SCREENSHOTS / "steps.png")
    page.view("memory")
    page.run("new Promise((done) => setTimeout(done, 200))")
    text = page.run("document.querySelector('.view.memory').innerText")
    assert "At the peak" in text and "forward" in text
    page.screenshot(SCREENSHOTS / "memory.png")


def test_keys_open_the_views(page: Page) -> None:
    titles = page.run("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.innerText)")
    assert titles == ["Summary", "Timeline", "Flame graph", "Table", "Source", "Steps", "Memory"]
    for number, title in enumerate(titles, 1):
        page.key(str(number))
        assert page.run("document.querySelector('[aria-selected=true]').innerText") == title
    page.key("1")
    page.screenshot(SCREENSHOTS / "summary.png")
    page.key("t")
    page.key("t")
    assert page.run("document.documentElement.dataset.theme") == "dark"
    page.screenshot(SCREENSHOTS / "summary_dark.png")
    assert len(page.pdf()) > 10_000


HOSTILE = [
    "</script><script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 2'>",
    "javascript:window.hit=3",
    "\u202egnp.exe\u2066",
    "a\0b\x1b[31m\ufeff",
    "lone \ud800 surrogate \udfff",
    "__proto__",
    "constructor",
    "${window.hit=4}",
    "=cmd|' /C calc'!A0",
    "long " * 100_000,
]


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
            const div = document.createElement('div');
            div.innerHTML = '<img src="https://example.org/x.png" onerror="window.hit = 1" onload="window.hit = 1">';
            document.body.append(div);
            const script = document.createElement('script');
            script.textContent = 'window.hit = 2';
            document.body.append(script);
            fetch('https://example.org/').catch(() => 0);
        })()"""
    )
    page.run("new Promise((done) => setTimeout(done, 200))")
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


def test_a_profile_without_events_opens(browser: Chromium, tmp_path: Path) -> None:
    with fastprof.profile() as prof:
        pass
    prof.export_html(tmp_path / "r.html")
    page = browser.open(tmp_path / "r.html")
    for view in ("timeline", "flame", "table", "source", "summary"):
        page.view(view)
    assert "contains no ranges" in page.run("document.body.innerText")
    assert page.errors == []
    page.close()


def test_many_calls_and_a_narrow_window(browser: Chromium, tmp_path: Path) -> None:
    """What `fastprof run --calls --html` writes of 10^5 calls."""
    (tmp_path / "calls.py").write_text(
        "def f(n):\n    return n and g(n - 1)\ndef g(n):\n    return n and f(n - 1)\n"
        "for _ in range(2000):\n    f(60)\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "fastprof", "run", "--calls", "--html", "--no-table", "calls.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    page = browser.open(tmp_path / "calls.html", width=780, height=560)
    assert page.run("fastprof.ready.then(({model}) => model.n)") > 122_000
    for view in ("timeline", "flame", "table", "source"):
        page.view(view)
        page.screenshot(SCREENSHOTS / f"narrow_{view}.png")
    assert page.run("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.errors == []
    page.close()


def test_a_long_slice_behind_short_ones_is_drawn(browser: Chromium, tmp_path: Path) -> None:
    """Short slices are merged by pixel; one that begins in the pixel of others and is long must not be."""
    rows = []
    for group in range(40):
        begin = group * 1_000_000
        rows += [(begin + 10 * i, begin + 10 * i + 9) for i in range(50)]
        rows.append((begin + 600, begin + 900_000))
    start, end = np.array(rows).T
    table = EventTable(
        {"start_ns": T0 + start, "end_ns": T0 + end, "site": (end - start > 100).astype(int)},
        sites=[fastprof.Site("short"), fastprof.Site("long")],
        t0_ns=T0,
    )
    export_html(table, tmp_path / "r.html")
    page = browser.open(tmp_path / "r.html")
    page.view("timeline")
    drawn = page.run(
        """(async () => {
            const {timeline, timelineDraw} = fastprof.parts;
            const {model} = await fastprof.ready;
            const drawn = [];
            timelineDraw.record(drawn);
            timeline.canvas().drawNow();
            timelineDraw.record(null);
            return drawn.map(({row}) => model.siteName(row));
        })()"""
    )
    assert drawn == ["long"] * 40
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
    result = subprocess.run(
        [sys.executable, "-m", "fastprof", "report", "t.json", "--html"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
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
    from fastprof.cli.event_lists import list_of

    return list_of(fastprof.load(path))
