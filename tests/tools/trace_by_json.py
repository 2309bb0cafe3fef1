# SPDX-License-Identifier: Apache-2.0
"""Compare the table that load() makes of a Chrome trace with the events that json.load() reads, field by field."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import fastprof
from fastprof.model.table import EventKind

# Arguments of a slice that are columns -> the columns.
_SHAPES = {"Input Dims": "structured_input_shapes", "Concrete Inputs": "concrete_inputs"}
# Work of a device and calls of its runtime name the op that made them by its External id.
_NUMBERS = {
    "External id": ("external_id", "linked_correlation_id"),
    "Sequence number": ("sequence_nr",),
}
_FRAMES = ("Trace",)  # Kineto's slices around the whole recording are metadata of the table


def differences(path: Path) -> list[str]:
    """Return at most 20 differences: slices with name, category, times in ns, process, thread and arguments."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        trace = json.loads(file.read(), parse_float=Decimal)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    base_ns = int(trace.get("baseTimeNanoseconds", 0)) if isinstance(trace, dict) else 0
    table = fastprof.load(path)
    wanted = Counter(
        _of_event(event, base_ns)
        for event in events
        if event.get("ph") == "X" and "dur" in event and event.get("cat") not in _FRAMES
    )
    found: Counter[tuple[Any, ...]] = Counter()
    # Texts as pid or tid ("Spans") get numbers of their own.
    numbers = {e[key] for e in events for key in ("pid", "tid") if isinstance(e.get(key), int)}
    columns = {
        name: table.column(name) for names in _NUMBERS.values() for name in names if table.has(name)
    }
    for row in (table.column("kind") == EventKind.RANGE).nonzero()[0].tolist():
        track = table.tracks[int(table.column("track")[row])]
        site = table.sites[int(table.column("site")[row])]
        arguments: dict[str, Any] = {
            arg: table.coded[name][row]
            for arg, name in _SHAPES.items()
            if name in table.coded and table.coded[name][row]
        }
        for arg, names in _NUMBERS.items():
            values = [int(columns[name][row]) for name in names if name in columns]
            if any(value > 0 for value in values):
                arguments[arg] = max(values)
        found[
            (
                site.name,
                site.category,
                int(table.start_ns[row]),
                int(table.end_ns[row] - table.start_ns[row]),
                *(place if place in numbers else "text" for place in (track.pid, track.tid)),
                json.dumps(arguments, sort_keys=True, default=str),
            )
        ] += 1
    missing, more = wanted - found, found - wanted
    lines = [f"only in the file: {each} x{n}" for each, n in missing.items()]
    lines += [f"only in the table: {each} x{n}" for each, n in more.items()]
    return lines[:20]


def _of_event(event: dict[str, Any], base_ns: int) -> tuple[Any, ...]:
    given = event.get("args") or {}
    arguments = {arg: given[arg] for arg in (*_SHAPES, *_NUMBERS) if given.get(arg)}
    for arg in _NUMBERS:
        if arg in arguments and (not isinstance(arguments[arg], int) or arguments[arg] <= 0):
            del arguments[arg]
    return (
        event.get("name", ""),
        event.get("cat", ""),
        _ns(event["ts"]) + base_ns,
        _ns(event["dur"]),
        *(e if isinstance(e, int) else "text" for e in (event.get("pid"), event.get("tid"))),
        json.dumps(arguments, sort_keys=True, default=str),
    )


def _ns(us: Any) -> int:
    """The ns nearest to the file's decimal number, ties to even."""
    return round(Fraction(us) * 1000)
