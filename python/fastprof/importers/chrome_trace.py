# SPDX-License-Identifier: Apache-2.0
"""Reader of Chrome traces (Trace Event Format, object and array form), mainly Kineto's and fastprof's."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
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
from fastprof.importers.decimal_times import (
    exact_json,
    ns_of_decimal,
    ns_of_double,
    ns_of_doubles,
)
from fastprof.importers.json_stream import JsonStream, scan_piece_bytes
from fastprof.importers.kernel_links import DeviceRows, link_kernels
from fastprof.importers.memory_budget import JSON_BYTES_A_CHARACTER, LimitError, MemoryBudget
from fastprof.importers.source import Source
from fastprof.importers.table_builder import FINISHED, TableBuilder
from fastprof.model.sites import Site
from fastprof.model.table import EventKind, EventTable

if TYPE_CHECKING:
    from fastprof.importers.event_columns import EventColumns

__all__ = ["read_chrome_trace"]

Array: TypeAlias = NDArray[Any]

_MEMORY_WORDS = ("Addr", "Bytes", "Total Allocated", "Total Reserved")
_INT64, _FLOAT64 = 0, 2  # ArgType
# Process ids of Kineto's own marks, and the process into which fastprof writes such marks.
_PROFILER_PIDS = ("Spans", "Traces", "")
_MARKS_PID = 0x20000000
# Times in us within these bounds, and sums of two, fit into 64 bits of ns.
_LEAST, _MOST = -4e15, 4e15
# Stops of the native scanner, and how many of the first kind are tolerated among few events.
OTHER, REFUSED = 1, 2
_MOST_STOPS = 1000
_BEGINS = {"B": "B", "b": "b", "S": "b"}
# Upper bound of the bytes per entry that the reader keeps beside the rows.
_ENTRY_BYTES = 700
_ENDS = {"E": "B", "e": "b", "F": "b"}


def read_chrome_trace(source: Source, *, native: bool = True, salvage: bool = False) -> EventTable:
    """Return the table of a trace, rows in file order. Times are whole ns, the nearest to the file's.

    Complete events, begin/end pairs, async pairs, instants, counters, flows and memory records
    become rows. Process and thread names go to tracks; args go to columns (shapes, stacks, sequence
    numbers) and, as JSON text, to metadata_json. Kernels are attached to the op with the same
    "External id". Kinds of events without a time are counted in metadata["skipped_events"]. The lanes
    into which fastprof's writer splits a thread are merged again. The file has no parents:
    EventTree.of computes them from times.

    native: read common events with the native scanner, which gives the same table; only tests turn
    it off. salvage: return the rows before the first damage within or after the events, with its
    description in metadata["damage"].
    """
    reader = _Reader(JsonStream(source), source.budget, native)
    try:
        reader.read()
    except errors.FormatError as error:
        if not salvage or not reader.in_events or isinstance(error, LimitError):
            raise
        reader.damage = str(error)
    reader.damage = source.damage or reader.damage
    return reader.table()


class _Reader:
    def __init__(self, stream: JsonStream, budget: MemoryBudget, native: bool) -> None:
        self.stream = stream
        self.budget = budget
        self.top: dict[str, Any] = {}
        self.rows = TableBuilder()
        self.sites: dict[Any, int] = {}
        self.index = 0
        self.open: dict[Any, list[int]] = {}
        self.skipped: dict[str, int] = {}
        self.processes: dict[Any, str] = {}
        self.lanes: dict[int, int] = {}
        self.tasks: dict[int, tuple[Any, int]] = {}  # track of a task -> (pid, tid) of its thread
        self.last_thread: tuple[int, str] | None = None
        self.devices = DeviceRows()
        self.flow_ids: dict[str, int] = {}
        # Caches for complete events without args: site by (name, category), track by (pid, tid).
        self.plain_sites: dict[tuple[str, str], int] = {}
        self.plain_tracks: dict[tuple[int, int], int] = {}
        self.scopes = ScopeRule()
        self.columns: EventColumns | None = None
        if native:
            from fastprof import _core
            from fastprof.importers.event_columns import EventColumns, trace_conventions

            self.scanner = _core.TraceScanner(trace_conventions(_MARKS_PID))
            self.columns = EventColumns(self.scanner.store, self.rows, self.devices, self.scopes)
        self.can_scan = native
        self.in_events = False  # the array of events has begun
        # Decodes the current event again, with Decimal in the place of float.
        self.exact_event: Callable[[], Any] = dict
        self.damage = ""

    # ---- the file ------------------------------------------------------------------------------

    def read(self) -> None:
        stream = self.stream
        if stream.peek() == "[":
            self._events(may_stop=True)
            return
        stream.take("{")
        if stream.peek() == "}":
            raise stream.fail("the object has no traceEvents")
        found = False
        while True:
            if stream.peek() != '"':
                raise stream.fail("expected the name of a member in double quotes")
            name = stream.value()
            stream.take(":")
            if name == "traceEvents":
                if found:
                    raise stream.fail("the object has two members traceEvents")
                found = True
                self._events(may_stop=False)
            else:
                self.top[name] = stream.value()
                chars = stream.value_chars + len(name) + 3
                self.budget.keep(JSON_BYTES_A_CHARACTER * chars)
            if stream.peek() == "}":
                stream.take("}")
                break
            stream.take(",")
        if not found:
            raise stream.fail("the object has no traceEvents")
        if not stream.at_end():
            raise stream.fail("unexpected text after the end of the trace")

    def _events(self, may_stop: bool) -> None:
        """Read the array of events. In the array form the closing bracket may be missing."""
        stream = self.stream
        stream.take("[")
        self.in_events = True
        if stream.peek() == "]":
            stream.take("]")
            return
        while True:
            batch = [] if self.can_scan else stream.events()
            if self.can_scan and self._scan():
                pass
            elif batch:
                self._batch(batch)
            else:
                event = stream.value()
                self.exact_event = lambda: exact_json(stream.value_text())
                try:
                    self._event(event)
                except (errors.FormatError, OverflowError) as error:
                    raise stream.fail(f"event {self.index}, which ends here: {error}") from None
                self.index += 1
            self.budget.check(self._estimate_bytes())
            found = stream.peek()
            if found == ",":
                stream.take(",")
                if may_stop and stream.peek() in ("", "]"):
                    found = stream.peek()
            if found == "]":
                stream.take("]")
                return
            if found == "" and may_stop:
                return
            if found != ",":
                raise stream.fail(
                    f"expected ',' or ']' after event {self.index - 1}, found {found!r}"
                )

    def _scan(self) -> bool:
        """Read events with the native scanner, up to what it cannot read or the end of the array.

        Returns whether any were read; the cursor is then behind the last one.
        """
        assert self.columns is not None
        self.can_scan = False  # what it stops at is left to the stream
        stream, source = self.stream, self.stream.source
        data, at, after, ended, stops = stream.take_buffer(), 0, False, False, 0
        size = scan_piece_bytes(self.budget)
        while True:
            block = self.scanner.scan(data, at, after)
            self._scanned(block, data, at)
            self.budget.check(self._estimate_bytes())
            after = after or block.events > 0
            at += block.consumed
            if block.stop == REFUSED:
                break
            if block.stop == OTHER:
                stops += 1
                if stops > _MOST_STOPS and stops > self.index // 4:
                    break  # an unusual trace, which the stream reads faster
                continue
            data, at = data[at:], 0
            if ended or len(data) > self.budget.max_json_chars:
                break
            more = source.read(max(size, len(data)))
            ended = len(more) < max(size, len(data))
            data += more
        stream.give_back(data[at:], ended)
        return after

    def _scanned(self, block: Any, data: bytes, at: int) -> None:
        """Add the rows of a scanned block, and interpret the events between them that it leaves."""
        from fastprof.importers.event_columns import BlockColumns

        assert self.columns is not None
        self.columns.share_backward_names()
        rows, done = BlockColumns(block), 0
        for begin, end, row, number in block.others():
            self.columns.add(rows, done, row)
            done = row
            known = len(self.scopes.backward_names)
            text = data[at + begin : at + end]
            self.exact_event = lambda text=text: exact_json(text)  # type: ignore[misc]
            try:
                self._event(json.loads(text))
            except (errors.FormatError, OverflowError) as error:
                source = self.stream.source
                offset = source.offset - len(data) + at + end
                raise errors.FormatError(
                    f"{source.path}: offset {offset}: event {self.index + number}, "
                    f"which ends here: {error}"
                ) from None
            if len(self.scopes.backward_names) > known:
                self.columns.take_backward_names(self.scopes.backward_names)
        self.columns.add(rows, done, rows.rows)
        self.index += block.events

    def _estimate_bytes(self) -> int:
        """Return an upper bound of the memory used so far, in bytes."""
        return (
            self.rows.estimate_bytes()
            + self.devices.estimate_bytes()
            + (self.columns.estimate_bytes() if self.columns else 0)
            + _ENTRY_BYTES * (len(self.sites) + len(self.open) + len(self.flow_ids))
            + _ENTRY_BYTES * (len(self.processes) + len(self.skipped))
        )

    def _batch(self, batch: list[Any]) -> None:
        """Add many events; complete ones without args, usually most, are added as arrays."""
        sites, tracks = self.plain_sites, self.plain_tracks
        plain: list[tuple[float, float, int, int, int]] = []
        exact: list[Any] = []
        position = 0

        def exact_event(position: int) -> Any:
            if not exact:
                exact.extend(exact_json(self.stream.events_text()))
            return exact[position]

        self.exact_event = lambda: exact_event(position)
        for position, event in enumerate(batch):
            try:
                if event["ph"] == "X" and not event["args"]:
                    start, duration = event["ts"], event["dur"]
                    if (
                        type(start) is type(duration) is float
                        and _LEAST < start < _MOST
                        and 0 <= duration < _MOST
                    ):
                        site = sites[event["name"], event["cat"]]
                        track = tracks[event["pid"], event["tid"]]
                        plain.append((start, duration, site, track, position))
                        continue
            except (KeyError, TypeError):
                pass
            if plain:
                self.rows.extend(*_plain_columns(plain, exact_event))
                plain.clear()
            try:
                self._event(event)
            except (errors.FormatError, OverflowError) as error:
                self.stream.back_to(position)
                place = f"event {self.index + position}, which ends here"
                raise self.stream.fail(f"{place}: {error}") from None
        if plain:
            self.rows.extend(*_plain_columns(plain, exact_event))
        self.index += len(batch)

    # ---- one event -----------------------------------------------------------------------------

    def _event(self, event: Any) -> None:
        if not isinstance(event, dict):
            raise errors.FormatError(f"expected an object, found {str(event)[:40]!r}")
        phase = event.get("ph")
        if not isinstance(phase, str):
            raise errors.FormatError(f"expected text as the phase (ph), found {str(phase)[:40]!r}")
        pid = event.get("pid", 0)
        if pid == _MARKS_PID and "fastprof" in self.top:
            if phase != "M":
                self._skip("Trace")
            return
        if phase == "M":
            self._metadata(event, pid)
            return
        args = event.get("args")
        if not isinstance(args, dict):
            args = {}
        if isinstance(pid, str) and pid in _PROFILER_PIDS:
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
            word = self.rows.add_words(self._flow_id(event.get("id")))
            self._add(event, int(kind), payload=word)
        elif phase in _BEGINS:
            kind = EventKind.RANGE if phase == "B" else EventKind.ASYNC_RANGE
            row = self._add(event, int(kind), flags=0)
            self.open.setdefault(self._pair_key(_BEGINS[phase], event), []).append(row)
            put_args(self.rows, row, args)
        elif phase in _ENDS:
            self._end(self._pair_key(_ENDS[phase], event), event)
        else:
            self._skip(phase[:8])

    def _skip(self, what: str) -> None:
        self.skipped[what] = self.skipped.get(what, 0) + 1

    def _time_ns(self, event: dict[str, Any], name: str) -> int:
        value = event.get(name)
        if type(value) is int:
            return value * 1000
        if type(value) is float and math.isfinite(value):
            ns = ns_of_double(value)
            return ns_of_decimal(self.exact_event()[name]) if ns is None else ns
        raise errors.FormatError(
            f"expected a number of microseconds as {name}, found {str(value)[:40]!r}"
        )

    def _track(self, event: dict[str, Any]) -> int:
        pid, tid = event.get("pid", 0), event.get("tid", 0)
        key = (pid, tid) if not isinstance(pid, (dict, list)) else (str(pid), str(tid))
        if isinstance(tid, (dict, list)):
            key = (str(pid), str(tid))
        known = self.rows.known_track(key)
        if known is not None:
            return known
        index = self.rows.track_of(key, _id_number(pid), _id_number(tid))
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
        index = self.sites.get(key)
        if index is None:
            site = Site(name + suffix, category=category, kind=kind, scope=scope, **more)
            index = self.sites[key] = self.rows.site_of(site)
        return index

    def _add(self, event: dict[str, Any], kind: int, **more: Any) -> int:
        start = self._time_ns(event, "ts")
        return self.rows.add(
            kind, start, start, self._site(event, kind), self._track(event), **more
        )

    def _complete(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        start = self._time_ns(event, "ts")
        end = start + max(self._time_ns(event, "dur"), 0) if "dur" in event else start
        kind, flags = range_state(args) if args else (0, FINISHED)
        category = event.get("cat")
        scope = self.scopes.scope(str(event.get("name")), category, args)
        site = self._site(event, kind, scope)
        row = self.rows.add(kind, start, end, site, self._track(event), flags)
        if not args:
            if type(event.get("name")) is type(category) is str:
                self.plain_sites[event["name"], category] = site
            if type(event.get("pid")) is type(event.get("tid")) is int:
                self.plain_tracks[event["pid"], event["tid"]] = self.rows.track[row]
            return
        put_args(self.rows, row, args)
        external = as_int(args.get("External id"))
        device = DEVICE_CATEGORIES.get(category) if isinstance(category, str) else None
        if device is not None:
            number = as_int(args.get("device")) or 0
            stream = as_int(args.get("stream")) or 0
            self.devices.add_devices([row], [int(device)], [number & 0x7FFFFFFF], [stream])
        if external is not None and external > 0:
            launches = device is None and launches_kernels(category)
            self.devices.add_links([row], [external], [launches])

    def _instant(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        name = event.get("name")
        if name not in ("[memory]", "[OutOfMemory]") or "Bytes" not in args:
            row = self._add(event, int(EventKind.MARK))
            put_args(self.rows, row, args)
            return
        kind = int(EventKind.MEMORY if name == "[memory]" else EventKind.OUT_OF_MEMORY)
        words = [_word(args.get(word)) for word in _MEMORY_WORDS]
        device_type, device_index = as_int(args.get("Device Type")), as_int(args.get("Device Id"))
        site = self._site(
            event,
            kind,
            device_type=_small(device_type, 0),
            device_index=_small(device_index, -1),
            function=allocator if type(allocator := args.get("Allocator")) is str else "",
        )
        first = self.rows.add_words(*(words if kind == EventKind.MEMORY else words[1:]))
        start = self._time_ns(event, "ts")
        self.rows.add(kind, start, start, site, self._track(event), payload=first)

    def _counter(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        start = self._time_ns(event, "ts")
        for series, value in args.items():
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
                int(EventKind.COUNTER), start, start, site, self._track(event), payload=payload
            )

    def _flow_id(self, value: Any) -> int:
        if type(value) is int:
            return value
        text = str(value)
        if text.startswith("0x") and len(text) <= 18:
            try:
                return int(text, 16)
            except ValueError:
                pass
        return self.flow_ids.setdefault(text, (1 << 63) + len(self.flow_ids))

    def _pair_key(self, family: str, event: dict[str, Any]) -> Any:
        if family == "B":
            return self._track(event)
        return (str(event.get("cat")), str(event.get("id", event.get("id2"))))

    def _end(self, key: Any, event: dict[str, Any]) -> None:
        opened = self.open.get(key)
        if not opened:
            self._skip("end without begin")
            return
        row = opened.pop()
        end = self._time_ns(event, "ts")
        if not -(1 << 63) <= end < 1 << 63:
            raise OverflowError("a time exceeds 64 bits")
        self.rows.end[row] = max(end, self.rows.start[row])
        self.rows.flags[row] |= FINISHED

    def _metadata(self, event: dict[str, Any], pid: Any) -> None:
        args = event.get("args")
        if not isinstance(args, dict) or not isinstance(name := args.get("name"), str):
            return
        if event.get("name") == "process_name":
            self.processes[str(pid)] = name
        elif event.get("name") == "thread_name":
            track = self._track(event)
            self.rows.name_track(track, name)
            task_of = args.get("task_of")
            if "fastprof" in self.top and type(task_of) is int and type(pid) is int:
                self.tasks[track] = (pid, task_of)
            lane = EXTRA_LANE.fullmatch(name) if "fastprof" in self.top else None
            # A thread's lanes directly follow it in the file.
            if lane and self.last_thread and self.last_thread[1] == lane[1]:
                self.lanes[track] = self.last_thread[0]
            else:
                self.last_thread = (track, name)

    # ---- the table -----------------------------------------------------------------------------

    def table(self) -> EventTable:
        rows = self.rows
        for track, thread in self.tasks.items():
            of_thread = rows.known_track(thread)
            if of_thread is not None:
                rows.tracks[track] = rows.tracks[track]._replace(tid=thread[1], thread_id=of_thread)
        last = max(rows.end, default=0)
        for opened in self.open.values():
            for row in opened:
                rows.end[row] = max(last, rows.start[row])
        base = self.top.get("baseTimeNanoseconds", 0)
        base = base if type(base) is int and 0 <= base < 1 << 62 else 0
        own = self.top.get("fastprof")
        own = own if isinstance(own, dict) else {}
        dropped = own.get("dropped")
        cpu = [t for t in rows.tracks if t.pid > 0]
        pid = cpu[0].pid if cpu else 0
        if own and self.processes:  # fastprof writes its own process first
            pid = _id_number(next(iter(self.processes)))
            if self.processes.get(str(pid)) == f"process {pid}":  # the writer's default name
                del self.processes[str(pid)]
        metadata = {k: v for k, v in self.top.items() if k != "fastprof"}
        metadata["format"] = "chrome"
        if self.damage:
            metadata["damage"] = self.damage
        if self.skipped:
            metadata["skipped_events"] = self.skipped
        start = np.frombuffer(rows.start, np.int64)
        t0 = int(start.min()) + base if len(start) else base
        table = rows.finish(
            shift_ns=base,
            track_map=self.lanes,
            args_texts=self.columns.args_texts if self.columns else None,
            t0_ns=_fact(own, "session_start_ns", t0),
            t1_ns=_fact(own, "session_stop_ns", last + base),
            clock_error_ns=_fact(own, "clock_error_ns", 0),
            pid=pid,
            process_name=self.processes.get(str(pid), ""),
            dropped={
                str(k): v
                for k, v in (dropped if isinstance(dropped, dict) else {}).items()
                if k != "total" and type(v) is int and 0 <= v < 1 << 63
            },
            metadata=metadata,
        )
        return link_kernels(table, self.devices)


def _plain_columns(
    plain: list[tuple[float, float, int, int, int]], exact_event: Callable[[int], Any]
) -> tuple[Array, ...]:
    """Return (start ns, end ns, site, track) of complete events without args.

    exact_event: returns the event of a position, the last member of `plain`, with exact numbers.
    """
    start_us, duration_us, site, track, position = (
        np.array(column) for column in zip(*plain, strict=True)
    )
    times = []
    for name, us in (("ts", start_us), ("dur", duration_us)):
        ns, decided = ns_of_doubles(us)
        for row in np.flatnonzero(~decided).tolist():
            ns[row] = ns_of_decimal(exact_event(int(position[row]))[name])
        times.append(ns)
    return times[0], times[0] + times[1], site, track


def _id_number(value: Any) -> int:
    """Return a process or thread id as a number; 0 for text."""
    return as_int(value) or 0


def _word(value: Any) -> int:
    """Return a payload word; addresses may use all 64 bits."""
    return value if type(value) is int else as_int(value) or 0


def _small(value: int | None, default: int) -> int:
    return value if value is not None and -(1 << 15) <= value < 1 << 15 else default


def _fact(own: dict[str, Any], name: str, default: int) -> int:
    value = own.get(name)
    return value if type(value) is int and 0 <= value < 1 << 63 else default
