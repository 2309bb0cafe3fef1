# SPDX-License-Identifier: Apache-2.0
"""Waits inside of steps: their time and events, and what another thread ran during a wait for it.

wait_kinds.py defines which events are waits. Any thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.named_rows import NamedRows
from fastprof.analysis.steps import StepTimes
from fastprof.analysis.wait_kinds import ANOTHER_THREAD, INPUT_OUTPUT, KINDS, POLL_REMEDY, SLEEPING
from fastprof.base.formatting import format_time
from fastprof.model.blocking_calls import awaited
from fastprof.model.call_origins import call_origin, is_python_frame

__all__ = ["Wait", "find_waits", "meanwhile", "things_awaited"]

Array: TypeAlias = NDArray[Any]
_MOST_THINGS = 4


class Wait(NamedTuple):
    """All waits of one kind. what: the kind. rows: events, longest first. ns: their time.

    remedy: what to do. meanwhile: what another thread ran, "" if unknown. things: what was waited for, where that is
    known, with its time: "the end of a thread 1.2s, a lock 30ms".
    """

    what: str
    rows: Array
    ns: int
    remedy: str
    meanwhile: str
    things: str = ""


def find_waits(times: StepTimes) -> list[Wait]:
    """Return the waits inside of steps, longest first. Of nested waits, only the outermost count."""
    events = times.events
    kinds = times.wait_kind
    all_waits = events.outermost(np.flatnonzero((kinds >= 0) & (times.step_of >= 0)))
    found = []
    for number, kind in enumerate(KINDS):
        rows = _longest_first(events, all_waits[kinds[all_waits] == number])
        if kind.what == SLEEPING:
            polls, rows = _polls(events, rows)
            found += polls
        if len(rows):
            other = things = ""
            if kind.what == ANOTHER_THREAD:
                other = meanwhile(times, events.start[rows], events.end[rows])
                things = things_awaited(times, rows)
            found.append(
                Wait(kind.what, rows, int(events.total_ns(rows)), kind.remedy, other, things)
            )
    return sorted(found, key=lambda wait: -wait.ns)


def _longest_first(events: NamedRows, rows: Array) -> Array:
    found: Array = rows[np.argsort(events.start[rows] - events.end[rows], kind="stable")]
    return found


def _polls(events: NamedRows, rows: Array) -> tuple[list[Wait], Array]:
    """Return the sleeps that libraries made, until something else is ready, as one wait; and the other sleeps."""
    caller = events.nearest(rows, events.where(is_python_frame))
    names = [events.names[events.name_id[row]] if row >= 0 else "" for row in caller.tolist()]
    polled = np.array([call_origin(name) == "installed" for name in names], np.bool_)
    if not polled.any():
        return [], rows
    code = events.name_id[caller[polled]]
    longest = int(np.argmax(np.bincount(code, (events.end - events.start)[rows[polled]])))
    what = f"{SLEEPING} in {events.names[longest]}"
    polls = Wait(what, rows[polled], int(events.total_ns(rows[polled])), POLL_REMEDY, "")
    return [polls], rows[~polled]


def things_awaited(times: StepTimes, rows: Array) -> str:
    """Return what these calls, of which none encloses another, waited for, longest first."""
    events = times.events
    codes, number = np.unique(events.name_id[rows], return_inverse=True)
    length = np.bincount(number.reshape(-1), events.end[rows] - events.start[rows])
    found: dict[str, float] = {}
    for code, ns in zip(codes.tolist(), length.tolist(), strict=True):
        if what := awaited(events.names[code]):
            found[what] = found.get(what, 0) + ns
    most = sorted(found.items(), key=lambda item: -item[1])[:_MOST_THINGS]
    return ", ".join(f"{what} {format_time(ns / 1000)}" for what, ns in most)


def meanwhile(times: StepTimes, start: Array, end: Array) -> str:
    """Return the name that other threads ran longest in these intervals, with its thread; "" for none.

    start, end: int64 ns; only the first 20 intervals are read.
    """
    events = times.events
    # A row has the time without waits inside of it: an idle worker runs nothing. One that reads may be idle, so it
    # is named only if no other thread ran for a tenth of the time.
    for kinds in ((ANOTHER_THREAD, INPUT_OUTPUT), (ANOTHER_THREAD,)):
        waits = np.isin(times.wait_kind, [n for n, kind in enumerate(KINDS) if kind.what in kinds])
        overlap = _overlaps(times, start[:20], end[:20], np.where(waits, events.self_ns, 0))
        if max(overlap.values(), default=0) >= 0.1 * (end[:20] - start[:20]).sum():
            break
    if not overlap:
        return ""
    # Inner ranges are more specific: choose the name with the least overlap that is at least 80 % of the largest.
    longest = max(overlap.values())
    key = min((k for k, ns in overlap.items() if ns >= 0.8 * longest), key=lambda k: overlap[k])
    track = next((t.name for t in events.table.tracks if t.id == key[0]), "")
    return f"thread {track or key[0]} ran {events.names[key[1]]}"


def _overlaps(
    times: StepTimes, start: Array, end: Array, waited: Array
) -> dict[tuple[int, int], int]:
    """Return by (thread, name) how long other threads ran it in these intervals, without the time `waited` by row."""
    events = times.events
    length = np.maximum(events.end - events.start, 1)
    busy = np.maximum(1 - events.tree.sum_subtree(waited) / length, 0)
    others = np.flatnonzero((events.thread != times.thread) & (times.wait_kind < 0))
    overlap: dict[tuple[int, int], int] = {}
    for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
        shared = np.minimum(events.end[others], stop) - np.maximum(events.start[others], begin)
        shared = np.rint(shared * busy[others]).astype(np.int64)
        for at in np.flatnonzero(shared > 0).tolist():
            key = (int(events.thread[others[at]]), int(events.name_id[others[at]]))
            overlap[key] = overlap.get(key, 0) + int(shared[at])
    return overlap
