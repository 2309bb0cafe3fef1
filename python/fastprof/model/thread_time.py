# SPDX-License-Identifier: Apache-2.0
"""Time of threads whose work is split into tasks: each instant of a thread belongs to one row, the innermost that runs.

The rows of a task are on a track of their own, but their work is their thread's. A row of a task runs while it is
open and the task is not suspended, so it consists of pieces: its interval without the task's "await" rows. Pieces nest
in the rows of the thread, such as the event loop's call of the task's step. EventTree.by_thread applies the result,
and every sum over a thread (tables, trees, flame graphs, explain, the HTML report) derives from it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.distinct import distinct
from fastprof.model.nesting import nest_intervals, sum_by
from fastprof.model.parents import skip_rows
from fastprof.model.sites import TASK_CATEGORIES
from fastprof.model.table import EventTable

__all__ = [
    "AWAIT_CATEGORY",
    "LIFETIME_CATEGORY",
    "ThreadTime",
    "running_pieces",
    "task_rows",
    "task_tracks",
    "thread_time",
]

Array: TypeAlias = NDArray[Any]
AWAIT_CATEGORY, LIFETIME_CATEGORY = "task_await", "task_lifetime"


class ThreadTime(NamedTuple):
    """Corrections of a tree by track, by table row. Self time is duration - suspended - children's - given.

    parent: int32; that of the track, or for the outermost rows of a task, the row of the thread that ran it; -1 if
    several did, each for a piece of the row. suspended_ns: time in which the row's task was suspended. given_ns: time
    of pieces of rows that run inside of the row and are not its children, less that of its children elsewhere.
    """

    parent: Array
    suspended_ns: Array
    given_ns: Array


def task_tracks(table: EventTable) -> Array | None:
    """Return a mask, by track, of the tracks of tasks; None if there are none."""
    tracks = table.tracks
    if not len(tracks):
        return None
    mask: Array = tracks.thread_ids != tracks.ids
    return mask if bool(mask.any()) else None


def running_pieces(table: EventTable, rows: Array) -> tuple[Array, Array, Array]:
    """Return (row, start, end) of the times in which `rows`, those of tasks, run: without suspensions of their task."""
    of_site = np.array([c == AWAIT_CATEGORY for c in table.sites.field("category")], np.bool_)
    return _pieces(table, rows, np.flatnonzero(of_site[table.column("site")]))


def task_rows(table: EventTable) -> Array | None:
    """Return a mask of the rows that describe tasks and their suspensions; None if there are none."""
    views = np.array([name in TASK_CATEGORIES for name in table.sites.field("category")], np.bool_)
    return views[table.column("site")] if bool(views.any()) else None


def thread_time(table: EventTable, parent: Array, nests: Array | None) -> ThreadTime | None:
    """Return the corrections for the tasks of a table; None if it has none.

    parent: by table row, on the rows' own tracks. nests: mask of the rows that nest; None for all. Rows of category
    task_lifetime and task_await are a view of the task: they run at no time. Cost: O(n log n) in the rows of threads
    that run tasks. Any thread.
    """
    of_tasks = task_tracks(table)
    if of_tasks is None or not len(table):
        return None
    track = table.column("track")
    site = table.column("site")
    categories = table.sites.field("category")
    described = task_rows(table)
    is_view = np.zeros(len(table), np.bool_) if described is None else described
    is_await = np.array([name == AWAIT_CATEGORY for name in categories], np.bool_)[site]
    in_task = of_tasks[track]
    runs = ~is_view if nests is None else nests & ~is_view
    threads = distinct(table.tracks.thread_ids[of_tasks])
    thread = table.recording_thread
    on_thread = np.flatnonzero(runs & ~in_task & np.isin(thread, threads))
    rows, start, end = _pieces(
        table, np.flatnonzero(runs & in_task), np.flatnonzero(is_await & in_task)
    )
    owner = np.concatenate([on_thread, rows])
    begin = np.concatenate([table.start_ns[on_thread], start])
    stop = np.concatenate([table.end_ns[on_thread], end])
    owner, begin, stop, above = _nested_pieces(table, owner, begin, stop, in_task)
    size = len(table)
    length = stop - begin
    running = sum_by(owner, length, size)
    views = runs & in_task
    suspended = np.zeros(size, np.int64)
    suspended[views] = (table.duration_ns - running)[views]
    suspended[is_view] = table.duration_ns[is_view]
    # The outermost rows of tasks get a parent if all of their pieces that are directly inside of the thread's rows, or
    # else all pieces, are inside of the same row.
    result = skip_rows(parent, ~is_view).astype(np.int64)
    least, most = np.full(size, size, np.int64), np.full(size, -1, np.int64)
    direct = (above < 0) | ~in_task[above]
    has_direct = np.zeros(size, np.bool_)
    has_direct[owner[direct]] = True
    counts = direct | ~has_direct[owner]
    np.minimum.at(least, owner[counts], above[counts])
    np.maximum.at(most, owner[counts], above[counts])
    outermost = views & (result < 0) & (least == most)
    result[outermost] = most[outermost]
    result[is_view] = -1
    # A piece that is not inside of its row's parent is given by the row that it is inside of.
    moved = result[owner] != above
    given = np.zeros(size + 1, np.int64)
    np.add.at(given, above[moved], length[moved])
    np.add.at(given, result[owner[moved]], -length[moved])  # -1 is the last entry
    return ThreadTime(result.astype(np.int32), suspended, given[:-1])


def _nested_pieces(
    table: EventTable, owner: Array, begin: Array, stop: Array, in_task: Array
) -> tuple[Array, Array, Array, Array]:
    """Return (owner, begin, stop, row around it or -1) of pieces, cut so that any two are nested or apart.

    Of two rows that overlap in part, such as a call and a range that begins in it and ends later, the time of both
    belongs to the one that began later, and is a piece of that inside of the other.
    """
    thread = table.recording_thread
    while True:
        group = thread[owner]
        # Of equal pieces, the outer one is the thread's, or that of the row that began first.
        whole_row = (-table.end_ns[owner], table.start_ns[owner], in_task[owner])
        order = np.lexsort((*whole_row, -stop, begin, group))
        owner, begin, stop, group = owner[order], begin[order], stop[order], group[order]
        parent = nest_intervals(begin, stop, group).astype(np.int64)
        # The latest end among the earlier children of the same parent, or outermost rows of the thread.
        family = np.where(parent >= 0, parent, -1 - group)
        by_family = np.argsort(family, kind="stable")
        _, first = np.unique(family[by_family], return_index=True)
        number = np.zeros(len(owner), np.int64)
        number[first[1:]] = 1
        # Offsets by family make one running maximum restart in each.
        base, width = (int(begin.min()), int(stop.max())) if len(begin) else (0, 0)
        offset = np.cumsum(number) * (width - base + 1)
        reach = np.maximum.accumulate(stop[by_family] - base + offset)
        before = np.append(-1, reach[:-1]) - offset + base
        overlaps = before > begin[by_family]
        overlaps[first] = False
        at = by_family[overlaps]
        if not len(at):
            above: Array = np.where(parent >= 0, owner[parent], -1)
            return owner, begin, stop, above
        cut = before[overlaps]
        owner = np.concatenate([owner, owner[at]])
        begin = np.concatenate([begin, cut])
        ends = stop[at].copy()
        stop[at] = cut
        stop = np.concatenate([stop, ends])


def _pieces(table: EventTable, rows: Array, awaits: Array) -> tuple[Array, Array, Array]:
    """Return (row, start, end) of the times in which rows of tasks run. A row without any has an empty piece."""
    start, end, track = table.start_ns, table.end_ns, table.column("track").astype(np.int64)
    awaits = awaits[np.lexsort((start[awaits], track[awaits]))]
    # Keys that order all times by track: ranks of the times, below `width`.
    times = distinct(np.concatenate([start[rows], end[rows], start[awaits], end[awaits]]))
    width = len(times) + 1

    def key(of: Array, values: Array) -> Array:
        found: Array = track[of] * width + np.searchsorted(times, values[of])
        return found

    low = np.searchsorted(key(awaits, end), key(rows, start), side="right")
    high = np.searchsorted(key(awaits, start), key(rows, end), side="left")
    number = np.maximum(high - low, 0)  # suspensions that overlap the row
    at = np.repeat(np.arange(len(rows)), number + 1)
    step = np.arange(len(at)) - np.repeat(np.cumsum(number + 1) - (number + 1), number + 1)
    begin, stop = start[rows][at], end[rows][at]
    later, before_last = step > 0, step < number[at]
    begin[later] = np.maximum(begin[later], end[awaits][(low[at] + step - 1)[later]])
    stop[before_last] = np.minimum(stop[before_last], start[awaits][(low[at] + step)[before_last]])
    kept = stop > begin
    some = np.zeros(len(rows), np.bool_)
    some[at[kept]] = True
    kept |= (step == 0) & ~some[at]
    return rows[at[kept]], begin[kept], np.maximum(begin, stop)[kept]
