# SPDX-License-Identifier: Apache-2.0
"""Waits inside of steps: for data, for a device, for a lock or thread, for the garbage collector. Any thread.

Waits are known by the names of events. For a wait for another thread, what that thread ran meanwhile is found by
the overlap of times.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.steps import StepTimes
from fastprof.analysis.wait_patterns import SYNC_CALL

__all__ = ["Wait", "find_waits", "kind_of"]

Array: TypeAlias = NDArray[Any]

# (kind, names, remedy): the first whose expression matches a name applies.
_KINDS = (
    (
        "garbage collection",
        re.compile(r"^Python GC$|^<built-in function collect>$"),
        "Freeze or disable the garbage collector in the loop, and collect between steps",
    ),
    (
        "waiting for data",
        re.compile(
            r"DataLoader.*__next__|\bdata ?load(er|ing)?\b|\bload(ing)? (the )?(data|batch)\b", re.I
        ),
        "Load data ahead: more workers for the loader, or prefetching",
    ),
    (
        "waiting for the device",
        re.compile(SYNC_CALL.pattern + r"|^aten::(item|_local_scalar_dense)$"),
        "Avoid the synchronization in the loop: read values every few steps only",
    ),
    (
        "waiting for another thread",
        re.compile(
            r"\b(acquire|__enter__)\b.*_thread\.R?lock|_thread\.R?Lock|threading\.py\(\d+\): "
            r"(wait|join|acquire|__enter__)|\b(acquire|wait for) (the )?lock\b|"
            r"queue\.py\(\d+\): (get|put)|pthread_(mutex_lock|cond_wait)",
            re.I,
        ),
        "Shorten what the other thread does while this one waits, or do not wait for it in the loop",
    ),
)


class Wait(NamedTuple):
    """what: kind of wait. rows: events, longest first. ns: their time. meanwhile: what another thread ran."""

    what: str
    rows: Array
    ns: int
    remedy: str
    meanwhile: str


def kind_of(name: str) -> str:
    """Return the kind of wait that a name stands for, "" for none."""
    if name.startswith("<built-in method __exit__") or "release" in name:
        return ""
    return next((kind for kind, names, _ in _KINDS if names.search(name)), "")


def find_waits(times: StepTimes) -> list[Wait]:
    """Return the waits inside of steps, longest first. Only outermost events of a kind count."""
    events = times.events
    kinds = [kind_of(name) for name in events.names]
    found = []
    for kind, _, remedy in _KINDS:
        of_kind = np.array([k == kind for k in kinds], np.bool_)
        if not of_kind.any():
            continue
        rows = np.flatnonzero(of_kind[events.name_id] & (times.step_of >= 0))
        rows = events.outermost(rows)
        length = events.end[rows] - events.start[rows]
        rows = rows[np.argsort(-length, kind="stable")]
        if len(rows):
            other = _meanwhile(times, rows) if kind == "waiting for another thread" else ""
            found.append(Wait(kind, rows, int(length.sum()), remedy, other))
    return sorted(found, key=lambda wait: -wait.ns)


def _meanwhile(times: StepTimes, rows: Array) -> str:
    """Return the name that other threads ran longest during the longest waits, with its thread; "" for none."""
    events = times.events
    overlap: dict[tuple[int, int], int] = {}
    others = np.flatnonzero(events.thread != times.thread)
    others = (
        others[[not kind_of(events.name(int(row))) for row in others]] if len(others) else others
    )
    for row in rows[:20].tolist():
        begin = np.maximum(events.start[others], events.start[row])
        shared = np.minimum(events.end[others], events.end[row]) - begin
        for at in np.flatnonzero(shared > 0).tolist():
            key = (int(events.thread[others[at]]), int(events.name_id[others[at]]))
            overlap[key] = overlap.get(key, 0) + int(shared[at])
    if not overlap:
        return ""
    # Of nested ranges, the inner ones say more: the shortest name that still covers most of the wait.
    longest = max(overlap.values())
    key = min((k for k, ns in overlap.items() if ns >= 0.8 * longest), key=lambda k: overlap[k])
    track = next((t.name for t in events.table.tracks if t.id == key[0]), "")
    return f"thread {track or key[0]} ran {events.names[key[1]]}"
