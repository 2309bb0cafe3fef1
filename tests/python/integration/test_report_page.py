# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a real Chromium: what is drawn equals the table, no request is made, hostile names do nothing.

Screenshots are kept in build/report_screenshots.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import SCREENSHOTS, Chromium, Page
from needs import NEEDS_CHROMIUM
from processes import python
from report_reader import read_report

import fastprof
from fastprof import record_function

pytestmark = [pytest.mark.integrations, NEEDS_CHROMIUM]


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

    # Not all threads: those that other tests left waiting are idle workers, whose time the page leaves out.
    calls = fastprof.CallFilter(exclude_modules=("threading", "concurrent", "queue", "execnet"))
    with fastprof.profile(
        python_calls=calls,
        with_stack=True,
        profile_memory=True,
        record_shapes=True,
        all_threads=False,
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


def test_every_slice_is_drawn_where_the_columns_say(page: Page, prof: fastprof.profile) -> None:
    page.resize(1366, 9000)  # all lines in view, of threads that other tests left waiting, too
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
    page.wait_until("document.querySelector('.details').innerText.includes('ProfilerStep#2')")
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
    page.wait_until("document.querySelector('.view.memory').innerText.includes('At the peak')")
    text = page.run("document.querySelector('.view.memory').innerText")
    assert "At the peak" in text and "forward" in text
    page.screenshot(SCREENSHOTS / "memory.png")


def test_the_mouse_moves_the_timeline(page: Page) -> None:
    page.view("timeline")
    box = page.run("fastprof.parts.timeline.canvas().element.getBoundingClientRect().toJSON()")
    gutter = page.run("fastprof.parts.timelineDraw.GUTTER")
    across = box["width"] - gutter
    x, y = box["left"] + gutter + 0.25 * across, box["top"] + 120
    ctrl, shift = 2, 8

    def view() -> tuple[float, float]:
        begin, end = page.run("(({begin, end}) => [begin, end])(fastprof.parts.timeline.view)")
        return begin, end

    begin, end = view()
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240, modifiers=ctrl)
    page.settle()
    closer = view()
    assert closer[1] - closer[0] == pytest.approx((end - begin) / np.e)
    # What was under the pointer still is.
    under = closer[0] + 0.25 * (closer[1] - closer[0])
    # Events come in whole pixels.
    assert under == pytest.approx(begin + 0.25 * (end - begin), abs=0.002 * (end - begin))

    def drag(to_x: float, **more: Any) -> None:
        page.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1, **more)
        for step in range(1, 5):
            page.mouse("mouseMoved", x + (to_x - x) * step / 4, y, button="left", buttons=1, **more)
        page.mouse("mouseReleased", to_x, y, button="left", clickCount=1, **more)
        page.settle()

    drag(x - 0.2 * across)
    moved = view()
    span = closer[1] - closer[0]
    assert moved[0] - closer[0] == pytest.approx(0.2 * span, rel=0.01)
    assert page.run("fastprof.parts.state.state.interval") is None
    drag(x + 0.5 * across, modifiers=shift)
    first, last = page.run("fastprof.parts.state.state.interval")
    assert first == pytest.approx(moved[0] + 0.25 * span, rel=0.01)
    assert last - first == pytest.approx(0.5 * span, rel=0.01)
    assert view()[0] == moved[0]  # the panel takes room at the right
    assert "Measured interval" in page.run("document.querySelector('.details').innerText")
    page.key("Escape")
    assert view() == pytest.approx(moved)
    page.key("0")
    assert view() == pytest.approx((begin, end))
    row = page.run(
        """fastprof.ready.then(({model}) =>
            [...model.length.keys()].find((row) => model.siteName(row) === 'ProfilerStep#1'))"""
    )
    page.run(f"fastprof.parts.timeline.zoomTo({row})")
    page.run("fastprof.parts.state.selectRow(-1)")
    page.settle()
    y_of = page.run(
        f"""fastprof.ready.then(({{model}}) => {{
            const {{timeline, timelineDraw, lanes}} = fastprof.parts;
            const band = timeline.layout().bands.find((each) => each.lane === model.laneOf({row}));
            return timelineDraw.RULER + band.y - timeline.view.scroll + 3
                + (model.depth[{row}] - band.first + 0.5) * lanes.LINE;
        }})"""
    )
    page.click(box["left"] + gutter + 0.8 * across, box["top"] + y_of, count=2)
    assert page.run("fastprof.parts.state.state.row") == row


def test_a_line_has_the_time_of_the_calls_made_from_it(browser: Chromium, tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        "import json\n"
        "import time\n"
        "\n"
        "def again(n):\n"
        "    time.sleep(0.05)\n"
        "    return n and again(n - 1)\n"
        "\n"
        "def work():\n"
        "    for _ in range(3):\n"
        "        json.dumps([1, 2, 3], indent=1)\n"
        "    again(3)\n"
        "    time.sleep(0.3)\n"
        "\n"
        "work()\n"
    )
    words = ("run", "--html", "-o", "t.fastprof", script)
    python("-m", "fastprof", *words, cwd=tmp_path, check=True)
    table = fastprof.load(tmp_path / "t.fastprof")
    ns: dict[str, list[int]] = {}
    for row, length in enumerate(table.duration_ns.tolist()):
        ns.setdefault(table.name(row), []).append(length)
    sleeps = ns["<built-in function sleep>"]
    page = browser.open(next(tmp_path.glob("*.html")))
    page.view("source")
    page.run("fastprof.parts.source.update()")
    lines = dict(
        page.run(
            f"[...fastprof.parts.source.files().get({str(script)!r}).lines].map("
            "([line, of]) => [line, [of.self, of.total]])"
        )
    )
    assert lines[12] == [max(sleeps), max(sleeps)]
    assert lines[5] == [sum(sleeps) - max(sleeps)] * 2  # four calls, at four depths
    recursive = sorted(ns[f"{script}(4): again"])
    assert lines[11] == [0, recursive[-1]]
    assert lines[6] == [0, recursive[-2]]  # the calls inside of the outermost are part of it
    assert lines[14] == [0, ns[f"{script}(8): work"][0]]
    own = table.duration_ns.copy()
    inner = np.flatnonzero(table.column("parent") >= 0)
    np.subtract.at(own, table.column("parent")[inner], table.duration_ns[inner])
    for definition in (4, 8):  # what the functions themselves did
        name = next(name for name in ns if name.startswith(f"{script}({definition}): "))
        rows = [row for row in range(len(table)) if table.name(row) == name]
        assert lines[definition] == [own[rows].sum()] * 2
    assert lines[1][0] == lines[1][1]
    assert page.run("document.querySelector('.file.chosen').title") == str(script)
    assert "work()" in page.run("document.querySelector('.lines').innerText")
    page.screenshot(SCREENSHOTS / "source_lines.png")
    assert page.errors == []
    page.close()
