# SPDX-License-Identifier: Apache-2.0
"""Steps of tasks that block an event loop: which code held the thread while other tasks had to wait. Any thread."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.named_rows import NamedRows
from fastprof.base.short_paths import call_label
from fastprof.model.call_origins import call_origin
from fastprof.model.table import EventTable
from fastprof.model.thread_time import LIFETIME_CATEGORY, running_pieces, task_tracks

__all__ = ["Blocked", "blocked_loops"]

Array: TypeAlias = NDArray[Any]
_BLOCKS_NS = 10_000_000  # a shorter step does not block: a reply that waits for it is hardly late
_MOST_STEPS = 1000  # the longest are read
_PART = 0.5  # share of a step from which a call inside of it is the reason
_CALL = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)


class Blocked(NamedTuple):
    """Steps that block at one place. place: "server.py:17 in handle()". by: the call that took most of it, or "".

    is_trio: whether trio ran the loop. lengths: of the steps, int64 ns, longest first. rows: a row of the table for
    each step, -1 for none.
    """

    place: str
    by: str
    is_trio: bool
    lengths: Array
    rows: Array


def blocked_loops(rows: NamedRows) -> list[Blocked]:
    """Return the places at which steps of 10 ms and more ran while another task of the thread was alive, worst first.

    rows: by thread (not by_task). Without recorded calls or ranges the place is the task's coroutine.
    """
    table = rows.table
    if task_tracks(table) is None:
        return []
    of_site = np.array([c == LIFETIME_CATEGORY for c in table.sites.field("category")], np.bool_)
    lives = np.flatnonzero(of_site[table.column("site")])
    life, start, end = running_pieces(table, lives)
    long = np.flatnonzero(end - start >= _BLOCKS_NS)
    long = long[np.argsort(start[long] - end[long], kind="stable")][:_MOST_STEPS]
    thread = table.recording_thread
    of_trio = _trio_threads(table)
    found: dict[tuple[str, str, bool], list[tuple[int, int]]] = {}
    for step in long.tolist():
        begin, stop, owner = int(start[step]), int(end[step]), int(life[step])
        alive = (thread[lives] == thread[owner]) & (table.start_ns[lives] < stop)
        if int(np.count_nonzero(alive & (table.end_ns[lives] > begin))) < 2:
            continue
        place, by, row = _place(rows, begin, stop, owner)
        found.setdefault((place, by, int(thread[owner]) in of_trio), []).append((stop - begin, row))
    groups = [
        Blocked(*key, np.array([ns for ns, _ in steps]), np.array([row for _, row in steps]))
        for key, steps in found.items()
    ]
    return sorted(groups, key=lambda group: -int(group.lengths.sum()))


def _trio_threads(table: EventTable) -> set[int]:
    """Return the threads with a task, or a recorded call, that only a run of trio has."""
    found = {
        thread
        for track, thread in zip(table.tracks, table.tracks.thread_ids.tolist(), strict=True)
        if track.name.startswith("<TrioToken")
    }
    calls = np.array(["/trio/_core/" in name for name in table.sites.names], np.bool_)
    return found | {*table.recording_thread[calls[table.column("site")]].tolist()}


def _place(rows: NamedRows, begin: int, stop: int, owner: int) -> tuple[str, str, int]:
    """Return (place, call, table row) of the step [begin, stop) of the task whose lifetime is the row `owner`."""
    table = rows.table
    track = rows.tree.column("track")
    inside = (track == table.column("track")[owner]) & (rows.start >= begin) & (rows.end <= stop)
    inside &= rows.end - rows.start >= _PART * (stop - begin)
    calls = np.flatnonzero(inside)  # each is in the one before: they all have half of the step
    calls = calls[np.lexsort((calls, rows.start[calls] - rows.end[calls]))]
    names = [rows.name(int(row)) for row in calls]
    own = [i for i, name in enumerate(names) if call_origin(name) == "own"]
    if not own:
        place = names[-1] if names else f"task {table.name(owner)}"
        return place, "", rows.tree.table_row(int(calls[-1])) if names else -1
    at = own[-1]
    by = call_label(names[at + 1])[1] if at + 1 < len(names) else ""
    row = rows.tree.table_row(int(calls[at]))
    call = _CALL.fullmatch(names[at])
    if call is None:
        return names[at], by, row
    file, line, function = call[1], int(call[2]), call[3]
    called_at = int(rows.tree.column("call_line")[calls[at + 1]]) if by else 0
    return f"{file}:{called_at or _call_line(file, line, by)} in {function}()", by, row


@lru_cache(maxsize=256)
def _call_line(file: str, line: int, callee: str) -> int:
    """Return the line of the only call of `callee` in the function that begins at `line`; else `line`."""
    if not callee:
        return line
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return line
    awaited = {node.value for node in ast.walk(tree) if isinstance(node, ast.Await)}
    lines = {
        call.lineno
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        and line in (function.lineno, *(d.lineno for d in function.decorator_list))
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and call not in awaited
        and callee == getattr(call.func, "attr", getattr(call.func, "id", None))
    }
    return lines.pop() if len(lines) == 1 else line
