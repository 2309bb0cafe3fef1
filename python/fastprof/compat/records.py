# SPDX-License-Identifier: Apache-2.0
"""parse_records: convert lists of begin, end and memory records to an EventList."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from fastprof.base.record_scope import RecordScope
from fastprof.views import EventList, EventViewError, FunctionEvent
from fastprof.views.names import (
    MEMORY_EVENT_NAME,
    OUT_OF_MEMORY_EVENT_NAME,
    demangle,
    is_filtered_name,
    keeps_stack_entry,
    wildcard_name,
)

__all__ = ["LegacyRecord", "parse_records"]

START_MARK = "__start_profile"
DEVICE_START_MARK = "__cuda_start_event"


@dataclass(frozen=True)
class LegacyRecord:
    """One record of the exclusive profiler, as plain values.

    kind: "mark", "push", "pop", "memory_alloc" or "out_of_memory". cpu_ns: a monotonic time. handle: identifies a
    range within its node. device_us: time of the record's device event on `device`; None without one.
    Memory in bytes, negative for a free. stack: innermost frame first. Any thread.
    """

    kind: str
    name: str = ""
    thread_id: int = 0
    handle: int = 0
    node_id: int = -1
    cpu_ns: int = 0
    is_remote: bool = False
    is_async: bool = False
    cpu_memory_usage: int = 0
    cuda_memory_usage: int = 0
    device: int = -1
    device_us: float | None = None
    sequence_nr: int = -1
    fwd_thread_id: int = 0
    scope: int = RecordScope.FUNCTION.value
    flops: int = 0
    shapes: Any = field(default_factory=list)
    stack: Sequence[str] = ()

    @property
    def has_cuda(self) -> bool:
        """Whether the record has a device event."""
        return self.device_us is not None

    def cpu_elapsed_us(self, other: LegacyRecord) -> float:
        """Return the CPU time from this record to another, us."""
        return (other.cpu_ns - self.cpu_ns) / 1000

    def cuda_elapsed_us(self, other: LegacyRecord) -> float:
        """Return the device time from this record to another, us; EventViewError across devices."""
        if self.device_us is None or other.device_us is None:
            raise EventViewError(
                "cannot compute device time: one of the two records has no device event (device_us)"
            )
        if self.device != other.device:
            raise EventViewError(
                "cannot compute device time between records of two devices, "
                f"{self.device} and {other.device}"
            )
        return other.device_us - self.device_us


def parse_records(
    lists: Iterable[Iterable[Any]],
    *,
    use_device: str | None = None,
    profile_memory: bool = False,
    with_flops: bool = False,
) -> EventList[FunctionEvent]:
    """Convert record lists, one per thread and one per remote addition, to FunctionEvents.

    lists: records are LegacyRecords or objects with the same fields, as values or as methods without
    arguments (such as torch's own legacy records); they are not modified. use_device, profile_memory,
    with_flops: as in EventList.

    Within a list, push and pop pair by (handle, node_id). Times are in us from the first
    `__start_profile`, which must exist and be local. Ranges of the profiler's own machinery are
    dropped, and so is a push directly after a push of the same name and node (an operator's wrapper).
    Memory counts for every range open in its list, or else becomes a `[memory]` row. A failed
    allocation becomes an `[OutOfMemory]` row at its time, with the requested bytes. A push without a
    pop is no event, as in PyTorch. The result is sorted by (start, -end).

    Raises EventViewError for a pop without a push (naming its key), for an unknown kind of record, and
    for a missing or remote start.
    """
    kept = [[_Record(record) for record in records] for records in lists]
    start = next((r for r in chain.from_iterable(kept) if r.name == START_MARK), None)
    if start is None or start.is_remote:
        what = "belongs to a remote process" if start else "is missing"
        raise EventViewError(
            f"the record {START_MARK!r} {what}. Pass the lists in the profiler's order, local threads "
            "first."
        )
    marks = {
        (r.node_id, r.device): r
        for r in chain.from_iterable(kept)
        if r.kind == "mark" and r.name == DEVICE_START_MARK and r.has_cuda
    }
    events: list[FunctionEvent] = []
    for records in kept:
        events += _ThreadParser(start, marks, use_device or "cuda").parse(records)
    events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
    return EventList(
        events, use_device=use_device, profile_memory=profile_memory, with_flops=with_flops
    )


class _Record:
    """The fields of a record that the parser uses, each read once."""

    __slots__ = (
        "cpu_memory_usage",
        "cuda_memory_usage",
        "device",
        "has_cuda",
        "is_remote",
        "key",
        "kind",
        "name",
        "node_id",
        "source",
        "thread_id",
    )

    def __init__(self, source: Any) -> None:
        self.source = source
        self.kind: str = self.read("kind")
        self.name: str = self.read("name")
        self.node_id: int = self.read("node_id")
        self.thread_id: int = self.read("thread_id")
        self.is_remote: bool = self.read("is_remote")
        self.has_cuda: bool = self.read("has_cuda")
        self.device: int = self.read("device") if self.has_cuda else -1
        memory = self.kind in ("memory_alloc", "out_of_memory")
        self.cpu_memory_usage: int = self.read("cpu_memory_usage") if memory else 0
        self.cuda_memory_usage: int = self.read("cuda_memory_usage") if memory else 0
        self.key: tuple[int, int] = (self.read("handle"), self.node_id)

    def read(self, name: str) -> Any:
        value = getattr(self.source, name)
        return value() if callable(value) else value


class _Open:
    """A range whose pop has not been read yet."""

    __slots__ = ("cpu_memory", "device_memory", "record")

    def __init__(self, record: _Record) -> None:
        self.record = record
        self.cpu_memory = 0
        self.device_memory = 0


class _ThreadParser:
    """Parser of one list."""

    def __init__(
        self, start: _Record, marks: dict[tuple[int, int], _Record], use_device: str
    ) -> None:
        self.use_device = use_device
        self.start = start
        self.marks = marks
        self.open: dict[tuple[int, int], _Open] = {}
        self.events: list[FunctionEvent] = []

    def parse(self, records: list[_Record]) -> list[FunctionEvent]:
        dropped: set[tuple[int, int]] = set()
        previous: _Record | None = None
        for record in records:
            if record.kind == "out_of_memory":  # before the name filter, which would remove it
                self._fail_to_allocate(record)
                previous = record
                continue
            if is_filtered_name(record.name) or record.key in dropped:
                dropped.add(record.key)
                continue
            if record.kind == "push":
                if previous is not None and _repeats(previous, record):
                    dropped.add(record.key)
                    continue
                self.open[record.key] = _Open(record)
            elif record.kind == "pop":
                self._close(record)
            elif record.kind == "memory_alloc":
                self._allocate(record)
            elif record.kind != "mark":
                raise EventViewError(
                    f"unknown record kind {record.kind!r}. Use mark, push, pop, memory_alloc or "
                    "out_of_memory."
                )
            previous = record
        return self.events

    def _allocate(self, record: _Record) -> None:
        for range_ in self.open.values():
            range_.cpu_memory += record.cpu_memory_usage
            range_.device_memory += record.cuda_memory_usage
        if not self.open:
            self.events.append(
                FunctionEvent(
                    id=0,
                    name=MEMORY_EVENT_NAME,
                    trace_name=None,
                    thread=0,
                    start_us=0,
                    end_us=0,
                    stack=[],
                    cpu_memory_usage=record.cpu_memory_usage,
                    device_memory_usage=record.cuda_memory_usage,
                    is_legacy=True,
                )
            )

    def _fail_to_allocate(self, record: _Record) -> None:
        at_us = self._since_start(record)
        self.events.append(
            FunctionEvent(
                id=0,
                node_id=record.node_id,
                name=OUT_OF_MEMORY_EVENT_NAME,
                trace_name=None,
                thread=record.thread_id,
                start_us=at_us,
                end_us=at_us,
                stack=[],
                cpu_memory_usage=record.cpu_memory_usage,
                device_memory_usage=record.cuda_memory_usage,
                is_remote=record.is_remote,
                is_legacy=True,
            )
        )

    def _close(self, pop: _Record) -> None:
        range_ = self.open.pop(pop.key, None)
        if range_ is None:
            raise EventViewError(
                f"the pop record with (handle, node_id) = {pop.key} has no push in its list. Pass complete lists."
            )
        push = range_.record
        is_async = push.read("is_async") or push.thread_id != pop.thread_id
        name = demangle(push.name)
        event = FunctionEvent(
            id=pop.key[0],
            node_id=pop.node_id,
            name=wildcard_name(name),
            trace_name=name,
            thread=push.thread_id,
            start_us=self._since_start(push),
            end_us=self._since_start(pop),
            fwd_thread=push.read("fwd_thread_id"),
            input_shapes=push.read("shapes"),
            stack=[entry for entry in push.read("stack") if keeps_stack_entry(entry)],
            scope=push.read("scope"),
            use_device=self.use_device if push.has_cuda else None,
            cpu_memory_usage=range_.cpu_memory,
            device_memory_usage=range_.device_memory,
            is_async=is_async,
            is_remote=pop.is_remote,
            sequence_nr=push.read("sequence_nr"),
            is_legacy=True,
            flops=push.read("flops"),
        )
        if not is_async and push.has_cuda and pop.has_cuda:
            duration = push.source.cuda_elapsed_us(pop.source)
            if duration > 0:
                self._add_kernel(event, push, duration)
        self.events.append(event)

    def _add_kernel(self, event: FunctionEvent, push: _Record, duration: float) -> None:
        mark = self.marks.get((push.node_id, push.device))
        if mark is None:
            event.append_kernel(push.name, push.device, duration)
            return
        begin = mark.source.cuda_elapsed_us(push.source) + self._since_start(mark)
        event.append_kernel(push.name, push.device, begin, begin + duration)

    def _since_start(self, record: _Record) -> float:
        return float(self.start.source.cpu_elapsed_us(record.source))


def _repeats(previous: _Record, record: _Record) -> bool:
    """Return whether a push directly repeats the one before it: an operator and its wrapper."""
    return (
        previous.kind == record.kind
        and previous.name == record.name
        and previous.node_id == record.node_id
    )
