# SPDX-License-Identifier: Apache-2.0
"""JSON of the Firefox profiler: stacks of each thread over time, and a marker for each range.

Format: version 48 of processed profiles (docs-developer of https://github.com/firefox-devtools/profiler). The table of
samples has a row for each change of a thread's stack, whose weight is the time until the next one ("tracing-ms").
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.atomic_file import atomic_text
from fastprof.base.visible_text import encodable_text
from fastprof.exporters.speedscope import nesting, thread_brackets
from fastprof.model.sampled_stacks import GIL_WAIT, WAITS
from fastprof.model.sites import Site, Track
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["export_gecko", "gecko_profile"]

Table: TypeAlias = dict[str, Any]

_VERSION, _GECKO_VERSION = 48, 30
_NS_PER_MS = 1e6  # 64-bit floats keep single ns for 26 days
_OTHER, _PYTHON, _NATIVE, _RANGE, _IDLE, _BLOCKED = range(6)
_INTERVAL = 1  # phase of a marker with a begin and an end


def export_gecko(table: EventTable | EventTree, path: str | os.PathLike[str]) -> None:
    """Write gecko_profile(); gzip if the path ends in .gz. Raises errors.IoError if the file cannot be written."""
    with atomic_text(path) as file:
        json.dump(gecko_profile(table), file, separators=(",", ":"), allow_nan=False)


def gecko_profile(table: EventTable | EventTree) -> dict[str, Any]:
    """Return the document as a dictionary. Times are in ms from the first row.

    Stacks consist of ranges, calls and samples. Each range is a marker, too; async rows and those of devices are only
    markers. As in speedscope's files, a range that partly overlaps an earlier one is cut in two there.
    Innermost frames of sampled threads that waited have the category Idle, with what they waited for as subcategory,
    or Blocked: they waited for the GIL.
    fastprof.load() reads the stacks with the same names, places, categories and times. Any thread.
    """
    tree = table if isinstance(table, EventTree) else EventTree.of(table)
    table = tree.table
    sites = [table.sites[number] for number in range(len(table.sites))]
    kinds = sorted({site.category for site in sites})
    site = tree.take(table.column("site")).astype(np.int64)
    thread = tree.take(table.thread)
    start, end = tree.column("start_ns"), tree.column("end_ns")
    end_ns, threads = thread_brackets(tree, site)
    nests = nesting(tree)
    origin = int(start[nests].min()) if bool(nests.any()) else int(start.min(initial=0))
    subcategory = {kind: number for number, kind in enumerate(kinds, 1)}
    categories = []
    for each in sites:
        kind = _frame(each)[0]
        categories.append((kind, subcategory[each.category] if kind == _RANGE else 0))
    is_marked = np.array([kind == _RANGE for kind, _ in categories], np.bool_)[site]
    if table.has("is_python_function"):
        is_marked &= ~tree.column("is_python_function")
    stacks = dict(threads)
    tracks = {track.id: track for track in table.tracks}
    made = []
    for number in sorted({*stacks, *thread[is_marked].tolist()}):
        texts: dict[str, int] = {}
        times, waits = table.thread_waits.get(number, ((), ()))
        known = [(int(at) - origin, int(wait)) for at, wait in zip(times, waits, strict=True)]
        used, tables = _stack_tables(iter(stacks.get(number, ())), categories, known)
        rows = np.flatnonzero(is_marked & (thread == number))
        rows = rows[np.argsort(start[rows], kind="stable")]
        marked = [sites[each] for each in site[rows].tolist()]
        begins, ends = (((at[rows] - origin) / _NS_PER_MS).tolist() for at in (start, end))
        made.append(
            {
                **_thread(tracks.get(number) or Track(number, table.pid, number), table),
                **tables,
                **_frame_tables(
                    [sites[each] for each in used], [categories[each] for each in used], texts
                ),
                "markers": _markers(marked, begins, ends, texts),
            }
        )
        made[-1]["stringArray"] = list(texts)
    return {"meta": _meta(table, kinds, origin, end_ns), "libs": [], "threads": made}


def _stack_tables(
    brackets: Iterator[tuple[bool, int, int]],
    categories: list[tuple[int, int]],
    waits: list[tuple[int, int]],
) -> tuple[list[int], Table]:
    """Return the sites that are frames, and the tables of stacks and samples.

    categories: of each site. waits: times, from each of which on the thread waits for an entry of WAITS, 0: for none.
    """
    nodes: dict[tuple[int | None, int, int], int] = {}
    frames: dict[int, int] = {}
    stack: list[tuple[int, tuple[int | None, int]]] = []  # nodes, with their callers and frames
    found: list[int | None] = []
    times_ns: list[int] = []
    coming = iter(waits)
    next_wait, wait = next(coming, None), 0

    def add_sample(at: int) -> None:
        node = stack[-1][0] if stack else None
        if node is not None and wait:
            node = nodes.setdefault((*stack[-1][1], wait), len(nodes))
        found.append(node)
        times_ns.append(at)

    for opens, site, at in brackets:
        while next_wait is not None and next_wait[0] <= at:
            changes_at, before = next_wait[0], wait
            wait, next_wait = next_wait[1], next(coming, None)
            if changes_at < at and wait != before and stack:
                add_sample(changes_at)
        if opens:
            key = (stack[-1][0] if stack else None, frames.setdefault(site, len(frames)))
            stack.append((nodes.setdefault((*key, 0), len(nodes)), key))
        else:
            stack.pop()
        add_sample(at)
    times: NDArray[np.int64] = np.array(times_ns, np.int64)
    weights = np.diff(times, append=times[-1:]) / _NS_PER_MS
    samples = {"stack": found, "time": (times / _NS_PER_MS).tolist(), "weight": weights.tolist()}
    used = list(frames)
    of_stack = [
        categories[used[frame]]
        if not wait
        else (_BLOCKED, 0)
        if wait == GIL_WAIT
        else (_IDLE, wait)
        for _, frame, wait in nodes
    ]
    stacks = {
        "prefix": [prefix for prefix, *_ in nodes],
        "frame": [frame for _, frame, _ in nodes],
        "category": [category for category, _ in of_stack],
        "subcategory": [subcategory for _, subcategory in of_stack],
    }
    return used, {
        "samples": {**_sized(samples), "weightType": "tracing-ms"},
        "stackTable": _sized(stacks),
    }


def _frame(site: Site) -> tuple[int, str]:
    """Return the category of a frame, and the name of its function."""
    name = site.function or site.name
    short = site.file.rsplit("/", 1)[-1]
    if site.line > 0 and site.name == f"{name} ({short}:{site.line})":
        kind = _PYTHON
    else:
        kind = _NATIVE if short and site.name == f"{name} ({short})" else _OTHER
    if site.category != "sample" or (kind == _OTHER and site.name != name):
        return _RANGE, site.name
    return kind, name


def _frame_tables(
    sites: list[Site], categories: list[tuple[int, int]], texts: dict[str, int]
) -> Table:
    """Return the tables of frames and functions, one of each a site."""
    size = len(sites)
    none, lines = [None] * size, [site.line or None for site in sites]
    frames = {
        "address": [-1] * size,
        "inlineDepth": [0] * size,
        "category": [category for category, _ in categories],
        "subcategory": [subcategory for _, subcategory in categories],
        "func": list(range(size)),
        "nativeSymbol": none,
        "innerWindowID": none,
        "implementation": none,
        "line": lines,
        "column": none,
    }
    functions = {
        "name": [_text(texts, _frame(site)[1]) for site in sites],
        "isJS": [False] * size,
        "relevantForJS": [False] * size,
        "resource": [-1] * size,
        "fileName": [_text(texts, site.file) if site.file else None for site in sites],
        "lineNumber": lines,
        "columnNumber": none,
    }
    no_resources: Table = {"lib": [], "name": [], "host": [], "type": []}
    no_symbols: Table = {"libIndex": [], "address": [], "name": [], "functionSize": []}
    return {
        "frameTable": _sized(frames),
        "funcTable": _sized(functions),
        "resourceTable": _sized(no_resources),
        "nativeSymbols": _sized(no_symbols),
    }


def _markers(
    sites: list[Site], begins_ms: list[float], ends_ms: list[float], texts: dict[str, int]
) -> Table:
    markers = {
        "name": [_text(texts, site.name) for site in sites],
        "startTime": begins_ms,
        "endTime": ends_ms,
        "phase": [_INTERVAL] * len(sites),
        "category": [_RANGE] * len(sites),
        "data": [{"type": "range", "category": encodable_text(site.category)} for site in sites],
    }
    return _sized(markers)


def _thread(track: Track, table: EventTable) -> Table:
    return {
        "processType": "default",
        "processName": encodable_text(table.process_name),
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": encodable_text(track.name or f"thread {track.id}"),
        "isMainThread": track.pid == track.tid,
        "pid": str(track.pid),
        "tid": track.tid,
    }


def _meta(table: EventTable, kinds: list[str], origin_ns: int, end_ns: int) -> Table:
    hz = table.metadata.get("sampling", {}).get("hz") or 1000
    categories = [("Other", "grey"), ("Python", "yellow"), ("Native", "blue"), ("Range", "green")]
    categories += [("Idle", "transparent"), ("Blocked", "orange")]
    shown: Table = {
        "name": "range",
        "tooltipLabel": "{marker.name}",
        "tableLabel": "{marker.name}",
        "chartLabel": "{marker.name}",
        "display": ["marker-chart", "marker-table"],
        "data": [{"key": "category", "label": "Category", "format": "string"}],
    }
    shown_in = {
        _RANGE: ["Other", *map(encodable_text, kinds)],
        _IDLE: ["Other", *WAITS[1:]],
    }
    return {
        "interval": 1000 / hz,
        "startTime": origin_ns / _NS_PER_MS,
        "profilingStartTime": 0,
        "profilingEndTime": end_ns / _NS_PER_MS,
        "processType": 0,
        "product": encodable_text(table.process_name or "fastprof"),
        "importedFrom": "fastprof",
        "stackwalk": 1,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": _VERSION,
        "symbolicated": True,
        "usesOnlyOneStackType": True,
        "doesNotUseFrameImplementation": True,
        "sourceCodeIsNotOnSearchfox": True,
        "markerSchema": [shown],
        "categories": [
            {
                "name": name,
                "color": color,
                "subcategories": shown_in.get(number, ["Other"]),
            }
            for number, (name, color) in enumerate(categories)
        ],
    }


def _text(texts: dict[str, int], value: str) -> int:
    return texts.setdefault(encodable_text(value), len(texts))


def _sized(columns: Table) -> Table:
    """Return a table with the number of its rows."""
    return {**columns, "length": len(next(iter(columns.values())))}
