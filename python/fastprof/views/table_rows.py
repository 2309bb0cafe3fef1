# SPDX-License-Identifier: Apache-2.0
"""TableRows and AverageRows: create event objects from rows on first access."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.cached_property import cached_property
from fastprof.base.device_type import DeviceType, as_device_type
from fastprof.base.measure_names import MEMORY_FIELDS, TIME_FIELDS
from fastprof.model.sites import MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME
from fastprof.model.table import CodedColumn, EventFlag
from fastprof.model.tree import EventTree
from fastprof.views.backward_stacks import forward_stacks
from fastprof.views.call_numbers import CallNumbers, call_numbers
from fastprof.views.forward_backward import FORWARD_BACKWARD_FLOW, Flows, forward_backward_flows
from fastprof.views.frame import EventFrame, display_codes
from fastprof.views.function_event import FunctionEvent
from fastprof.views.function_event_avg import Deferred, FunctionEventAvg
from fastprof.views.interval import Interval, Kernel
from fastprof.views.names import demangle
from fastprof.views.table_of_events import PLAIN_FIELDS

__all__ = ["AverageRows", "TableRows", "list_order", "tree_of"]

Array: TypeAlias = NDArray[Any]


def list_order(tree: EventTree) -> Array | None:
    """Return tree indices by (start, -end), an EventList's order; None if they are in that order."""
    table = tree.table
    if table.begin_ordered and (not table.has("track") or _one_value(table.column("track"))):
        return None
    start, end = tree.column("start_ns"), tree.column("end_ns")
    if bool((start[1:] > start[:-1]).all()):
        return None
    order = np.argsort(start, kind="stable")
    sorted_start, sorted_end = start[order], end[order]
    tied = sorted_start[1:] == sorted_start[:-1]
    if bool((tied & (sorted_end[1:] > sorted_end[:-1])).any()):
        order = np.lexsort((-end, start))
    return order


def _one_value(column: Array) -> bool:
    return len(column) == 0 or column.strides == (0,) or bool((column == column[0]).all())


# Values of fields for which nothing was recorded. They are PyTorch's, so that scripts can take their length.
_EMPTY: dict[str, Callable[[], Any]] = {
    "input_shapes": list,
    "concrete_inputs": list,
    "kwinputs": dict,
    "structured_input_shapes": list,
    "structured_input_strides": list,
    "input_dtypes": list,
}


