# SPDX-License-Identifier: Apache-2.0
"""FunctionEventAvg: sums over all events of one key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastprof.base.device_type import DeviceType
from fastprof.base.measure_names import MEMORY_FIELDS, TIME_FIELDS
from fastprof.views.function_event import FunctionEvent
from fastprof.views.measures import EventViewError, FormattedTimesMixin

__all__ = ["FROM_FIRST", "SUMMED", "Deferred", "FunctionEventAvg"]

FROM_FIRST = (
    "key",
    "node_id",
    "is_async",
    "is_remote",
    "cpu_parent",
    "cpu_children",
    "overload_name",
    "input_shapes",
    "stack",
    "scope",
    "device_type",
    "is_legacy",
    "use_device",
    "is_user_annotation",
)
SUMMED = (*TIME_FIELDS, *MEMORY_FIELDS, "count")


class FunctionEventAvg(FormattedTimesMixin):
    """Sums over the events of one key: times in us, memory in bytes, count, flops.

    Key, node, flags, parent, children, shapes, stack, scope and device are those of the first event
    that is added; the others only add to the sums. cpu_time and device_time are averages per call.

    Threads may read one average at the same time; adding to it is for one thread.
    """

    def __init__(self) -> None:
        self.key: str | None = None
        self.count: int = 0
        self.node_id: int = 0
        self.is_async: bool = False
        self.is_remote: bool = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: Any = None
        self.scope: int | None = None
        self.cpu_memory_usage: int = 0
        self.device_memory_usage: int = 0
        self.self_cpu_memory_usage: int = 0
        self.self_device_memory_usage: int = 0
        self.device_type: DeviceType = DeviceType.CPU
        self.is_legacy: bool = False
        self.flops: float | None = 0
        self.is_user_annotation: bool | None = False
        self._cpu_children: Any = None
        self._cpu_parent: Any = None

    # Parent and children may be a Deferred value, which is computed on first access.
    @property
    def cpu_parent(self) -> FunctionEvent | None:
        """Parent of the first event."""
        if isinstance(self._cpu_parent, Deferred):
            self._cpu_parent = self._cpu_parent.make()
        return self._cpu_parent  # type: ignore[no-any-return]

    @cpu_parent.setter
    def cpu_parent(self, value: FunctionEvent | None) -> None:
        self._cpu_parent = value

    @property
    def cpu_children(self) -> list[FunctionEvent] | None:
        """Children of the first event."""
        if isinstance(self._cpu_children, Deferred):
            self._cpu_children = self._cpu_children.make()
        return self._cpu_children  # type: ignore[no-any-return]

    @cpu_children.setter
    def cpu_children(self, value: list[FunctionEvent] | None) -> None:
        self._cpu_children = value

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.update(_cpu_children=self.cpu_children, _cpu_parent=self.cpu_parent)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event or average of the same key; return self. EventViewError for another key."""
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            kind = type(other).__name__
            raise EventViewError(
                f"cannot add a {kind} to an average. Use a FunctionEvent or FunctionEventAvg."
            )
        if self.key is None:
            for field in FROM_FIRST:
                setattr(self, field, getattr(other, field))
        if other.key != self.key:
            raise EventViewError(
                f"cannot add {other.key!r} to the average of {self.key!r}: the keys differ. "
                "Use total_average() to sum over different keys."
            )
        for field in SUMMED:
            setattr(self, field, getattr(self, field) + getattr(other, field))
        if self.flops is None:
            self.flops = other.flops
        elif other.flops is not None:
            self.flops += other.flops
        return self

    def __iadd__(self, other: Any) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage}>"
        )


class Deferred:
    """A value that is computed on first access."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
