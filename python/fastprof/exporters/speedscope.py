# SPDX-License-Identifier: Apache-2.0
"""speedscope JSON: one evented profile per thread, for https://www.speedscope.app.

Format: the schema published with speedscope (file-format-schema.json), profiles of type "evented".
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastprof.base.atomic_file import atomic_text
from fastprof.base.distinct import distinct
from fastprof.base.visible_text import encodable_text
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["export_speedscope", "nesting", "speedscope_profile", "thread_brackets"]

_MOST_CUTS = 8  # pieces a range on average; n ranges that all overlap would have n * n / 2
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def export_speedscope(
    table: EventTable | EventTree, path: str | os.PathLike[str], name: str | None = None
) -> None:
    """Write the ranges of a table as speedscope JSON, without async rows; gzip if the path ends in .gz.

    name: title of the document; default: the name of the process. Any thread. Raises errors.IoError if the
    file cannot be written.
    """
    if name is None:
        source = table.table if isinstance(table, EventTree) else table
        name = source.process_name or "fastprof"
    with atomic_text(path) as file:
        json.dump(speedscope_profile(table, name), file, separators=(",", ":"), allow_nan=False)


def speedscope_profile(table: EventTable | EventTree, name: str = "fastprof") -> dict[str, Any]:
    """Return the document as a dictionary. Times are in ns from the first row.

    The format requires the events of a thread to nest properly: a range that partly overlaps an
    earlier one is cut in two at the earlier one's end, as one of a task is at the end of the call that began it.
    Where most ranges overlap many others, only the first part remains.
    """
    tree = table if isinstance(table, EventTree) else EventTree.of(table)
    used, frame = np.unique(tree.take(tree.table.name_id), return_inverse=True)
    profiles = []
    labels = {t.id: t.name for t in tree.table.tracks}
    end_ns, threads = thread_brackets(tree, frame.reshape(-1))
    for number, brackets in threads:
        profiles.append(
            {
                "type": "evented",
                "name": labels.get(number) or f"thread {number}",
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": end_ns,
                "events": [
                    {"type": "O" if opens else "C", "frame": each, "at": at}
                    for opens, each, at in brackets
                ],
            }
        )
    texts = tree.table.names
    return {
        "$schema": _SCHEMA,
        "name": name,
        "exporter": "fastprof",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": encodable_text(texts[code])} for code in used.tolist()]},
        "profiles": profiles,
    }


def thread_brackets(
    tree: EventTree, frame: Any
) -> tuple[int, list[tuple[int, Iterator[tuple[bool, int, int]]]]]:
    """Return the end, and of each thread its id and (opens, frame, time) in time order, properly nested.

    frame: of each row of the tree. Times are in ns from the first row; async rows and those of devices are left out.
    """
    start, end = tree.column("start_ns"), tree.column("end_ns")
    nests = nesting(tree)
    origin = int(start[nests].min()) if bool(nests.any()) else 0
    thread = tree.take(tree.table.thread)
    found = []
    for number in distinct(thread[nests]).tolist():
        rows = np.flatnonzero(nests & (thread == number))
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        columns = (start[rows] - origin, end[rows] - origin, frame[rows])
        spans = zip(*(c.tolist() for c in columns), strict=True)
        found.append((number, _brackets(spans, _MOST_CUTS * len(rows))))
    return (int(end[nests].max()) - origin if found else 0), found


def nesting(tree: EventTree) -> NDArray[np.bool_]:
    """Return the mask of a tree's rows that a stack can have: neither async nor of a device."""
    nests = np.ones(len(tree), np.bool_)
    for mask in (None if tree.is_async is None else ~tree.is_async, tree.on_cpu):
        if mask is not None:
            nests &= mask
    return nests


def _brackets(spans: Any, cuts: int) -> Iterator[tuple[bool, int, int]]:
    open_: list[tuple[int, int]] = []  # (end, frame)
    # A heap of what goes on after the range around it has ended: (start, -end, frame).
    rests: list[tuple[int, int, int]] = []
    for start, end, frame in _with_rests(iter(spans), rests):
        while open_ and open_[-1][0] <= start:
            at, closed = open_.pop()
            yield False, closed, at
        if open_ and end > open_[-1][0]:
            if cuts:
                heapq.heappush(rests, (open_[-1][0], -end, frame))
                cuts -= 1
            end = open_[-1][0]
        yield True, frame, start
        open_.append((end, frame))
    while open_:
        at, closed = open_.pop()
        yield False, closed, at


def _with_rests(
    spans: Iterator[tuple[int, int, int]], rests: list[tuple[int, int, int]]
) -> Iterator[tuple[int, int, int]]:
    """Yield spans, and rests between them as they appear, in the order of their starts, the longer first."""
    span = next(spans, None)
    while span is not None or rests:
        if span is None or (rests and rests[0][:2] < (span[0], -span[1])):
            start, end, frame = heapq.heappop(rests)
            yield start, -end, frame
        else:
            yield span
            span = next(spans, None)