class TableRows:
    """FunctionEvents over the rows of a tree; a row has one event object as long as it is referenced.

    kineto_metadata: metadata_json is the row's number in traces, as PyTorch's expose_kineto_event_metadata has it.
    pinned: the events whose fields were assigned to. Their list computes from objects from then on. They are kept
    alive, as are events to which attributes were added.
    """

    def __init__(
        self, tree: EventTree, use_device: str | None = None, kineto_metadata: bool = False
    ) -> None:
        self.tree = tree
        self.use_device = use_device
        self.kineto_metadata = kineto_metadata
        self.order = list_order(tree)
        self.pinned: dict[int, FunctionEvent] = {}
        self.kept: dict[int, FunctionEvent] = {}
        # Weak references, pruned now and then: a WeakValueDictionary doubles the cost of an event.
        self._alive: dict[int, weakref.ref[FunctionEvent]] = {}
        self._prune_at = 1024

    def __reduce__(self) -> Any:
        arguments = (self.tree, self.use_device, self.kineto_metadata)
        return TableRows, arguments  # the list copies pinned events itself

    def __len__(self) -> int:
        return len(self.tree)

    def at(self, position: int) -> FunctionEvent:
        """Return the event at a position of the list."""
        return self.event(position if self.order is None else int(self.order[position]))

    def event(self, index: int) -> FunctionEvent:
        """Return the event of a tree index."""
        reference = self._alive.get(index)
        event = None if reference is None else reference()
        if event is None:
            event = FunctionEvent._of_row(self, index)
            self._alive[index] = weakref.ref(event)
            if len(self._alive) > self._prune_at:
                self._prune()
        return event

    def _prune(self) -> None:
        """Remove dead references; at doubling sizes, so that the cost per event stays constant."""
        self._alive = {i: ref for i, ref in list(self._alive.items()) if ref() is not None}
        self._prune_at = max(1024, 2 * len(self._alive))

    def keep(self, event: FunctionEvent) -> None:
        """Keep an event alive to which an attribute was added."""
        self.kept[event.__dict__["_index"]] = event

    def pin(self, event: FunctionEvent) -> None:
        """Keep an event alive of which a field was assigned to, and compute from objects."""
        self.pinned[event.__dict__["_index"]] = event

    def away_us(self, index: int) -> tuple[float, float]:
        """Return the times that are not the row's own: of suspensions of its task, and given to other rows."""
        if self.tree.away_ns is None:
            return 0.0, 0.0
        suspended, given = self.tree.away_ns
        return suspended[index].item() / 1000, given[index].item() / 1000

    @cached_property
    def _flows(self) -> Flows | None:
        table = self.tree.table
        return None if table.has("flow_id") else forward_backward_flows(table)

    @cached_property
    def _calls(self) -> CallNumbers | None:
        table = self.tree.table
        return None if table.has("python_id") else call_numbers(table)

    def call_number(self, index: int, column: str) -> int:
        """Return python_id, python_parent_id or python_module_id."""
        if self._calls is None:
            return int(self.value(index, column))
        return int(getattr(self._calls, column)[self.tree.table_row(index)])

    def place(self, index: int, column: str, field: str) -> int:
        """Return a device column; for a CPU event of a known process, the kernel's id in its track instead.

        PyTorch has a CPU event's process as its device_index, and its thread as its device_resource_id.
        """
        table, row = self.tree.table, self.tree.table_row(index)
        if int(table.column("device_type")[row]) == DeviceType.CPU and len(table.tracks):
            track = table.tracks[int(table.column("track")[row])]
            if track.pid > 0:
                return int(getattr(track, field))
        return int(self.value(index, column))

    def metadata(self, index: int) -> str | None:
        """Return metadata_json: the recorded text, else "Ev Idx" as in traces if kineto_metadata is set."""
        recorded: str | None = self.coded(index, "metadata_json")
        if recorded is not None or not self.kineto_metadata:
            return recorded
        if self.value(index, "is_python_function"):
            return ""
        return f'"Ev Idx": {self.tree.table_row(index)}'

    def flow_id(self, index: int) -> int:
        """Return the id of the arrow between a forward op and its backward function; 0 for none."""
        if self._flows is None:
            return int(self.value(index, "flow_id"))
        return int(self._flows.id[self.tree.table_row(index)])

    def flow_type(self, index: int) -> int:
        """Return 1 if the event has such an arrow, else 0."""
        if self._flows is None:
            return int(self.value(index, "flow_type"))
        return FORWARD_BACKWARD_FLOW if self.flow_id(index) else 0

    def flow_start(self, index: int) -> bool:
        """Return whether the event is the arrow's forward op."""
        if self._flows is None:
            return bool(self.value(index, "flow_start"))
        return bool(self._flows.start[self.tree.table_row(index)])

    @cached_property
    def frame(self) -> EventFrame:
        """The columns for averages and tables."""
        frame = EventFrame.from_tree(self.tree, self.use_device, self.order)
        return replace(frame, stack=self.stacks)

    def keys_frame(self, shapes: bool, stacks: bool, overload: bool) -> EventFrame:
        """Return the key columns for averages, which sum times and memory from the tree.

        The coded columns are included on request.
        """

        def chosen(name: str, wanted: bool) -> CodedColumn | None:
            column = self.tree.table.coded.get(name) if wanted else None
            rows = self.tree.rows
            return column if column is None or rows is None else column.take(rows)

        return replace(
            self._plain_keys_frame,
            input_shapes=chosen("input_shapes", shapes),
            overload_name=chosen("overload_name", overload),
            stack=self.stacks if stacks else None,
        )

    @cached_property
    def _plain_keys_frame(self) -> EventFrame:
        return EventFrame.from_tree(self.tree, self.use_device, self.order, times=False)

    @cached_property
    def without_python_functions(self) -> TableRows:
        """These rows without the calls of Python functions, as if those had not been traced."""
        calls = self.tree.column("is_python_function")
        if not bool(calls.any()):
            return self
        return TableRows(self.tree.without(calls), self.use_device, self.kineto_metadata)

    @cached_property
    def stacks(self) -> CodedColumn | None:
        """Stack of each tree row; ops of the backward pass have their forward op's."""
        return forward_stacks(self.tree, self.order)

    @cached_property
    def _names(self) -> tuple[Array, list[str]]:
        return display_codes(self.tree)

    # ---- fields --------------------------------------------------------------------------------

    @property
    def fields(self) -> tuple[str, ...]:
        """The field names that `read` accepts."""
        return tuple(_READERS)

    def read(self, index: int, name: str) -> Any:
        """Return the value of a field of FunctionEvent."""
        reader = _READERS.get(name)
        if reader is None:
            raise AttributeError(f"'FunctionEvent' object has no attribute {name!r}")
        return reader(self, index)

    def measure(self, index: int, name: str) -> float:
        """Return a derived time in us, or memory in bytes."""
        values = getattr(self.frame, name)
        if values is None:
            return 0
        value = values[index].item()
        return value / 1000 if "time" in name else value  # type: ignore[no-any-return]

    def value(self, index: int, column: str) -> Any:
        """Return a value of a plain column of the table."""
        return self.tree.table.column(column)[self.tree.table_row(index)].item()

    def coded(self, index: int, column: str) -> Any:
        """Return a value of a coded column; if missing, PyTorch's empty value for it, or None."""
        values = self.tree.table.coded.get(column)
        value = None if values is None else values[self.tree.table_row(index)]
        if value is None:
            empty = _EMPTY.get(column)
            return None if empty is None else empty()
        return _fresh(value)

    def time_range(self, index: int) -> Interval:
        table, row = self.tree.table, self.tree.table_row(index)
        start = int(table.start_ns[row]) - table.t0_ns
        return Interval(start / 1000, (int(table.end_ns[row]) - table.t0_ns) / 1000)

    def shown_name(self, index: int) -> str:
        codes, texts = self._names
        return texts[int(codes[index])]

    def trace_name(self, index: int) -> str | None:
        name = self.tree.table.name(self.tree.table_row(index))
        # Memory rows have no duration and are not drawn in traces.
        return None if name in (MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME) else demangle(name)

    def kernels(self, index: int) -> list[Kernel]:
        kernels = self.tree.table.kernels
        if kernels is None:
            return []
        source = self.tree.kernel_rows
        row = self.tree.table_row(index) if source is None else int(source[index])
        first, last = np.searchsorted(kernels.row, [row, row + 1])
        return [
            Kernel(
                kernels.names[int(kernels.name[i])],
                int(kernels.device[i]),
                int(kernels.duration_ns[i]) / 1000,
            )
            for i in range(first, last)
        ]

    def parent(self, index: int) -> FunctionEvent | None:
        parent = int(self.tree.parent[index])
        return None if parent < 0 else self.event(parent)

    def children(self, index: int) -> list[FunctionEvent]:
        return [self.event(child) for child in self.tree.children(index).tolist()]

    def stack(self, index: int) -> Any:
        found = None if self.stacks is None else _fresh(self.stacks[index])
        if found or self._calls is None:
            return found
        table, row = self.tree.table, self.tree.table_row(index)
        callers = [table.name(at) for at in self._calls.callers(row)]
        return callers if callers or table.column("is_python_function")[row] else found

    def flops(self, index: int) -> float | None:
        value = float(self.value(index, "flops"))
        return None if value != value else int(value) if value.is_integer() else value

    def optional_thread(self, index: int) -> int | None:
        value = self.value(index, "fwd_thread")
        return None if value < 0 else int(value)


