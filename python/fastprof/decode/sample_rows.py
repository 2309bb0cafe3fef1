# SPDX-License-Identifier: Apache-2.0
"""Add the samples of a recording to its table: a row for each frame for as long as it is on the stack.

Rows have the form of imported profiles (category "sample", of suspended tasks "task_sample"), so that all views and
exporters show them. They lie on the track of their thread, below the innermost range that is open there, and contain
no range: a row ends where a range begins or ends, at the latest.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.distinct import distinct
from fastprof.model.nesting import nest_intervals
from fastprof.model.sampled_stacks import ON_CPU, SampledStacks
from fastprof.model.sites import TASK_SAMPLE, Site, SiteTable, Track, TrackTable
from fastprof.model.table import NO_PAYLOAD, CodedColumn, EventFlag, EventKind, EventTable

__all__ = ["with_samples"]

Array: TypeAlias = NDArray[Any]


class _Rows(NamedTuple):
    start: Array
    end: Array
    code: Array
    parent: Array  # number among these rows; -1: below a range, or nothing
    track: Array


def with_samples(table: EventTable, samples: SampledStacks) -> EventTable:
    """Return the table with rows for the samples behind its own; the table itself if there are none.

    The column is_python_function is true for the new rows: averages leave them out, as they do calls.
    """
    if not len(samples.first_ns):
        return table
    tracks = list(table.tracks) or [Track(0, table.pid, 0)]
    parent, code, of_node = samples.by_function()
    depth = np.zeros(len(parent), np.int32)
    for number, above in enumerate(parent.tolist()):
        depth[number] = depth[above] + 1 if above >= 0 else 0
    known = {(t.pid, t.tid): i for i, t in enumerate(tracks) if t.thread_id < 0 and t.tid}
    parts: list[_Rows] = []
    waits: dict[int, tuple[Array, Array]] = {}
    nothing = np.zeros(0, np.int64)
    wait = np.where(samples.state & ON_CPU, 0, samples.wait)
    is_task = samples.is_task
    of_tasks: set[int] = set()
    first = len(table)
    ranges = _ranges(table)
    for thread, (tid, name) in enumerate(samples.threads):
        runs = np.flatnonzero(samples.thread == thread)
        if not len(runs):
            continue
        pid = samples.pid_of(thread, table.pid)
        track = known.get((pid, tid))
        if track is None:
            track = len(tracks)
            unused = max((t.id for t in tracks), default=0) + 1
            tracks.append(Track(unused, pid, tid, name))
            if tid:
                known[pid, tid] = track
        elif pid != table.pid or not tracks[track].name:
            # Of a followed process: the name that its thread has in prof.samples().
            tracks[track] = tracks[track]._replace(name=name)
        times, known_waits = waits.get(tracks[track].id, (nothing, nothing))
        times = np.concatenate([times, samples.first_ns[runs]])
        order = np.argsort(times, kind="stable")  # several sampled threads may share a track
        joined = np.concatenate([known_waits, wait[runs]])
        waits[tracks[track].id] = times[order], joined[order]
        inside = ranges[table.column("track")[ranges] == track]
        start, node, end_ns = _pieces(samples, runs, of_node, table, inside)
        rows = _rows_of(start, node, end_ns, parent, code, depth, track)
        if not len(rows.start):
            continue
        if is_task[runs[0]]:
            of_tasks.update(rows.code.tolist())  # which no thread has: SuspendedTasks.joined()
        parts.append(_below_ranges(rows, table, inside, first))
        first += len(rows.start)
    if not parts:
        return table
    added = _Rows(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    return _appended(table, added, samples, tracks, of_tasks, waits)


def _ranges(table: EventTable) -> Array:
    """Return the rows that begin and end on their track."""
    plain = table.column("kind") == EventKind.RANGE
    plain &= (table.column("flags") & EventFlag.CROSS_THREAD_END) == 0
    plain &= table.end_ns > table.start_ns
    return np.flatnonzero(plain)


def _pieces(
    samples: SampledStacks, runs: Array, of_node: Array, table: EventTable, inside: Array
) -> tuple[Array, Array, int]:
    """Return times, nodes (-1: unknown) and the end of a thread's samples, cut where ranges begin or end."""
    first, last = samples.first_ns[runs], samples.last_ns[runs]
    count = samples.count[runs].astype(np.int64)
    node = samples.node[runs]
    node = np.where(node < 0, -1, of_node[node]) if len(of_node) else node
    end_ns = int(last[-1]) + samples.period_ns
    if not len(inside):
        return first, node, end_ns
    bounds = distinct(np.concatenate([table.start_ns[inside], table.end_ns[inside]]))
    # Only runs in which a range begins or ends are taken apart into samples, whose times are interpolated.
    crossed = np.searchsorted(bounds, first, "right") != np.searchsorted(bounds, last, "right")
    size = np.where(crossed, count, 1)
    run = np.repeat(np.arange(len(runs)), size)
    index = np.arange(len(run)) - np.repeat(np.cumsum(size) - size, size)
    step = (last - first) / np.maximum(count - 1, 1)
    start = first[run] + (step[run] * index).astype(np.int64)
    following = np.append(start[1:], end_ns)
    at = np.searchsorted(bounds, start, "right")
    cut = np.append(bounds, np.iinfo(np.int64).max)[at]
    ends = np.flatnonzero(cut < following)
    times = np.concatenate([start, cut[ends]])
    nodes = np.concatenate([node[run], np.full(len(ends), -1, np.int64)])
    order = np.argsort(times, kind="stable")
    return times[order], nodes[order], end_ns


