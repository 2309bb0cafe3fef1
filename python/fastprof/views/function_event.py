# SPDX-License-Identifier: Apache-2.0
"""FunctionEvent: one event with PyTorch's fields, built by hand or read lazily from a table row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, SupportsIndex

from fastprof.base.device_type import DEVICE_TIME_TYPES, DeviceType, as_device_type
from fastprof.model.event_metadata import EventMetadata, parse_metadata
from fastprof.views.interval import Interval, Kernel, TimedKernel
from fastprof.views.measures import EventViewError, FormattedTimesMixin


class RowSource(Protocol):
    """The interface of an event to the table row that it represents (implemented by TableRows)."""

    @property
    def pinned(self) -> Mapping[int, FunctionEvent]:
        """The events that were assigned to, by row."""

    @property
    def kept(self) -> Mapping[int, FunctionEvent]:
        """The events to which attributes were added, by row."""

    @property
    def fields(self) -> Sequence[str]:
        """The field names that `read` accepts."""

    def read(self, index: int, name: str) -> Any:
        """Return the value of a field."""

    def measure(self, index: int, name: str) -> float:
        """Return a derived time in us, or memory in bytes."""

    def away_us(self, index: int) -> tuple[float, float]:
        """Return the times that are not the row's own: of suspensions of its task, and given to other rows."""

    def event(self, index: int) -> FunctionEvent:
        """Return the event of a row."""

    def keep(self, event: FunctionEvent) -> None:
        """Keep an event alive to which an attribute was added."""

    def pin(self, event: FunctionEvent) -> None:
        """Keep an event alive of which a field was assigned to, and compute from objects."""


__all__ = ["FunctionEvent"]

_SAME_AS_NAME = "\0same as name"


