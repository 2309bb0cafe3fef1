# SPDX-License-Identifier: Apache-2.0
"""Helpers of tests that read a profile's rows of tasks."""

from __future__ import annotations

import itertools
from typing import Any

from fastprof import EventTable
from fastprof.model.table import EventFlag
from fastprof.model.tree import EventTree
from fastprof.views.frame import machinery_rows


def ranges_by_track(table: EventTable) -> dict[str, list[str]]:
    """Return, by the name of a track, the paths "outer/inner" of its ranges in begin order."""
    tree = EventTree.of(table, hidden=machinery_rows(table))
    paths: list[str] = []
    found: dict[str, list[str]] = {}
    track = tree.column("track")
    for index in range(len(tree)):
        parent = int(tree.parent[index])
        name = table.name(tree.table_row(index))
        paths.append(f"{paths[parent]}/{name}" if parent >= 0 else name)
        found.setdefault(table.tracks[int(track[index])].name, []).append(paths[-1])
    return found


def rows_of(table: EventTable, category: str) -> list[tuple[str, str, int, int, bool]]:
    """Return (track, name, start_ns, end_ns, finished) of the rows of a category."""
    categories = table.sites.field("category")
    track, flags = table.column("track"), table.column("flags")
    return [
        (
            table.tracks[int(track[row])].name,
            table.name(row),
            int(table.start_ns[row]),
            int(table.end_ns[row]),
            bool(flags[row] & EventFlag.FINISHED),
        )
        for row in range(len(table))
        if categories[int(table.column("site")[row])] == category
    ]


def running_intervals(table: EventTable) -> dict[int, list[tuple[int, int]]]:
    """Return when each task ran, by track: from its begin to its end, without its suspensions."""
    categories = table.sites.field("category")
    whole: dict[int, tuple[int, int]] = {}
    awaits: dict[int, list[tuple[int, int]]] = {}
    for row in range(len(table)):
        category = categories[int(table.column("site")[row])]
        track = int(table.column("track")[row])
        times = int(table.start_ns[row]), int(table.end_ns[row])
        if category == "task_lifetime":
            assert track not in whole, "a task has two rows"
            whole[track] = times
        elif category == "task_await":
            awaits.setdefault(track, []).append(times)
    found: dict[int, list[tuple[int, int]]] = {}
    for track, (start, end) in whole.items():
        edges = [start, *(edge for pair in sorted(awaits.get(track, ())) for edge in pair), end]
        found[track] = list(zip(edges[::2], edges[1::2], strict=True))
    return found


def check_tasks(profile: Any) -> None:
    """Check that a thread runs one task at a time, and that a task has rows only while it runs."""
    table = profile.event_table
    running = running_intervals(table)
    for thread in {track.thread_id for track in table.tracks} - {-1}:
        steps = sorted(
            step
            for track, all_steps in running.items()
            if table.tracks[track].thread_id == thread
            for step in all_steps
        )
        for (_, end), (start, _) in itertools.pairwise(steps):
            assert end <= start, "two tasks of one thread run at one time"
    categories = table.sites.field("category")
    for row in range(len(table)):
        track = int(table.column("track")[row])
        category = categories[int(table.column("site")[row])]
        if table.tracks[track].thread_id < 0 or category in ("task_lifetime", "task_await"):
            continue
        start = int(table.start_ns[row])
        assert any(a <= start <= b for a, b in running[track]), "recorded while suspended"
    spent = dict.fromkeys({track.thread_id for track in table.tracks} - {-1}, 0.0)
    threads = {
        track.id: track.thread_id if track.thread_id >= 0 else track.id for track in table.tracks
    }
    for event in profile.events():
        assert event.name != "await"
        assert event.self_cpu_time_total >= 0
        thread = threads[event.thread]
        spent[thread] = spent.get(thread, 0.0) + event.self_cpu_time_total
    for total in spent.values():
        assert total <= (table.t1_ns - table.t0_ns) / 1000 + 0.01, "time of a thread counts twice"
