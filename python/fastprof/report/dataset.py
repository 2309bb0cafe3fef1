# SPDX-License-Identifier: Apache-2.0
"""Dataset: one profile as the head and the blocks that the page reads (page/model.js is the reader)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.memory_summary import MemoryReport
from fastprof.base.formatting import counted
from fastprof.model.blocking_calls import is_blocking_call
from fastprof.model.columns import EventFlag
from fastprof.model.imports import Imports
from fastprof.model.own_cost import own_use_text
from fastprof.model.site_kinds import KINDS, call_kind, site_kinds
from fastprof.model.table import EventTable
from fastprof.model.thread_waits import ThreadWaits
from fastprof.report.details import (
    add_columns,
    add_mark_arguments,
    add_stacks,
    add_values,
    to_bytes,
)
from fastprof.report.findings import communication_of, findings_of
from fastprof.report.memory_details import device_details, failure_details, report_of
from fastprof.report.packing import Packer
from fastprof.report.rows import Lane, ReportRows, arrange
from fastprof.report.signals import add_counters, add_flows, add_marks, add_memory
from fastprof.report.sources import frame_file, source_texts
from fastprof.report.texts import Strings, bounded
from fastprof.views import EventList
from fastprof.views.frame import display_codes_by_site, table_notes

__all__ = ["Dataset", "make_dataset"]

Array: TypeAlias = NDArray[Any]
VERSION = 1
_IDLE = 0.01  # ratio of what an idle worker does to what it waits, at most
_SITE_TEXTS = ("category", "file", "function")


@dataclass
class Dataset:
    """The data of one profile in a report.

    head: read first, as JSON. blocks: packed columns by name. texts: JSON by name. The page decodes blocks and texts
    when a view first needs them.
    """

    head: dict[str, Any]
    blocks: dict[str, bytes]
    texts: dict[str, bytes] = field(default_factory=dict)


def make_dataset(
    events: EventList[Any],
    *,
    title: str = "",
    sources: bool = True,
    facts: Mapping[str, str] | None = None,
    missing: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
    memory: MemoryReport | None = None,
) -> Dataset:
    """Return the dataset of an event list; see report.export.export_html for the parameters."""
    tree = events.event_tree
    if tree is None:
        listed = EventList.from_table(events.to_table())
        tree = listed.event_tree
        assert tree is not None
    imports = Imports(tree.table)
    if imports.details.any():
        tree = tree.without(tree.take(imports.details))
    waits = ThreadWaits(tree.table)
    tree = waits.without_idle(tree)
    rows = arrange(tree)
    table = rows.table
    strings = Strings()
    kept_notes = [*table_notes(tree), *notes]
    lanes, lane_of_track = _lanes(rows, strings)
    _mark_idle(rows, waits, lanes)
    site_numbers, sites = _sites(rows, strings)
    with Packer() as pack:
        _add_times(pack, rows, site_numbers)
        _add_thread_time(pack, rows, lanes)
        if table.has("call_line"):
            pack.block("call_lines").integers("line", rows.column("call_line"))
        add_columns(pack, rows)
        stacks = add_stacks(pack, rows, strings, kept_notes)
        values = add_values(pack, rows, kept_notes)
        marks = add_marks(pack, rows, lane_of_track, site_numbers)
        mark_arguments = add_mark_arguments(rows, kept_notes) if marks else {}
        counters = add_counters(pack, table, strings)
        report = report_of(table) if memory is None else memory
        details = device_details(report, strings)
        devices = [
            {"peak": None, **device, **details.get(device["device"], {})}
            for device in add_memory(pack, rows)
        ]
        flows = add_flows(pack, rows, lane_of_track)
        texts: dict[str, Any] = {
            "values": {
                "columns": values,
                "stacks": stacks,
                "frame_kinds": _frame_kinds(stacks, strings),
                "marks": mark_arguments,
            }
        }
        embedded: dict[str, str] = {}
        if sources:
            embedded, left_out = source_texts(_files(rows, stacks, strings))
            if left_out:
                kept_notes.append(_left_out_note(left_out))
        texts["sources"] = embedded
        packed = pack.finish()
    all_facts = {**(facts or {}), "CPU time of fastprof": own_use_text(table.metadata)}
    head = {
        "version": VERSION,
        "title": bounded(title or table.process_name or "profile", 200),
        "rows": len(rows),
        "t0_ns": str(table.t0_ns),
        "span_ns": max(int(table.t1_ns - table.t0_ns), 0),
        "pid": table.pid,
        "process": bounded(table.process_name, 200),
        "processes": _processes(table),
        "kinds": KINDS,
        "imports": imports.text(),
        "lanes": lanes,
        "sites": sites,
        "marks": marks,
        "counters": counters,
        "memory": devices,
        "memory_missing": report.missing,
        "failures": failure_details(report.failures, strings),
        "findings": findings_of(rows),
        "communication": communication_of(rows),
        "flows": flows,
        "stacks": len(stacks),
        "use_device": events._use_device,
        "notes": [bounded(note) for note in kept_notes],
        "missing": {str(k): bounded(v) for k, v in (missing or {}).items()},
        "facts": {str(k): bounded(v) for k, v in all_facts.items() if v},
        "clock_error_ns": table.clock_error_ns,
        "blocks": {name: directory for name, (directory, _) in packed.items()},
        "strings": strings.texts(),
    }
    return Dataset(
        head,
        {name: data for name, (_, data) in packed.items()},
        {name: to_bytes(value) for name, value in texts.items() if value},
    )


def _left_out_note(files: list[str]) -> str:
    names = ", ".join(os.path.basename(file) for file in files[:5])
    more = ", ..." if len(files) > 5 else ""
    size = "its size" if len(files) == 1 else "their size"
    return f"source text of {counted(len(files), 'file')} left out because of {size}: {names}{more}"


def _add_times(pack: Packer, rows: ReportRows, site_numbers: Array) -> None:
    """Add the block "rows": start (from t0, differences within a lane), length, site, depth, flags."""
    table = rows.table
    start = rows.start_ns - table.t0_ns
    block = pack.block("rows")
    deltas = np.diff(start, prepend=0)
    firsts = np.array([lane.first for lane in rows.lanes], np.int64)
    deltas[firsts] = 0
    block.integers("lane_start", start[firsts], signed=True)
    block.integers("start_delta", deltas)
    block.integers("length", np.maximum(rows.end_ns - rows.start_ns, 0))
    sites = rows.column("site")
    block.integers("site", site_numbers[sites])
    block.integers("depth", rows.depth)
    flags = _flags(rows)
    block.integers("flags", flags)


def _add_thread_time(pack: Packer, rows: ReportRows, lanes: list[dict[str, Any]]) -> None:
    """Add the blocks by which work of tasks counts as their threads' (model/thread_time.py), and idle workers not.

    "callers": the parent + 1 of each row of the tasks' lanes, in the report's order. "away": ns by row, sparse: that
    the task was suspended, and that the row gave to rows that are not its children.
    """
    if rows.tree.away_ns is None:
        return
    number = np.arange(len(rows)) if rows.order is None else np.argsort(rows.order)
    parent = rows.take(rows.tree.parent)
    callers = np.where(parent >= 0, number[parent], -1) + 1
    spans = [
        np.arange(lane["first"], lane["first"] + lane["count"]) for lane in lanes if lane["task"]
    ]
    if spans:
        pack.block("callers").integers("row", callers[np.concatenate(spans)], signed=True)
    suspended, given = (rows.take(each) for each in rows.tree.away_ns)
    at = np.flatnonzero((suspended != 0) | (given != 0))
    block = pack.block("away")
    block.integers("row", at, delta=True)
    block.integers("suspended", suspended[at], signed=True)
    block.integers("given", given[at], signed=True)


def _flags(rows: ReportRows) -> Array:
    """Return bits of each row: 1 unfinished, 2 ended on another thread, 4 on the stack before the start."""
    table = rows.table
    if not table.has("flags"):
        return np.zeros(len(rows), np.int64)
    flags = rows.column("flags")
    if len(flags) and bool((flags == EventFlag.FINISHED).all()):
        return np.zeros(len(rows), np.int64)
    found: Array = ((flags & EventFlag.FINISHED) == 0).astype(np.int64)
    found |= ((flags & EventFlag.CROSS_THREAD_END) != 0).astype(np.int64) << 1
    found |= ((flags & EventFlag.ENCLOSING) != 0).astype(np.int64) << 2
    return found


def _lanes(rows: ReportRows, strings: Strings) -> tuple[list[dict[str, Any]], Array]:
    """Return (lanes, number of each track's thread lane). A track that has only instants gets an empty lane."""
    table = rows.table
    lanes = list(rows.lanes)
    tracks = int(table.column("track").max()) + 1 if len(table) else 0
    of_track = np.full(max(tracks, len(table.tracks), 1), -1, np.int64)
    for number, lane in enumerate(lanes):
        if lane.kind == "thread":
            of_track[lane.track] = number
    used = np.flatnonzero(np.bincount(table.column("track"), minlength=len(of_track)))
    for track in used.tolist():
        if of_track[track] < 0:
            of_track[track] = len(lanes)
            lanes.append(Lane("thread", track, "", 0, len(rows), 0))
    found = []
    for lane in lanes:
        known = lane.track < len(table.tracks)
        track = table.tracks[lane.track] if known else None
        found.append(
            {
                "kind": lane.kind,
                "name": strings.number(track.name if track else ""),
                "pid": track.pid if track else table.pid,
                "tid": track.tid if track else lane.track,
                "task": int(track is not None and track.thread_id >= 0),
                "thread": _thread_lane(table, of_track, lane.track),
                "group": strings.number(_coroutine(track.name) if track else ""),
                "device": lane.device,
                "stream": lane.stream,
                "first": lane.first,
                "count": lane.count,
            }
        )
    return found, of_track


def _mark_idle(rows: ReportRows, waits: ThreadWaits, lanes: list[dict[str, Any]]) -> None:
    """Set "idle" of the lanes of threads that did hardly anything but wait for work."""
    if not waits.idle.any():
        return
    idle_ns = rows.take(np.where(rows.tree.take(waits.idle), rows.tree.total_ns, 0))
    own_ns = rows.take(rows.tree.self_ns)
    for lane in lanes:
        span = slice(lane["first"], lane["first"] + lane["count"])
        idle = int(idle_ns[span].sum())
        lane["idle"] = int(idle > 0 and own_ns[span].sum() <= _IDLE * idle)


def _coroutine(name: str) -> str:
    """Return the name of a task's coroutine: "handle" of "handle (Task-3)"."""
    return name.rpartition(" (Task-")[0] or name


def _thread_lane(table: EventTable, of_track: Array, track: int) -> int:
    """Return the number of the lane of a track's thread, -1 if it has none."""
    if track >= len(table.tracks):
        return -1
    found = np.flatnonzero(table.tracks.ids == table.tracks.thread_ids[track])
    return int(of_track[found[0]]) if len(found) else -1


def _sites(rows: ReportRows, strings: Strings) -> tuple[Array, dict[str, list[int]]]:
    """Return (number of each table site in the report, columns of the sites that occur)."""
    table = rows.table
    used = np.flatnonzero(np.bincount(table.column("site"), minlength=len(table.sites)))
    numbers = np.zeros(max(len(table.sites), 1), np.int64)
    numbers[used] = np.arange(len(used))
    codes = display_codes_by_site(table.sites)
    shown = table.sites.derived("display names", list)
    columns: dict[str, list[int]] = {}
    chosen = used.tolist()
    columns["name"] = [strings.number(table.sites.names[i]) for i in chosen]
    columns["key"] = [strings.number(shown[i]) for i in chosen]
    columns["key_code"] = [codes[i] for i in chosen]
    for name in _SITE_TEXTS:
        values = table.sites.field(name)
        columns[name] = [strings.number(values[i]) for i in chosen]
    lines = table.sites.field("line")
    columns["line"] = [int(lines[i]) for i in chosen]
    calls = table.sites.column("is_python_function")
    columns["call"] = [int(calls[i]) for i in chosen]
    kinds = site_kinds(table.sites)
    columns["kind"] = [kinds[i] for i in chosen]
    columns["wait"] = [int(calls[i] and is_blocking_call(table.sites.names[i])) for i in chosen]
    return numbers, columns


def _frame_kinds(stacks: list[list[int]], strings: Strings) -> dict[str, int]:
    """Return the kind of each frame of the stacks, by its number among the strings."""
    texts = strings.texts()
    return {str(frame): call_kind(texts[frame]) for stack in stacks for frame in stack}


def _processes(table: EventTable) -> dict[str, str]:
    found = {str(table.pid): bounded(table.process_name, 200)}
    processes = table.metadata.get("processes")
    for each in processes if isinstance(processes, list) else ():
        if isinstance(each, dict) and isinstance(each.get("pid"), int):
            found[str(each["pid"])] = bounded(each.get("name") or "", 200)
    return found


def _files(rows: ReportRows, stacks: list[list[int]], strings: Strings) -> list[str]:
    """Return the files named by sites and stacks, those with the most self time first."""
    table = rows.table
    files = [
        str(file) or frame_file(name)
        for file, name in zip(table.sites.field("file"), table.sites.names, strict=True)
    ]
    time: dict[str, float] = {}
    if any(files):
        own = rows.take(rows.tree.self_ns)
        by_site = np.bincount(rows.column("site"), weights=own, minlength=len(files))
        for name, spent in zip(files, by_site.tolist(), strict=True):
            if name:
                time[name] = time.get(name, 0.0) + spent
    texts = strings.texts()
    for frame in {frame for stack in stacks for frame in stack}:
        if name := frame_file(texts[frame]):
            time.setdefault(name, 0.0)
    return sorted(time, key=lambda name: -time[name])