def _rows_of(
    start: Array, node: Array, end_ns: int, parent: Array, code: Array, depth: Array, track: int
) -> _Rows:
    """Return a row for each frame while it stays at its place in consecutive stacks, level by level."""
    parts: list[_Rows] = []
    total = 0
    depth_of = np.append(depth, -1)[node]
    above = np.full(len(start), -1, np.int64)  # row of each sample at the level above
    following = np.append(start[1:], end_ns)
    deepest = int(depth_of.max(initial=-1))
    up = [parent]  # by a power of two of levels
    while deepest >> len(up) > 0:
        up.append(np.where(up[-1] >= 0, up[-1][up[-1]], -1))
    for level in range(deepest + 1):
        at = np.flatnonzero(depth_of >= level)
        found = node[at]
        levels = depth[found] - level
        for power, above_by in enumerate(up):
            found = np.where(levels >> power & 1, above_by[found], found)
        fresh = np.ones(len(at), np.bool_)
        fresh[1:] = (found[1:] != found[:-1]) | (at[1:] != at[:-1] + 1)
        begins = np.flatnonzero(fresh)
        last = np.append(begins[1:], len(at)) - 1
        parts.append(
            _Rows(
                start[at[begins]],
                following[at[last]],
                code[found[begins]],
                above[at[begins]],
                np.full(len(begins), track, np.uint32),
            )
        )
        above = np.full(len(start), -1, np.int64)
        above[at] = total + np.cumsum(fresh) - 1
        total += len(begins)
    if not parts:
        nothing = np.zeros(0, np.int64)
        return _Rows(nothing, nothing, nothing, nothing, nothing)
    return _Rows(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _below_ranges(rows: _Rows, table: EventTable, inside: Array, first: int) -> _Rows:
    """Return the rows with parents as numbers in the whole table; `first` is the number of the first."""
    tops = np.flatnonzero(rows.parent < 0)
    parent = np.where(rows.parent < 0, -1, rows.parent + first)
    if len(inside):
        start = np.concatenate([table.start_ns[inside], rows.start[tops]])
        end = np.concatenate([table.end_ns[inside], rows.end[tops]])
        found = nest_intervals(start, end)[len(inside) :]
        below = (found >= 0) & (found < len(inside))
        parent[tops[below]] = inside[found[below]]
    return rows._replace(parent=parent)


def _appended(
    table: EventTable,
    rows: _Rows,
    samples: SampledStacks,
    tracks: list[Track],
    of_tasks: set[int],
    waits: dict[int, tuple[Array, Array]],
) -> EventTable:
    """Return the table with rows behind its own. of_tasks: codes of suspended tasks. waits: its thread_waits."""
    size = len(rows.start)
    codes = enumerate(samples.codes)
    of_samples = [_site(code, TASK_SAMPLE if i in of_tasks else "sample") for i, code in codes]
    sites = [*table.sites, *of_samples]
    columns: dict[str, Any] = {}
    new = {
        "start_ns": rows.start,
        "end_ns": rows.end,
        "site": rows.code + len(table.sites),
        "track": rows.track,
        "parent": rows.parent,
        "is_python_function": np.ones(size, np.bool_),
        "payload": np.full(size, NO_PAYLOAD, np.uint32),
        "flags": np.full(size, EventFlag.FINISHED, np.uint8),
    }
    for name in {*table.to_dict(), *new} - table.coded.keys() - {"id"}:
        old = table.column(name)
        added = new.get(name)
        if added is None:
            added = _default(name, size)
        columns[name] = np.concatenate([old, added.astype(old.dtype)])
    coded = {
        name: CodedColumn(
            np.concatenate([column.codes, np.full(size, -1, np.int32)]), column.values
        )
        for name, column in table.coded.items()
    }
    return table.replaced(
        columns,
        sites=SiteTable.from_sites(sites),
        tracks=TrackTable.from_tracks(tracks),
        coded=coded,
        begin_ordered=False,
        thread_waits=waits,
    )


def _default(name: str, size: int) -> Array:
    from fastprof.model.columns import COLUMNS

    default = COLUMNS[name].default
    return np.full(size, 0 if default is None else default, COLUMNS[name].dtype)


def _site(code: tuple[str, str, int], category: str) -> Site:
    name, file, line = code
    short = file.rsplit("/", 1)[-1]
    shown = f"{name} ({short}:{line})" if line else f"{name} ({short})" if file else name
    return Site(shown, category=category, file=file, function=name, line=max(line, 0))
