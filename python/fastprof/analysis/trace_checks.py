# SPDX-License-Identifier: Apache-2.0
"""trace_problems: what is wrong with the times and links of a trace that was read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fastprof.base.device_type import DeviceType
from fastprof.base.distinct import distinct
from fastprof.base.event_names import DEVICE_WORK
from fastprof.base.formatting import counted, format_time
from fastprof.model.table import EventKind, EventTable
from fastprof.model.thread_time import task_tracks
from fastprof.model.tree import EventTree, nesting_rows

__all__ = ["trace_problems", "unread_text"]

_MOST_KINDS = 8  # maximum number of kinds of unread packets and events that are listed
# A pause, or a distance to time 0, is reported if it exceeds the rest of the trace so many times.
_FAR = 10
_PAUSE_NS = 60_000_000_000
# Some writers round times to whole us, so that ranges seem to overlap.
_ROUNDING_NS = 1000
_MOST_UNLINKED = 0.5
_MOST_EMPTY = 0.5  # share of ranges without a duration


def trace_problems(table: EventTable) -> list[str]:
    """Return a line for each of these problems; an empty list if there are none. O(n log n). Any thread.

    Rows at time 0 far before all others; more than half of the ranges without a duration; a pause far longer than
    the rest (a clock jumped); ranges of a thread that overlap without nesting; more than half of the device work
    without a link to the op that launched it; several processes of which some have no name.
    """
    if not len(table):
        return []
    at_zero = _at_zero(table)
    pause = _pause(table, without_zero=bool(at_zero))
    found = (at_zero, _empty(table), pause, _overlaps(table), _unlinked(table), _unnamed(table))
    return [text for text in found if text]


def unread_text(metadata: Mapping[str, Any]) -> str:
    """Return as text the kinds and counts of the file's packets and events that were not read."""
    found: list[str] = []
    for name in ("skipped_packets", "skipped_events"):
        counts = metadata.get(name)
        if isinstance(counts, dict):
            # "Trace" events describe Kineto itself, not the program.
            found += (f"{what} ({count})" for what, count in counts.items() if what != "Trace")
    more = [f"{len(found) - _MOST_KINDS} other kinds"] if len(found) > _MOST_KINDS else []
    return ", ".join(found[:_MOST_KINDS] + more)


def _base_ns(table: EventTable) -> int:
    base = table.metadata.get("baseTimeNanoseconds", 0)
    return base if type(base) is int and 0 <= base < 1 << 62 else 0


def _at_zero(table: EventTable) -> str:
    start = table.start_ns
    at_zero = start <= _base_ns(table)
    count = int(np.count_nonzero(at_zero))
    if not count or count == len(table):
        return ""
    first, last = int(start[~at_zero].min()), int(table.end_ns[~at_zero].max())
    if first - _base_ns(table) <= max(_FAR * (last - first), _PAUSE_NS):
        return ""
    return (
        f"{count:,} of {counted(len(table), 'event')} have no time (ts 0 or less): they stand "
        f"{format_time((first - _base_ns(table)) / 1000)} before all others, which take "
        f"{format_time((last - first) / 1000)}"
    )


def _empty(table: EventTable) -> str:
    ranges = table.column("kind") <= EventKind.ASYNC_RANGE
    count = int(np.count_nonzero(ranges))
    empty = int(np.count_nonzero(ranges & (table.end_ns <= table.start_ns)))
    if empty < 10 or empty <= _MOST_EMPTY * count:
        return ""
    return f"{empty:,} of {counted(count, 'range')} have no duration (0 ns)"


def _pause(table: EventTable, without_zero: bool) -> str:
    chosen = table.start_ns > _base_ns(table) if without_zero else slice(None)
    start = table.start_ns[chosen]
    if len(start) < 3:
        return ""
    order = np.argsort(start, kind="stable")
    begins = start[order]
    ends = np.maximum.accumulate(table.end_ns[chosen][order])
    gaps = begins[1:] - ends[:-1]
    at = int(np.argmax(gaps))
    longest, rest = int(gaps[at]), int(ends[-1] - begins[0]) - int(gaps[at])
    if longest < _PAUSE_NS or longest < _FAR * rest:
        return ""
    return (
        f"no event for {format_time(longest / 1000)} after the first {counted(at + 1, 'event')}, while all "
        f"others take {format_time(rest / 1000)}: a clock was changed, or the parts are of different clocks"
    )


def _overlaps(table: EventTable) -> str:
    """Compare each range with the one before it on its thread that has the same parent.

    A call is compared with calls only: one that begins or ends a range overlaps it, by nature.
    """
    if table.has("parent"):
        return ""
    chosen = table.column("kind") == EventKind.RANGE
    nests = nesting_rows(table)
    if nests is not None:
        chosen = chosen & nests
    tasks = task_tracks(table)
    if tasks is not None:
        chosen = chosen & ~tasks[table.column("track")]
    rows = np.flatnonzero(chosen)
    parent = EventTree.of(table).parent_rows()[rows]
    thread, start, end = table.thread[rows], table.start_ns[rows], table.end_ns[rows]
    order = np.lexsort((-end, start, parent, thread))
    call = table.sites.column("is_python_function")[table.column("site")[rows]]
    same = np.ones(max(len(rows) - 1, 0), np.bool_)
    for each in (thread[order], parent[order], call[order]):
        same &= each[1:] == each[:-1]
    by_ns = np.where(same, end[order][:-1] - start[order][1:], 0)
    count = int(np.count_nonzero(by_ns > _ROUNDING_NS))
    if not count:
        return ""
    return (
        f"ranges of a thread overlap without nesting ({count:,} times, by up to "
        f"{format_time(int(by_ns.max()) / 1000)}): self times there are too long"
    )


def _unlinked(table: EventTable) -> str:
    if not table.has("device_type"):
        return ""
    on_device = table.column("device_type") != DeviceType.CPU
    of_site = np.array([name in DEVICE_WORK for name in table.sites.field("category")], np.bool_)
    work = int(np.count_nonzero(on_device & of_site[table.column("site")]))
    linked = 0 if table.kernels is None else len(table.kernels.row)
    if work - linked <= _MOST_UNLINKED * work or bool(on_device.all()):
        return ""
    return (
        f"{work - linked:,} of {counted(work, 'GPU event')} are not linked to the op that launched them "
        "(External id): ops have no device times"
    )


def _unnamed(table: EventTable) -> str:
    processes = table.metadata.get("processes")
    known = {each.get("pid") for each in processes or () if isinstance(each, dict) and each["name"]}
    if not known:
        return ""
    on_device = (
        table.column("device_type") != DeviceType.CPU
    )  # their tracks have the device's number
    known |= {
        table.tracks[each].pid for each in distinct(table.column("track")[on_device]).tolist()
    }
    pids = {track.pid for track in table.tracks if track.pid > 0} - known - {table.pid}
    if not pids:
        return ""
    some = ", ".join(map(str, sorted(pids)[:_MOST_KINDS]))
    return f"{counted(len(pids), 'process', 'processes')} without a name: pid {some}"