def _fresh(value: Any) -> Any:
    """Copy a list or tuple, so that changing the result leaves the table as it is."""
    return list(value) if type(value) in (list, tuple) else value


_Reader: TypeAlias = Callable[[TableRows, int], Any]


def _column_reader(name: str) -> _Reader:
    return lambda rows, index: rows.value(index, name)


def _coded_reader(name: str) -> _Reader:
    return lambda rows, index: rows.coded(index, name)


_READERS: dict[str, _Reader] = {
    **{name: _column_reader(name) for name in PLAIN_FIELDS},
    **{
        name: _coded_reader(name)
        for name in (
            "overload_name",
            "input_shapes",
            "concrete_inputs",
            "kwinputs",
            "structured_input_shapes",
            "structured_input_strides",
            "input_dtypes",
            "event_metadata",
        )
    },
    "metadata_json": TableRows.metadata,
    "device_index": lambda rows, i: rows.place(i, "device_index", "pid"),
    "device_resource_id": lambda rows, i: rows.place(i, "device_resource_id", "tid"),
    "python_id": lambda rows, i: rows.call_number(i, "python_id"),
    "python_parent_id": lambda rows, i: rows.call_number(i, "python_parent_id"),
    "python_module_id": lambda rows, i: rows.call_number(i, "python_module_id"),
    "flow_id": TableRows.flow_id,
    "flow_type": TableRows.flow_type,
    "flow_start": TableRows.flow_start,
    "name": TableRows.shown_name,
    "trace_name": TableRows.trace_name,
    "time_range": TableRows.time_range,
    "thread": lambda rows, i: int(rows.tree.table.thread[rows.tree.table_row(i)]),
    "fwd_thread": TableRows.optional_thread,
    "kernels": TableRows.kernels,
    "count": lambda rows, i: 1,
    "cpu_children": TableRows.children,
    "cpu_parent": TableRows.parent,
    "stack": TableRows.stack,
    "use_device": lambda rows, i: rows.use_device,
    "device_type": lambda rows, i: as_device_type(rows.value(i, "device_type")),
    "flops": TableRows.flops,
    "activity_type": lambda rows, i: (
        rows.coded(i, "activity_type")
        or rows.tree.table.sites.field("category")[
            int(rows.tree.table.column("site")[rows.tree.table_row(i)])
        ]
    ),
    "finished": lambda rows, i: bool(rows.value(i, "flags") & EventFlag.FINISHED),
    "self_cpu_percent": lambda rows, i: -1,
    "total_cpu_percent": lambda rows, i: -1,
    "total_device_percent": lambda rows, i: -1,
}


