# SPDX-License-Identifier: Apache-2.0
"""Reader of Chrome traces (Trace Event Format, object and array form), mainly Kineto's and fastprof's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.importers.chrome_events import MARKS_PID, ChromeEvents, id_number
from fastprof.importers.decimal_times import exact_json, ns_of_decimal, ns_of_doubles
from fastprof.importers.json_stream import JsonStream, scan_piece_bytes
from fastprof.importers.kernel_links import link_kernels
from fastprof.importers.memory_budget import JSON_BYTES_A_CHARACTER, LimitError, MemoryBudget
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

if TYPE_CHECKING:
    from fastprof.importers.event_columns import EventColumns

__all__ = ["read_chrome_trace"]

Array: TypeAlias = NDArray[Any]

# Times in us within these bounds, and sums of two, fit into 64 bits of ns.
_MIN_US, _MAX_US = -4e15, 4e15
# Why the native scanner stopped: at an event that must be interpreted here, or at text that it cannot read.
OTHER, REFUSED = 1, 2
# Beyond so many stops of the first kind, a trace with a stop per 4 events is left to the stream.
_MAX_STOPS = 1000


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
        self.events = ChromeEvents(self.top)
        self.index = 0
        self.columns: EventColumns | None = None
        if native:
            from fastprof import _core
            from fastprof.importers.event_columns import EventColumns, trace_conventions

            events = self.events
            self.scanner = _core.TraceScanner(trace_conventions(MARKS_PID))
            self.columns = EventColumns(
                self.scanner.store, events.rows, events.devices, events.scopes
            )
        self.can_scan = native
        self.in_events = False  # the array of events has begun
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
                self._add_batch(batch)
            else:
                event = stream.value()
                self.events.exact_event = lambda: exact_json(stream.value_text())
                try:
                    self.events.add(event)
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
        """Read events with the native scanner, up to text that it cannot read or the end of the array.

        Returns whether any were read; the cursor is then after the last one.
        """
        assert self.columns is not None
        self.can_scan = False  # the stream reads the rest
        stream, source = self.stream, self.stream.source
        data, at, after, ended, stops = stream.take_buffer(), 0, False, False, 0
        size = scan_piece_bytes(self.budget)
        while True:
            block = self.scanner.scan(data, at, after)
            self._add_block(block, data, at)
            self.budget.check(self._estimate_bytes())
            after = after or block.events > 0
            at += block.consumed
            if block.stop == REFUSED:
                break
            if block.stop == OTHER:
                stops += 1
                if stops > _MAX_STOPS and stops > self.index // 4:
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

    def _add_block(self, block: Any, data: bytes, at: int) -> None:
        """Add the rows of a scanned block, and the events between them that the scanner did not interpret."""
        from fastprof.importers.event_columns import BlockColumns

        assert self.columns is not None
        self.columns.share_backward_names()
        rows, done = BlockColumns(block), 0
        for begin, end, row, number in block.others():
            self.columns.add(rows, done, row)
            done = row
            known = len(self.events.scopes.backward_names)
            text = data[at + begin : at + end]
            self.events.exact_event = lambda text=text: exact_json(text)  # type: ignore[misc]
            try:
                self.events.add(json.loads(text))
            except (errors.FormatError, OverflowError) as error:
                source = self.stream.source
                offset = source.offset - len(data) + at + end
                raise errors.FormatError(
                    f"{source.path}: offset {offset}: event {self.index + number}, "
                    f"which ends here: {error}"
                ) from None
            if len(self.events.scopes.backward_names) > known:
                self.columns.take_backward_names(self.events.scopes.backward_names)
        self.columns.add(rows, done, rows.rows)
        self.index += block.events

    def _estimate_bytes(self) -> int:
        """Return an upper bound of the memory used so far, in bytes."""
        in_columns = self.columns.estimate_bytes() if self.columns else 0
        return self.events.estimate_bytes() + in_columns

    def _add_batch(self, batch: list[Any]) -> None:
        """Add many events; complete ones without args, usually most, are added as arrays."""
        sites, tracks = self.events.plain_sites, self.events.plain_tracks
        plain: list[tuple[float, float, int, int, int]] = []
        exact: list[Any] = []
        position = 0

        def exact_event(position: int) -> Any:
            if not exact:
                exact.extend(exact_json(self.stream.events_text()))
            return exact[position]

        self.events.exact_event = lambda: exact_event(position)
        for position, event in enumerate(batch):
            try:
                if event["ph"] == "X" and not event["args"]:
                    start, duration = event["ts"], event["dur"]
                    if (
                        type(start) is type(duration) is float
                        and _MIN_US < start < _MAX_US
                        and 0 <= duration < _MAX_US
                    ):
                        site = sites[event["name"], event["cat"]]
                        track = tracks[event["pid"], event["tid"]]
                        plain.append((start, duration, site, track, position))
                        continue
            except (KeyError, TypeError):
                pass
            if plain:
                self.events.rows.extend(*_plain_columns(plain, exact_event))
                plain.clear()
            try:
                self.events.add(event)
            except (errors.FormatError, OverflowError) as error:
                self.stream.back_to(position)
                place = f"event {self.index + position}, which ends here"
                raise self.stream.fail(f"{place}: {error}") from None
        if plain:
            self.events.rows.extend(*_plain_columns(plain, exact_event))
        self.index += len(batch)

    # ---- the table -----------------------------------------------------------------------------

    def table(self) -> EventTable:
        events, rows = self.events, self.events.rows
        for track, thread in events.tasks.items():
            of_thread = rows.known_track(thread)
            if of_thread is not None:
                rows.tracks[track] = rows.tracks[track]._replace(tid=thread[1], thread_id=of_thread)
        last = max(rows.end, default=0)
        for opened in events.open.values():
            for row in opened:
                rows.end[row] = max(last, rows.start[row])
        base = self.top.get("baseTimeNanoseconds", 0)
        base = base if type(base) is int and 0 <= base < 1 << 62 else 0
        own = self.top.get("fastprof")
        own = own if isinstance(own, dict) else {}
        dropped = own.get("dropped")
        cpu = [t for t in rows.tracks if t.pid > 0]
        pid = cpu[0].pid if cpu else 0
        if own and events.processes:  # fastprof writes its own process first
            pid = id_number(next(iter(events.processes)))
            if events.processes.get(str(pid)) == f"process {pid}":  # the writer's default name
                del events.processes[str(pid)]
        metadata = {k: v for k, v in self.top.items() if k != "fastprof"}
        metadata["format"] = "chrome"
        if self.damage:
            metadata["damage"] = self.damage
        if events.skipped:
            metadata["skipped_events"] = events.skipped
        start = np.frombuffer(rows.start, np.int64)
        t0 = int(start.min()) + base if len(start) else base
        table = rows.finish(
            shift_ns=base,
            track_map=events.lanes,
            args_texts=self.columns.args_texts if self.columns else None,
            t0_ns=_fact(own, "session_start_ns", t0),
            t1_ns=_fact(own, "session_stop_ns", last + base),
            clock_error_ns=_fact(own, "clock_error_ns", 0),
            pid=pid,
            process_name=events.processes.get(str(pid), ""),
            dropped={
                str(k): v
                for k, v in (dropped if isinstance(dropped, dict) else {}).items()
                if k != "total" and type(v) is int and 0 <= v < 1 << 63
            },
            metadata=metadata,
        )
        return link_kernels(table, events.devices)


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


def _fact(own: dict[str, Any], name: str, default: int) -> int:
    value = own.get(name)
    return value if type(value) is int and 0 <= value < 1 << 63 else default
