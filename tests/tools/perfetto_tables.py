# SPDX-License-Identifier: Apache-2.0
"""Load a Perfetto trace, and list what its table contains: slices, counters, arrows, args."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import fastprof
from fastprof.model.table import EventFlag, EventKind, EventTable

SLICES = (EventKind.RANGE, EventKind.ASYNC_RANGE, EventKind.MARK)


def load(folder: Path, data: bytes, **limits: int) -> EventTable:
    path = folder / "t.pftrace"
    path.write_bytes(data)
    return fastprof.load(path, **limits)


def slices(table: EventTable) -> list[tuple[int, int, str, str]]:
    """Return (ns, duration, name, category) of ranges and marks; the duration of unfinished ones is -1."""
    categories = table.sites.field("category")
    found = []
    for row, kind in enumerate(table.column("kind").tolist()):
        if kind in SLICES:
            finished = int(table.column("flags")[row]) & EventFlag.FINISHED
            duration = int(table.duration_ns[row]) if finished else -1
            site = int(table.column("site")[row])
            found.append((int(table.start_ns[row]), duration, table.name(row), categories[site]))
    return found


def counters(table: EventTable) -> list[tuple[int, str, float]]:
    found = []
    for row, kind in enumerate(table.column("kind").tolist()):
        if kind == EventKind.COUNTER:
            site = table.sites[int(table.column("site")[row])]
            assert table.payload_words is not None and site.arg_names == ("value",)
            word = table.payload_words[int(table.column("payload")[row])]
            value = word.view(np.float64) if site.arg_types == (2,) else word.view(np.int64)
            found.append((int(table.start_ns[row]), site.name, value.item()))
    return found


def flows(table: EventTable) -> list[tuple[str, str]]:
    """Return the names of the two slices that each arrow connects."""
    kind, start, end, track = (
        table.column(n).tolist() for n in ("kind", "start_ns", "end_ns", "track")
    )
    rows = [r for r in range(len(table)) if kind[r] in SLICES]
    begun: dict[int, str] = {}
    found = []
    for row in range(len(table)):
        if kind[row] not in (EventKind.FLOW_BEGIN, EventKind.FLOW_END):
            continue
        around = [r for r in rows if track[r] == track[row] and start[r] <= start[row] <= end[r]]
        name = table.name(around[-1])
        assert table.payload_words is not None
        flow = int(table.payload_words[int(table.column("payload")[row])])
        if kind[row] == EventKind.FLOW_BEGIN:
            begun[flow] = name
        else:
            found.append((begun[flow], name))
    return found


def args_of(table: EventTable, name: str) -> dict[str, Any]:
    (row,) = (r for r in range(len(table)) if table.name(r) == name)
    args: dict[str, Any] = json.loads(table.coded["metadata_json"][row])
    return args
