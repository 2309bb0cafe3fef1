# SPDX-License-Identifier: Apache-2.0
"""ChromeEvents: the rows of a Chrome trace's events, one event at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fastprof.base.native_numbers import ArgType
from fastprof.formats.trace_members import EXTRA_LANE
from fastprof.importers.chrome_args import (
    DEVICE_CATEGORIES,
    USER_SCOPE,
    ScopeRule,
    as_int,
    launches_kernels,
    put_args,
    range_state,
)
from fastprof.importers.chrome_ids import PROFILER_PIDS, Id, id_of
from fastprof.importers.chrome_pairs import OpenRanges
from fastprof.importers.chrome_samples import TraceSamples
from fastprof.importers.chrome_stacks import EventStacks
from fastprof.importers.decimal_times import ns_of_decimal, ns_of_double
from fastprof.importers.kernel_links import NO_DEVICE, DeviceRows
from fastprof.importers.table_builder import FINISHED, TableBuilder
from fastprof.model.sites import MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME, Site
from fastprof.model.table import EventKind

__all__ = ["MARKS_PID", "ChromeEvents", "MalformedEventError"]

_MEMORY_WORDS = ("Addr", "Bytes", "Total Allocated", "Total Reserved")
_INT64, _FLOAT64 = int(ArgType.INT64), int(ArgType.FLOAT64)
# Numbers that JSON does not have, as the writer of this project writes them.
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
# The process into which fastprof writes marks of the recording itself.
MARKS_PID = 0x20000000
# Upper bound of the bytes per entry that is kept beside the rows.
_ENTRY_BYTES = 700
_TIME_LIMIT = 1 << 63
# Phase of a begin or end -> family within which they are paired.
_BEGINS = {"B": "B", "b": "b", "S": "b"}
_ENDS = {"E": "B", "e": "b", "F": "b"}


class MalformedEventError(Exception):
    """An event that cannot be read. reason: text under which such events are counted."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ChromeEvents:
    """Adds events to a table, in the order of the file.

    top: the trace's other members, as far as the file has been read.
    """

    def __init__(self, top: dict[str, Any]) -> None:
        self.top = top
        self.rows = TableBuilder()
        self.devices = DeviceRows()
        self.scopes = ScopeRule()
        self.open = OpenRanges()
        self.stacks = EventStacks(self.rows)
        self.samples = TraceSamples()
        self.skipped: dict[str, int] = {}
        self.processes: dict[Id, str] = {}
        self.text_ids: dict[
            int, tuple[Id, Id]
        ] = {}  # track -> (pid, tid) that are not both numbers
        self.lanes: dict[int, int] = {}
        self.tasks: dict[int, tuple[Any, int]] = {}  # track of a task -> (pid, tid) of its thread
        # Decodes the current event again, with Decimal instead of float.
        self.exact_event: Callable[[], Any] = dict
        self._sites: dict[Any, int] = {}
        self._last_thread: tuple[int, str] | None = None
        self._flow_ids: dict[Any, int] = {}

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory used so far, in bytes."""
        entries = len(self._sites) + self.open.size + len(self.stacks) + len(self._flow_ids)
        return (
            self.rows.estimate_bytes()
            + self.devices.estimate_bytes()
            + self.samples.estimate_bytes()
            + _ENTRY_BYTES * (entries + len(self.processes) + len(self.skipped))
        )

    def add(self, event: Any) -> None:
        """Add the rows of one event, as decoded from JSON. Raises MalformedEventError, and adds no row then."""
        if not isinstance(event, dict):
            raise MalformedEventError(
                "event that is not an object", f"expected an object, found {str(event)[:40]!r}"
            )
        phase = event.get("ph")
        if not isinstance(phase, str):
            raise MalformedEventError(
                "event without a phase (ph)",
                f"expected text as the phase (ph), found {str(phase)[:40]!r}",
            )
        pid = event.get("pid", 0)
        if pid == MARKS_PID and "fastprof" in self.top:
            if phase != "M":
                self._skip("Trace")
            return
        if phase == "M":
            self._metadata(event, pid)
            return
        args = event.get("args")
        if not isinstance(args, dict):
            args = {}
        if isinstance(pid, str) and pid in PROFILER_PIDS:
            self._skip("Trace")
        elif phase == "X":
            self._complete(event, args)
        elif phase in ("i", "I", "R", "n"):
            self._instant(event, args)
        elif phase == "C":
            self._counter(event, args)
        elif phase in ("s", "f"):
            begin = phase == "s"
            kind = EventKind.FLOW_BEGIN if begin else EventKind.FLOW_END
            row = self._add_row(event, int(kind))
            self.rows.payload[row] = self.rows.add_words(self._flow_id(event))
        elif phase in _BEGINS:
            kind = EventKind.RANGE if phase == "B" else EventKind.ASYNC_RANGE
            row = self._add_row(event, int(kind), flags=0)
            key = self._pair_key(_BEGINS[phase], event)
            self.open.begin(key, row, str(event.get("name", "")), str(event.get("cat", "")))
            put_args(self.rows, row, args)
            self.stacks.put(row, event)
        elif phase in _ENDS:
            self._end(_ENDS[phase], event, args)
        elif phase != "P" or not self.samples.add(event):
            self._skip(phase[:8])

    def _skip(self, what: str) -> None:
        self.skipped[what] = self.skipped.get(what, 0) + 1

    def skip_malformed(self, error: MalformedEventError) -> None:
        """Count an event that add() refused."""
        self._skip(error.reason)

    def _time_ns(self, event: dict[str, Any], name: str, after_ns: int = 0) -> int:
        """Return the time in a member, plus after_ns."""
        value = event.get(name)
        if type(value) is int:
            ns = value * 1000
        elif type(value) is float and math.isfinite(value):
            nearest = ns_of_double(value)
            ns = ns_of_decimal(self.exact_event()[name]) if nearest is None else nearest
        else:
            raise MalformedEventError(
                f"event without {name}" if name not in event else f"{name} that is not a number",
                f"expected a number of microseconds as {name}, found {str(value)[:40]!r}",
            )
        if name == "dur" and ns < 0:
            self._skip("negative dur, read as 0")
            ns = 0
        if not -_TIME_LIMIT <= after_ns + ns < _TIME_LIMIT:
            raise MalformedEventError(f"{name} that exceeds 64 bits", "a time exceeds 64 bits")
        return after_ns + ns

    def track(self, event: dict[str, Any]) -> int:
        """Return the track of an event's pid and tid."""
        pid, tid = key = (id_of(event.get("pid", 0)), id_of(event.get("tid", 0)))
        known = self.rows.known_track(key)
        if known is not None:
            return known
        numbers = [0 if isinstance(each, str) else each for each in key]
        index = self.rows.track_of(key, *numbers)
        if isinstance(pid, str) or isinstance(tid, str):
            self.text_ids[index] = key
        if isinstance(tid, str):
            self.rows.name_track(index, tid)
        return index

    def _site(
        self,
        event: dict[str, Any],
        kind: int,
        scope: int = USER_SCOPE,
        suffix: str = "",
        **more: Any,
    ) -> int:
        name, category = event.get("name", ""), event.get("cat", "")
        if type(name) is not str or type(category) is not str:
            name, category = str(name), str(category)
        key = (name, category, kind, scope, suffix, *more.values())
        index = self._sites.get(key)
        if index is None:
            site = Site(name + suffix, category=category, kind=kind, scope=scope, **more)
            index = self._sites[key] = self.rows.site_of(site)
        return index

    def _add_row(self, event: dict[str, Any], kind: int, **more: Any) -> int:
        start = self._time_ns(event, "ts")
        return self.rows.add(kind, start, start, self._site(event, kind), self.track(event), **more)

    def _complete(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        start = self._time_ns(event, "ts")
        end = self._time_ns(event, "dur", start) if "dur" in event else start
        kind, flags = range_state(args) if args else (0, FINISHED)
        category = event.get("cat")
        scope = self.scopes.scope(str(event.get("name")), category, args)
        site = self._site(event, kind, scope)
        row = self.rows.add(kind, start, end, site, self.track(event), flags)
        device = DEVICE_CATEGORIES.get(category) if isinstance(category, str) else None
        if device is not None:
            number, stream = as_int(args.get("device")), as_int(args.get("stream")) or 0
            index = NO_DEVICE if number is None else number & 0x7FFFFFFF
            self.devices.add_devices([row], [int(device)], [index], [stream])
        self.stacks.put(row, event)
        if not args:
            return
        put_args(self.rows, row, args)
        external = as_int(args.get("External id"))
        if external is not None and external > 0:
            launches = device is None and launches_kernels(category)
            self.devices.add_links([row], [external], [launches])

    def _instant(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        name = event.get("name")
        if name not in (MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME) or "Bytes" not in args:
            row = self._add_row(event, int(EventKind.MARK))
            put_args(self.rows, row, args)
            self.stacks.put(row, event)
            return
        kind = int(EventKind.MEMORY if name == MEMORY_EVENT_NAME else EventKind.OUT_OF_MEMORY)
        start = self._time_ns(event, "ts")
        words = [_word(args.get(word)) for word in _MEMORY_WORDS]
        device_type, device_index = as_int(args.get("Device Type")), as_int(args.get("Device Id"))
        site = self._site(
            event,
            kind,
            device_type=_int16(device_type, 0),
            device_index=_int16(device_index, -1),
            function=allocator if type(allocator := args.get("Allocator")) is str else "",
        )
        first = self.rows.add_words(*(words if kind == EventKind.MEMORY else words[1:]))
        self.rows.add(kind, start, start, site, self.track(event), payload=first)

    def _counter(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        start = self._time_ns(event, "ts")
        for series, value in args.items():
            if type(value) is str and value in _NOT_FINITE:
                value = float(value)
            if type(value) not in (int, float):
                continue
            real = type(value) is float or not -(1 << 63) <= value < 1 << 63
            word = int(np.float64(value).view(np.int64)) if real else value
            site = self._site(
                event,
                int(EventKind.COUNTER),
                suffix="" if len(args) == 1 else f" {series}",
                arg_names=("value",),
                arg_types=(_FLOAT64 if real else _INT64,),
            )
            payload = self.rows.add_words(word)
            self.rows.add(
                int(EventKind.COUNTER), start, start, site, self.track(event), payload=payload
            )

    def _flow_id(self, event: dict[str, Any]) -> int:
        value = _id_of(event)
        if type(value) is int:
            return value
        return self._flow_ids.setdefault(value, (1 << 63) + len(self._flow_ids))

    def _pair_key(self, family: str, event: dict[str, Any]) -> Any:
        if family == "B":
            return self.track(event)
        return (str(event.get("cat")), str(event.get("scope", "")), _id_of(event))

    def _end(self, family: str, event: dict[str, Any], args: dict[str, Any]) -> None:
        end = self._time_ns(event, "ts")
        name, category = (str(event.get(member) or "") for member in ("name", "cat"))
        key = self._pair_key(family, event)
        row, lost = self.open.end(key, name, category, family == "B")
        if row < 0:
            self._skip("end without begin")
            return
        self.rows.end[row] = max(end, self.rows.start[row])
        self.rows.flags[row] |= FINISHED
        for inner in lost:
            self.rows.end[inner] = max(end, self.rows.start[inner])
            self._skip("begin without end, within a range that ended")
        if args:
            put_args(self.rows, row, {**self.rows.metadata(row), **args})

    def _metadata(self, event: dict[str, Any], pid: Any) -> None:
        args = event.get("args")
        if not isinstance(args, dict) or not isinstance(name := args.get("name"), str):
            return
        if event.get("name") == "process_name":
            self.processes[id_of(pid)] = name
        elif event.get("name") == "thread_name":
            track = self.track(event)
            self.rows.name_track(track, name)
            task_of = args.get("task_of")
            if "fastprof" in self.top and type(task_of) is int and type(pid) is int:
                self.tasks[track] = (pid, task_of)
            lane = EXTRA_LANE.fullmatch(name) if "fastprof" in self.top else None
            # A thread's lanes directly follow it in the file.
            if lane and self._last_thread and self._last_thread[1] == lane[1]:
                self.lanes[track] = self._last_thread[0]
            else:
                self._last_thread = (track, name)


def _id_of(event: dict[str, Any]) -> Any:
    """Return the id of an async event or flow; ids of id2.local are those of the event's process."""
    value, id2 = event.get("id"), event.get("id2")
    if value is None and isinstance(id2, dict):
        if "local" in id2:
            return (str(event.get("pid", 0)), str(id2["local"]))
        value = id2.get("global")
    if type(value) is int:
        return value
    text = str(value)
    if text.startswith("0x") and len(text) <= 18:
        try:
            return int(text, 16)
        except ValueError:
            pass
    return text


def _word(value: Any) -> int:
    """Return a payload word; addresses may use all 64 bits."""
    return value if type(value) is int else as_int(value) or 0


def _int16(value: int | None, default: int) -> int:
    """Return a number that fits into 16 bits; the default for any other."""
    return value if value is not None and -(1 << 15) <= value < 1 << 15 else default