class FunctionEvent(FormattedTimesMixin):
    """One event: an op, a user range, or a device activity. Times in us, memory in bytes.

    Built from plain values, it stores them. An event that an EventList makes from a table row reads
    each field from the table's columns on first access; assigning to a field pins the event, and
    from then on the list computes from its event objects. Other attributes can be added at will.

    node_id, sequence_nr: -1 for none. flops: None if unknown. Device times are 0 unless `use_device`
    is set; `use_cuda=True` sets it to "cuda".

    Threads may read one event at the same time; assigning to it is for one thread.
    """

    id: int
    node_id: int
    name: str
    overload_name: str | None
    trace_name: str | None
    time_range: Interval
    thread: int
    fwd_thread: int | None
    kernels: list[Kernel]
    count: int
    cpu_children: list[FunctionEvent]
    cpu_parent: FunctionEvent | None
    input_shapes: Any
    concrete_inputs: Any
    kwinputs: Any
    stack: Any
    scope: int
    use_device: str | None
    cpu_memory_usage: int
    device_memory_usage: int
    is_async: bool
    is_remote: bool
    sequence_nr: int
    device_type: DeviceType
    device_index: int
    device_resource_id: int
    is_legacy: bool
    flops: float | None
    is_user_annotation: bool | None
    is_python_function: bool
    activity_type: str | None
    metadata_json: str | None
    event_metadata: EventMetadata | None
    flow_id: int | None
    flow_type: int | None
    flow_start: bool | None
    external_id: int
    linked_correlation_id: int
    structured_input_shapes: Any
    structured_input_strides: Any
    input_dtypes: Any
    python_id: int
    python_parent_id: int
    python_module_id: int
    finished: bool

    def __init__(
        self,
        id: int,  # PyTorch's name
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: Sequence[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: Any = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: float | None = None,
        trace_name: str | None = _SAME_AS_NAME,
        concrete_inputs: Any = None,
        kwinputs: Mapping[str, Any] | None = None,
        is_user_annotation: bool | None = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        flow_id: int | None = None,
        flow_type: int | None = None,
        flow_start: bool | None = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: Mapping[str, Any] | None = None,
        structured_input_shapes: Any = None,
        structured_input_strides: Any = None,
        input_dtypes: Sequence[str] | None = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
        *,
        use_cuda: bool = False,
        cuda_memory_usage: int | None = None,
        finished: bool = True,
    ) -> None:
        if use_cuda and use_device is None:
            use_device = "cuda"
        if cuda_memory_usage is not None:
            device_memory_usage = cuda_memory_usage
        self.__dict__.update(
            id=id,
            node_id=node_id,
            name=name,
            overload_name=overload_name,
            trace_name=name if trace_name is _SAME_AS_NAME else trace_name,
            time_range=Interval(start_us, end_us),
            thread=thread,
            fwd_thread=fwd_thread,
            kernels=[],
            count=1,
            cpu_children=[],
            cpu_parent=None,
            input_shapes=input_shapes,
            concrete_inputs=concrete_inputs,
            kwinputs=kwinputs,
            stack=stack,
            scope=scope,
            use_device=use_device,
            cpu_memory_usage=cpu_memory_usage,
            device_memory_usage=device_memory_usage,
            is_async=is_async,
            is_remote=is_remote,
            sequence_nr=sequence_nr,
            device_type=as_device_type(device_type),
            device_index=device_index,
            device_resource_id=thread if device_resource_id is None else device_resource_id,
            is_legacy=is_legacy,
            flops=flops,
            is_user_annotation=is_user_annotation,
            is_python_function=is_python_function,
            activity_type=activity_type,
            self_cpu_percent=-1,
            total_cpu_percent=-1,
            total_device_percent=-1,
            metadata_json=metadata_json,
            flow_id=flow_id,
            flow_type=flow_type,
            flow_start=flow_start,
            external_id=external_id,
            linked_correlation_id=linked_correlation_id,
            event_metadata=parse_metadata(extra_meta),
            structured_input_shapes=structured_input_shapes,
            structured_input_strides=structured_input_strides,
            input_dtypes=input_dtypes,
            python_id=python_id,
            python_parent_id=python_parent_id,
            python_module_id=python_module_id,
            finished=finished,
        )

    # ---- rows of a table -----------------------------------------------------------------------

    @classmethod
    def _of_row(cls, rows: RowSource, index: int) -> FunctionEvent:
        event = cls.__new__(cls)
        fields = event.__dict__
        fields["_rows"] = rows
        fields["_index"] = index
        return event

    def __getattr__(self, name: str) -> Any:
        # Called only for fields not read yet: read from the row and cache in __dict__.
        fields = self.__dict__
        rows = fields.get("_rows")
        if rows is None or name[:2] == "__":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = fields[name] = rows.read(fields["_index"], name)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        rows: RowSource | None = self.__dict__.get("_rows")
        if rows is not None:
            (rows.pin if name in rows.fields else rows.keep)(self)

    def __dir__(self) -> list[str]:
        rows: RowSource | None = self.__dict__.get("_rows")
        names = set(object.__dir__(self))
        if rows is not None:
            names.update(rows.fields)
        return sorted(names)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        # A row's event is pickled as its row number; its relatives are in the tree. Recursion over
        # them would fail at about a thousand levels.
        rows: RowSource | None = self.__dict__.get("_rows")
        if rows is None or rows.pinned or rows.kept or type(self) is not FunctionEvent:
            return super().__reduce_ex__(protocol)
        return _event_of_row, (rows, self.__dict__["_index"])

    def __copy__(self) -> FunctionEvent:
        # Not the object of the row: to assign to a copy must not change the list of the original.
        return self._copied()

    def unlinked(self) -> FunctionEvent:
        """Return a copy without relatives, for a list that links its events by their times.

        What the event gave to rows elsewhere is its own there, unless these are listed as its children.
        """
        copied = self._copied(without=("cpu_parent", "cpu_children"))
        copied.cpu_parent, copied.cpu_children = None, []
        if "_away" in copied.__dict__:
            copied._away = (copied._away[0], 0.0)
        return copied

    def _copied(self, without: tuple[str, ...] = ()) -> FunctionEvent:
        copied = type(self).__new__(type(self))
        copied.__setstate__(self._state(without))
        return copied

    def __getstate__(self) -> dict[str, Any]:
        return self._state()

    def _state(self, without: tuple[str, ...] = ()) -> dict[str, Any]:
        rows: RowSource | None = self.__dict__.get("_rows")
        if rows is None:
            return {k: v for k, v in self.__dict__.items() if k not in without}
        state = {name: getattr(self, name) for name in rows.fields if name not in without}
        left_out = ("_rows", "_index", *without)
        state.update((k, v) for k, v in self.__dict__.items() if k not in left_out)
        if any(away := self._away_us()):
            state["_away"] = away
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _measure(self, name: str) -> float | None:
        """Return a time or memory value from the columns; None for an event without a table row."""
        rows: RowSource | None = self.__dict__.get("_rows")
        if rows is None or rows.pinned:
            return None
        return rows.measure(self.__dict__["_index"], name)

    def _away_us(self) -> tuple[float, float]:
        rows: RowSource | None = self.__dict__.get("_rows")
        if rows is None:
            return self.__dict__.get("_away", (0.0, 0.0))  # type: ignore[no-any-return]
        return rows.away_us(self.__dict__["_index"])

    # ---- linking -------------------------------------------------------------------------------

    def append_kernel(
        self, name: str, device: int, duration: float, end: float | None = None
    ) -> None:
        """Attach a device activity. duration: in us.

        The older form append_kernel(name, device, start, end) is accepted; as in the versions that
        had it, it sets use_device to "cuda" if unset. Raises EventViewError for a device event.
        """
        self._expect_cpu("append_kernel needs a CPU event")
        kernels = [*self.kernels]
        if end is None:
            kernels.append(Kernel(name, device, duration))
        else:
            start = duration
            kernels.append(TimedKernel(name, device, end - start, start))
            if self.use_device is None:
                self.use_device = "cuda"
        self.kernels = kernels  # the assignment pins an event that came from a row

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Append a direct child. Raises EventViewError unless both are CPU FunctionEvents."""
        self._expect_cpu("only CPU events have CPU children")
        _expect_cpu_event(child, "child")
        children = [*self.cpu_children]
        children.append(child)
        self.cpu_children = children

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the direct parent. Raises EventViewError unless both are CPU FunctionEvents."""
        self._expect_cpu("only CPU events have a CPU parent")
        _expect_cpu_event(parent, "parent")
        self.cpu_parent = parent

    def _expect_cpu(self, message: str) -> None:
        if self.device_type != DeviceType.CPU:
            raise EventViewError(f"{message}; {self.name!r} is of {self.device_type}")

    # ---- derived values ------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """The first grouping criterion of averages: the name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """CPU time including children, us; 0 for device activities."""
        value = self._measure("cpu_time_total")
        if value is not None:
            return value
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        """CPU time minus that of the direct children, us; may be negative; 0 for async and device events."""
        value = self._measure("self_cpu_time_total")
        if value is not None:
            return value
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        # As EventTree.self_ns.
        suspended, given = self._away_us()
        children = sum(c.cpu_time_total - c._away_us()[0] for c in self.cpu_children)
        return self.cpu_time_total - suspended - children - given

    @property
    def device_time_total(self) -> float:
        """Device time, us: own and descendants' kernels (legacy: own only), or a device activity's duration."""
        value = self._measure("device_time_total")
        if value is not None:
            return value
        if self.is_async or not self.use_device:
            return 0
        if self.device_type != DeviceType.CPU:
            return self._device_duration()
        own = sum(kernel.duration for kernel in self.kernels)
        if self.is_legacy:
            return own
        return own + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Device time minus that of the direct children, us; for a device activity its duration."""
        value = self._measure("self_device_time_total")
        if value is not None:
            return value
        if self.is_async or not self.use_device:
            return 0
        if self.device_type != DeviceType.CPU:
            return self._device_duration()
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)

    def _device_duration(self) -> float:
        if self.device_type not in DEVICE_TIME_TYPES:
            known = ", ".join(sorted(t.name for t in DEVICE_TIME_TYPES))
            raise EventViewError(
                f"events of {self.device_type} have no device time; those of {known} do"
            )
        return self.time_range.elapsed_us()

    @property
    def self_cpu_memory_usage(self) -> int:
        """CPU memory minus that of the direct children, bytes; 0 for async and device events."""
        value = self._measure("self_cpu_memory_usage")
        if value is not None:
            return int(value)
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """Device memory minus that of the direct children, bytes; 0 for async and device events."""
        value = self._measure("self_device_memory_usage")
        if value is not None:
            return int(value)
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        children = sum(child.device_memory_usage for child in self.cpu_children)
        return self.device_memory_usage - children

    def __repr__(self) -> str:
        device = self.use_device
        children = [child.id for child in self.cpu_children]
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={children} {device}_time={self.device_time_str} "
            f"name={self.name} thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


def _event_of_row(rows: RowSource, index: int) -> FunctionEvent:
    return rows.event(index)


def _expect_cpu_event(event: object, role: str) -> None:
    if not isinstance(event, FunctionEvent):
        raise EventViewError(f"the {role} must be a FunctionEvent, not {type(event).__name__}")
    event._expect_cpu(f"the {role} must be a CPU event")