class AverageRows:
    """FunctionEventAvgs over the rows of a summed frame. Converts times to us."""

    def __init__(self, frame: EventFrame, first: Array, source: TableRows) -> None:
        self.frame = frame
        self.first = first
        self.source = source
        self.order = None

    def __len__(self) -> int:
        return self.frame.size

    def at(self, position: int) -> FunctionEventAvg:
        """Create the average of a row; the calling list keeps it."""
        frame, source, first = self.frame, self.source, int(self.first[position])
        average = FunctionEventAvg()
        average.key = frame.key[position]
        average.count = int(frame.metric("count")[position])
        for field in TIME_FIELDS:
            setattr(average, field, frame.metric(field)[position].item() / frame.unit_per_us)
        for field in (*MEMORY_FIELDS, "node_id"):
            setattr(average, field, int(frame.metric(field)[position]))
        flops = float(frame.metric("flops")[position])
        average.flops = int(flops) if flops.is_integer() else flops
        average.use_device = frame.use_device
        average.is_async = bool(frame.is_async[position])
        average.is_legacy = bool(frame.is_legacy[position])
        average.is_remote = bool(source.value(first, "is_remote"))
        average.is_user_annotation = bool(source.value(first, "is_user_annotation"))
        average.scope = int(source.value(first, "scope"))
        average.device_type = as_device_type(int(frame.device_type[position]))
        for name, column in (
            ("input_shapes", frame.input_shapes),
            ("overload_name", frame.overload_name),
            ("stack", frame.stack),
        ):
            setattr(average, name, None if column is None else _fresh(column[position]))
        average._cpu_parent = Deferred(lambda: source.parent(first))
        average._cpu_children = Deferred(lambda: source.children(first))
        return average


def tree_of(events: Any) -> EventTree:
    """Return the EventTree of an EventList of events; of hand-made or changed events, a new one."""
    rows = events._columnar()
    if not isinstance(rows, TableRows):
        rows = type(events).from_table(events.to_table())._columnar()
    tree: EventTree = rows.tree
    return tree
