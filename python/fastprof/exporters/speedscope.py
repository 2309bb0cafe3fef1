# SPDX-License-Identifier: Apache-2.0
"""speedscope JSON: one evented profile per thread, for https://www.speedscope.app.

Format: the schema published with speedscope (file-format-schema.json), profiles of type "evented".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from fastprof.base.atomic_file import atomic_text
from fastprof.base.distinct import distinct
from fastprof.base.visible_text import encodable_text
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = ["export_speedscope", "speedscope_profile"]

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
    earlier one is cut at the earlier one's end.
    """
    tree = table if isinstance(table, EventTree) else EventTree.of(table)
    start, end = tree.column("start_ns"), tree.column("end_ns")
    nests = np.ones(len(tree), np.bool_)
    if tree.is_async is not None:
        nests &= ~tree.is_async
    if tree.on_cpu is not None:
        nests &= tree.on_cpu
    origin = int(start[nests].min()) if bool(nests.any()) else 0
    thread = tree.take(tree.table.thread)
    names = tree.take(tree.table.name_id)
    used, frame = np.unique(names, return_inverse=True)
    profiles = []
    labels = {t.id: t.name for t in tree.table.tracks}
    for number in distinct(thread[nests]).tolist():
        rows = np.flatnonzero(nests & (thread == number))
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        spans = zip(
            (start[rows] - origin).tolist(),
            (end[rows] - origin).tolist(),
            frame[rows].tolist(),
            strict=True,
        )
        events = list(_brackets(spans))
        profiles.append(
            {
                "type": "evented",
                "name": labels.get(number) or f"thread {number}",
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": int(end[nests].max()) - origin,
                "events": events,
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


def _brackets(spans: Any) -> Iterator[dict[str, Any]]:
    """Yield open and close events in time order, properly nested."""
    open_: list[tuple[int, int]] = []  # (end, frame)
    for start, end, frame in spans:
        while open_ and open_[-1][0] <= start:
            at, closed = open_.pop()
            yield {"type": "C", "frame": closed, "at": at}
        if open_:
            end = min(end, open_[-1][0])
        yield {"type": "O", "frame": frame, "at": start}
        open_.append((end, frame))
    while open_:
        at, closed = open_.pop()
        yield {"type": "C", "frame": closed, "at": at}
