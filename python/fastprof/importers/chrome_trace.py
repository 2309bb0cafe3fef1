# SPDX-License-Identifier: Apache-2.0
"""Reader of Chrome traces (Trace Event Format, object and array form), mainly Kineto's and fastprof's."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fastprof import _core
from fastprof.base import errors
from fastprof.base.distinct import distinct
from fastprof.importers.chrome_events import MARKS_PID, ChromeEvents, MalformedEventError
from fastprof.importers.chrome_ids import described_processes, id_of, number_ids
from fastprof.importers.decimal_times import exact_json
from fastprof.importers.event_columns import BlockColumns, EventColumns, trace_conventions
from fastprof.importers.forward_threads import with_forward_tracks
from fastprof.importers.json_stream import JsonStream, scan_piece_bytes
from fastprof.importers.kernel_links import link_kernels
from fastprof.importers.memory_budget import JSON_BYTES_A_CHARACTER, LimitError, MemoryBudget
from fastprof.importers.sampled.stack_rows import StackRows
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_chrome_trace"]

# Why the native scanner stopped: at an event that must be interpreted here, or at text that it cannot read.
OTHER, REFUSED = 1, 2
# Events that the stream reads, before the scanner continues, after text that the scanner refuses and where more than
# 1 in 16 events stop it, each of which costs more than reading an event by the stream.
_STREAM_EVENTS = 1000
_MAX_STOPS = 1000


def read_chrome_trace(source: Source, *, salvage: bool = False) -> EventTable:
    """Return the table of a trace, rows in file order. Times are whole ns, the nearest to the file's.

    Complete events, begin/end pairs, async pairs, instants, counters, flows and memory records
    become rows. Process and thread names go to tracks; args go to columns (shapes, stacks, sequence
    numbers) and, as JSON text, to metadata_json. Kernels are attached to the op with the same
    "External id". Kinds of events without a time are counted in metadata["skipped_events"], as are
    malformed events, by reason; a file without any other event is refused. The lanes into which
    fastprof's writer splits a thread are merged again. The file has no parents: EventTree.of
    computes them from times.

    salvage: return the rows before the first damage within or after the events, with its
    description in metadata["damage"].
    """
    reader = _Reader(JsonStream(source), source.budget)
    try:
        reader.read()
    except errors.FormatError as error:
        if not salvage or not reader.in_events or isinstance(error, LimitError):
            raise
        reader.damage = str(error)
    reader.damage = source.damage or reader.damage
    return reader.table()


class _Reader:
    def __init__(self, stream: JsonStream, budget: MemoryBudget) -> None:
        self.stream = stream
        self.budget = budget
        self.top: dict[str, Any] = {}
        self.events = ChromeEvents(self.top)
        self.index = 0
        events = self.events
        self.scanner = _core.TraceScanner(trace_conventions(MARKS_PID))
        self.columns = EventColumns(self.scanner.store, events.rows, events.devices, events.scopes)
        self.scan_at = 0  # the event at which the scanner begins, or continues
        self.stops = 0  # of the scanner, at events that are read here
        self.in_events = False  # the array of events has begun
        self.damage = ""
        self.malformed = 0
        self.first_malformed: errors.FormatError | None = None

    # ---- the file ------------------------------------------------------------------------------

    def read(self) -> None:
        self._read_file()
        if self.first_malformed is not None and self.malformed == self.index:
            raise self.first_malformed

    def _read_file(self) -> None:
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
            if self.index < self.scan_at or not self._scan():
                event = stream.value()
                self.events.exact_event = lambda: exact_json(stream.value_text())
                try:
                    self.events.add(event)
                except MalformedEventError as error:
                    self._skip(error, stream.fail(f"event {self.index}, which ends here: {error}"))
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
        stream, source = self.stream, self.stream.source
        data, at, after, ended = stream.take_buffer(), 0, False, False
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
                self.stops += 1
                if self.stops > max(_MAX_STOPS, self.index // 16):
                    break
                continue
            data, at = data[at:], 0
            if ended or len(data) > self.budget.max_json_chars:
                break
            more = source.read(max(size, len(data)))
            ended = len(more) < max(size, len(data))
            data += more
        stream.give_back(data[at:], ended)
        self.scan_at = self.index + _STREAM_EVENTS
        return after

    def _add_block(self, block: Any, data: bytes, at: int) -> None:
        """Add the rows of a scanned block, and the events between them that the scanner did not interpret."""
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
            except MalformedEventError as error:
                source = self.stream.source
                offset = source.offset - len(data) + at + end
                self._skip(
                    error,
                    errors.FormatError(
                        f"{source.path}: offset {offset}: event {self.index + number}, "
                        f"which ends here: {error}"
                    ),
                )
            if len(self.events.scopes.backward_names) > known:
                self.columns.take_backward_names(self.events.scopes.backward_names)
        self.columns.add(rows, done, rows.rows)
        self.index += block.events

    def _skip(self, error: MalformedEventError, with_place: errors.FormatError) -> None:
        self.events.skip_malformed(error)
        self.malformed += 1
        self.first_malformed = self.first_malformed or with_place

    def _estimate_bytes(self) -> int:
        """Return an upper bound of the memory used so far, in bytes."""
        return self.events.estimate_bytes() + self.columns.estimate_bytes()

    # ---- the table -----------------------------------------------------------------------------

    def table(self) -> EventTable:
        events, rows = self.events, self.events.rows
        samples = self._add_samples()
        numbers = number_ids(rows.tracks, events.text_ids)
        names = {number: str(key) for key, number in numbers.items() if number}
        for key, name in events.processes.items():
            if isinstance(key, int) or numbers.get(key):
                names[numbers.get(key) or int(key)] = name
        for track, thread in events.tasks.items():
            of_thread = rows.known_track(thread)
            if of_thread is not None:
                rows.tracks[track] = rows.tracks[track]._replace(tid=thread[1], thread_id=of_thread)
        last = max(rows.end, default=0)
        for row in events.open.rows():
            rows.end[row] = max(last, rows.start[row])
        check = lambda: self.budget.check(self._estimate_bytes())  # noqa: E731
        for what, count in events.stacks.finish(self.top, check).items():
            events.skipped[what] = count
        base = self.top.get("baseTimeNanoseconds", 0)
        base = base if type(base) is int and 0 <= base < 1 << 62 else 0
        own = self.top.get("fastprof")
        own = own if isinstance(own, dict) else {}
        dropped = own.get("dropped")
        cpu = [t for t in rows.tracks if t.pid > 0]
        pid = cpu[0].pid if cpu else 0
        if own and events.processes:  # fastprof writes its own process first
            pid = next((each for each in events.processes if isinstance(each, int)), 0)
            # The writer's default name.
            names = {each: name for each, name in names.items() if name != f"process {each}"}
        read = ("fastprof", "samples", "stackFrames")
        metadata = {k: v for k, v in self.top.items() if k not in read}
        metadata["format"] = "chrome"
        if samples:
            metadata["stack_samples"] = samples
        if self.damage:
            metadata["damage"] = self.damage
        if events.skipped:
            metadata["skipped_events"] = events.skipped
        if not isinstance(metadata.get("processes"), list) and (
            processes := described_processes(names, self._program_pids())
        ):
            metadata["processes"] = processes
        start = np.frombuffer(rows.start, np.int64)
        t0 = int(start.min()) + base if len(start) else base
        table = rows.finish(
            shift_ns=base,
            track_map=events.lanes,
            args_texts=self.columns.args_texts,
            t0_ns=_fact(own, "session_start_ns", t0),
            t1_ns=_fact(own, "session_stop_ns", last + base),
            clock_error_ns=_fact(own, "clock_error_ns", 0),
            pid=pid,
            process_name=names.get(pid, ""),
            dropped={
                str(k): v
                for k, v in (dropped if isinstance(dropped, dict) else {}).items()
                if k != "total" and type(v) is int and 0 <= v < 1 << 63
            },
            metadata=metadata,
        )
        return with_forward_tracks(link_kernels(table, events.devices))

    def _add_samples(self) -> int:
        """Add the rows of sampled stacks; return the number of samples."""
        events, tracks = self.events, self.events.rows.tracks
        names = {(id_of(each.pid), id_of(each.tid)): each.name for each in tracks}
        names |= {key: tracks[index].name for index, key in events.text_ids.items()}
        rows = StackRows(self.stream.source, "chrome", events.rows)
        track_of = lambda pid, text: events.track({"pid": pid, "tid": text})  # noqa: E731
        for what, count in events.samples.finish(rows, self.top, names, track_of).items():
            events.skipped[what] = count
        return rows.samples

    def _program_pids(self) -> set[int]:
        """Return the pids of the processes with rows other than work of devices."""
        rows = self.events.rows
        is_program = np.ones(len(rows), np.bool_)
        is_program[self.events.devices.devices[0]] = False
        used = distinct(np.frombuffer(rows.track, np.uint32)[is_program])
        return {rows.tracks[track].pid for track in used.tolist()}


def _fact(own: dict[str, Any], name: str, default: int) -> int:
    value = own.get(name)
    return value if type(value) is int and 0 <= value < 1 << 63 else default
