# SPDX-License-Identifier: Apache-2.0
"""Self times of small programs, drawn and summed by hand, are the same in every view, to the nanosecond."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium
from needs import NEEDS_CHROMIUM

import fastprof
from fastprof import EventTable
from fastprof.analysis import explain
from fastprof.exporters.range_stacks import collapsed_ranges
from fastprof.model.sites import Site, Track
from fastprof.report.export import export_html
from fastprof.views import EventList
from fastprof.views.path_tree import Node, path_tree
from fastprof.views.python_calls import PythonCallStats

pytestmark = pytest.mark.integrations

# Rows (track, name, start, end). Track 0 is the thread "main", "T..." a task of it, "W..." another thread. Names
# "task" and "await" are the rows of a task and of its suspensions. Expected: self time by name. Times in ns.
Rows = list[tuple[Any, str, int, int]]
PROGRAMS: dict[str, tuple[Rows, dict[str, int]]] = {
    "one call": ([(0, "f", 0, 100)], {"f": 100}),
    "nested": ([(0, "f", 0, 100), (0, "g", 20, 50)], {"f": 70, "g": 30}),
    "recursive": ([(0, "f", 0, 100), (0, "f", 20, 50)], {"f": 100}),
    "two threads": ([(0, "f", 0, 100), ("W", "g", 10, 90)], {"f": 100, "g": 80}),
    "a step of a task is the loop's time": (
        [(0, "loop", 0, 100), (0, "run", 10, 90), ("T", "task", 20, 80), ("T", "h", 20, 80)],
        {"loop": 20, "run": 20, "h": 60},
    ),
    "two tasks in turn": (
        [(0, "loop", 0, 100), ("T1", "task", 10, 90), ("T1", "a", 10, 30), ("T1", "await", 30, 60),
         ("T1", "a", 60, 90), ("T2", "task", 30, 60), ("T2", "b", 30, 60)],
        {"loop": 20, "a": 50, "b": 30},
    ),
    "a range across a suspension": (
        [(0, "loop", 0, 100), ("T1", "task", 10, 90), ("T1", "r", 15, 85), ("T1", "await", 30, 60)],
        {"loop": 60, "r": 40},  # of r, 15 to 30 and 60 to 85
    ),
    "what runs during a suspension": (
        [(0, "loop", 0, 100), ("T1", "task", 10, 90), ("T1", "r", 10, 90), ("T1", "await", 30, 60),
         ("T2", "task", 30, 60), ("T2", "s", 35, 55)],
        {"loop": 30, "r": 50, "s": 20},
    ),
    "ranges in a range across suspensions": (
        [(0, "loop", 0, 100), ("T1", "task", 0, 100), ("T1", "out", 10, 90), ("T1", "in", 20, 70),
         ("T1", "await", 30, 60)],
        {"loop": 50, "out": 30, "in": 20},
    ),
    "a range that outlives the call that began it": (
        [(0, "loop", 0, 100), ("T1", "task", 10, 90), ("T1", "c", 10, 30), ("T1", "r", 20, 80),
         ("T1", "await", 40, 60), ("T1", "d", 60, 70)],
        # c 10 to 20; r 20 to 40 and 70 to 80; d 60 to 70; the rest is the loop's
        {"loop": 50, "c": 10, "r": 30, "d": 10},
    ),
    "a task of another thread": (
        [(0, "f", 0, 100), ("W", "loop", 0, 100), ("TW", "task", 40, 60), ("TW", "h", 40, 60)],
        {"f": 100, "loop": 80, "h": 20},
    ),
    "idle between tasks": (
        [("T1", "task", 10, 90), ("T1", "a", 10, 20), ("T1", "await", 20, 80), ("T1", "a", 80, 90)],
        {"a": 20},
    ),
}  # fmt: skip


def table_of(rows: Rows) -> EventTable:
    labels = list(
        dict.fromkeys(
            [0, *(["W"] if any("W" in str(r[0]) for r in rows) else []), *(r[0] for r in rows)]
        )
    )
    threads = {label: labels.index("W" if "W" in str(label) else 0) for label in labels}
    names = list(dict.fromkeys(row[1] for row in rows))
    category = {"task": "task_lifetime", "await": "task_await"}
    rows = sorted(rows, key=lambda row: (labels.index(row[0]), row[2], -row[3]))
    return EventTable(
        {
            "start_ns": [1000 + row[2] for row in rows],
            "end_ns": [1000 + row[3] for row in rows],
            "track": [labels.index(row[0]) for row in rows],
            "site": [names.index(row[1]) for row in rows],
        },
        sites=[Site(name, category=category.get(name, "python_function")) for name in names],
        tracks=[
            Track(i, 7, threads[label], str(label), thread_id=threads[label] if str(label)[0] == "T" else -1)
            for i, label in enumerate(labels)
        ],
        t0_ns=1000,
        t1_ns=1100,
    )  # fmt: skip


def added(pairs: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, ns in pairs:
        found[name] = found.get(name, 0) + round(ns)
    return {name: ns for name, ns in found.items() if ns}


def own_times(nodes: list[Node]) -> list[tuple[str, int]]:
    return [pair for n in nodes for pair in ((n.name, n.own_ns), *own_times(n.children))]


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_views_in_python_agree(program: str) -> None:
    rows, expected = PROGRAMS[program]
    table = table_of(rows)
    events = EventList.from_table(table)
    averages = events.key_averages(include_python_functions=True)
    assert added((a.key, a.self_cpu_time_total * 1000) for a in averages) == expected
    nodes = path_tree(events, visible=True)
    assert added(own_times(nodes)) == expected
    assert sum(node.total_ns for node in nodes) == sum(expected.values())
    stacks = ((path.split(";")[-1], ns) for path, ns in collapsed_ranges(table))
    assert added(stacks) == expected
    if "outlives" not in program and "across" not in program and "during" not in program:
        assert added((f.function, f.own_ns) for f in PythonCallStats(table).functions) == expected
    if not any("W" in str(row[0]) for row in rows):  # explain() is about one thread
        where = [
            claim for claim in explain(table).where if "outside of any event" not in claim.text
        ]
        assert sorted(claim.ns for claim in where) == sorted(expected.values())


@NEEDS_CHROMIUM
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_page_agrees(program: str, browser: Chromium, tmp_path: Path) -> None:
    rows, expected = PROGRAMS[program]
    export_html(EventList.from_table(table_of(rows)), tmp_path / "r.html")
    page = browser.open(tmp_path / "r.html")
    groups, flame = page.run(
        """fastprof.ready.then(({model}) => {
            const {aggregate, flameTree} = fastprof.parts;
            return [aggregate.groups(model, {}).map((g) => [g.label, g.self]),
                    flameTree.build(model, {}, (row, self) => self, false).total];
        })"""
    )
    page.close()
    assert added(groups) == expected
    assert flame == sum(expected.values())


def test_explain_says_what_blocked_an_event_loop(tmp_path: Path) -> None:
    import asyncio
    import time

    async def handle() -> None:
        await asyncio.sleep(0)
        time.sleep(0.02)

    async def main() -> None:
        await asyncio.gather(*(handle() for _ in range(5)))

    with fastprof.profile(python_calls=True) as prof:
        asyncio.run(main())
    text, _ = explain(prof).findings()[0]
    line = handle.__code__.co_firstlineno + 2
    assert f"{Path(__file__).name}:{line} in handle() by sleep, 5 times" in text
    blocked = re.match(r"the event loop was blocked ([\d.]+)ms at ", text)
    assert blocked and float(blocked[1]) >= 20  # longer on a busy machine


GET = "<built-in method get of _queue.SimpleQueue object>"
WORKER = "/usr/lib/python3.12/concurrent/futures/thread.py(69): _worker"
# Two workers, of which one has no work, a thread that waits, and two tasks that run the same coroutine.
POOL: Rows = [
    (0, "main", 0, 100), (0, "/usr/lib/python3.12/threading.py(1080): join", 50, 90),
    ("W1", WORKER, 0, 100), ("W1", GET, 0, 60), ("W1", "job", 60, 100),
    ("W2", WORKER, 0, 100), ("W2", GET, 0, 100),
    ("T (Task-1)", "h", 10, 20), ("T (Task-2)", "h", 20, 30),
]  # fmt: skip


@NEEDS_CHROMIUM
def test_the_page_folds_tasks_of_a_coroutine_and_idle_workers(
    browser: Chromium, tmp_path: Path
) -> None:
    export_html(EventList.from_table(table_of(POOL)), tmp_path / "r.html")
    page = browser.open(tmp_path / "r.html")
    bands = """fastprof.ready.then(({model}) => {
        const {lanes, flameTree} = fastprof.parts;
        const labels = lanes.layout(model).bands.filter((b) => b.type !== "process").map((b) => b.label);
        return [labels, flameTree.build(model, {}, (row, self) => self, false).total];
    })"""
    labels, flame = page.run(bands)
    assert flame == 140
    assert labels == ["0", "W1", "idle workers × 1", "T × 2"]
    row = "model.n - 1"
    page.run(f"fastprof.ready.then(({{model}}) => fastprof.parts.timeline.zoomTo({row}))")
    assert page.run(bands)[0] == [*labels, "task T (Task-1)", "task T (Task-2)"]
    page.view("flame")
    threads = """(() => {
        const lists = [...document.querySelectorAll(".view.flame select")];
        const list = lists.find((each) => each.options[0].text === "all");
        const totals = [...list.options].map((option) => {
            list.value = option.value;
            list.dispatchEvent(new Event("change"));
            return [option.text, fastprof.parts.flame.tree().total];
        });
        return totals;
    })()"""
    assert page.run(threads) == [
        ["all", 140], ["0", 80], ["W1", 40], ["idle workers × 1", 0], ["T × 2", 20],
    ]  # fmt: skip
    page.close()
