# SPDX-License-Identifier: Apache-2.0
"""KinetoResults: a recording in the form of PyTorch's raw results (prof.profiler.kineto_results).

For packages that read those instead of events(): a view over the table's columns, whose objects exist while they are
referenced. The objects pass isinstance() with libtorch's classes, and their enums are libtorch's, once torch is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from fastprof.analysis.tree_events import LazyRows
from fastprof.model.table import EventKind, EventTable
from fastprof.profiler.kineto.torch_types import Imitation
from fastprof.profiler.kineto.tree import KinetoTree, ProfilerEvent, torch_device_type
from fastprof.profiler.result import Result

__all__ = ["KinetoEvent", "KinetoResults"]

# Accessors of an event that return a field of its FunctionEvent, by the field's name.
_FIELDS = {
    "overload_name": "overload_name", "is_async": "is_async", "shapes": "input_shapes",
    "linked_correlation_id": "linked_correlation_id", "external_id": "external_id",
    "dtypes": "input_dtypes", "concrete_inputs": "concrete_inputs", "kwinputs": "kwinputs",
    "start_thread_id": "thread", "fwd_thread_id": "fwd_thread", "stack": "stack", "scope": "scope",
    "sequence_nr": "sequence_nr", "flops": "flops", "is_user_annotation": "is_user_annotation",
    "is_python_function": "is_python_function", "metadata_json": "metadata_json",
    "activity_type": "activity_type", "flow_id": "flow_id", "flow_type": "flow_type",
    "flow_start": "flow_start", "structured_input_shapes": "structured_input_shapes",
    "structured_input_strides": "structured_input_strides", "python_id": "python_id",
    "python_parent_id": "python_parent_id", "python_module_id": "python_module_id",
    "device_resource_id": "device_resource_id",
}  # fmt: skip
_EMPTY: dict[str, Any] = {
    "overload_name": "", "fwd_thread": 0, "flops": 0, "metadata_json": "", "stack": [],
}  # fmt: skip


class KinetoEvent(Imitation):
    """An event with the accessors of torch's _KinetoEvent, which are methods. Times: Unix ns."""

    __slots__ = ("_event",)
    _MODULE, _NAME = "torch._C._autograd", "_KinetoEvent"

    def __init__(self, of: KinetoTree, index: int) -> None:
        self._event = ProfilerEvent(of, index)

    def __getattr__(self, accessor: str) -> Callable[[], Any]:
        field = _FIELDS.get(accessor)
        if field is None:
            raise AttributeError(f"'KinetoEvent' object has no attribute {accessor!r}")
        value = self._event.read(field)
        return lambda: _EMPTY.get(field) if value is None else value

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *_FIELDS})

    def name(self) -> str:
        """Return the name as recorded."""
        return self._event.name

    def correlation_id(self) -> int:
        """Return the number by which events are linked."""
        return self._event.correlation_id

    def start_ns(self) -> int:
        """Return the begin."""
        return self._event.start_time_ns

    def end_ns(self) -> int:
        """Return the end."""
        return self._event.end_time_ns

    def duration_ns(self) -> int:
        """Return the time from begin to end, ns."""
        return self._event.duration_time_ns

    def device_type(self) -> Any:
        """Return the kind of device; of a memory record, that of the memory."""
        return torch_device_type(self._event._of.device(self._event.row)[0])

    def device_index(self) -> int:
        """Return the device's index; for events of the CPU, PyTorch has the process id here."""
        kind = self._event._of.table.column("kind")[self._event.row]
        if kind <= EventKind.ASYNC_RANGE:
            return int(self._event.read("device_index"))
        return self._event._of.device(self._event.row)[1]

    def end_thread_id(self) -> int:
        """Return the thread on which it ended."""
        table, row = self._event._of.table, self._event.row
        ending = int(table.column("end_track")[row])
        return self._event.start_tid if ending < 0 else int(table.tracks.rows[ending].id)

    def nbytes(self) -> int:
        """Return the bytes of a memory record, negative for a free; 0 for other events."""
        kind = self._event._of.table.column("kind")[self._event.row]
        return self._event._of.memory(self._event.row)[0][1] if kind == EventKind.MEMORY else 0

    def extra_meta(self) -> dict[str, str]:
        """Return what event_metadata has of the event, as text by field name (PyTorch: by name in traces)."""
        found = self._event.read("event_metadata")
        return (
            {}
            if found is None
            else {k: str(v) for k, v in found._asdict().items() if v is not None}
        )

    def is_hidden_event(self) -> bool:
        """Return False: events that are left out are not in the list."""
        return False

    def cuda_elapsed_us(self) -> int:
        """Return -1, as without the fallback of CUDA events."""
        return -1

    def privateuse1_elapsed_us(self) -> int:
        """Return -1, as without that fallback."""
        return -1


class KinetoResults(Imitation):
    """Raw results of one recording. Any thread.

    result: the recording. save: function that writes its trace to a path.
    """

    __slots__ = ("_result", "_save", "_tree")
    _MODULE, _NAME = "torch._C._autograd", "_ProfilerResult"

    def __init__(self, result: Result, save: Callable[[str | os.PathLike[str]], None]) -> None:
        options = result.options
        self._tree = KinetoTree(result.recorded, options.use_device, options.kineto_metadata)
        self._result, self._save = result, save

    @property
    def event_table(self) -> EventTable:
        """The columns of the recording."""
        return self._result.table

    def trace_start_ns(self) -> int:
        """Return the time from which events() of the profile count, Unix ns."""
        return self._tree.table.t0_ns

    def events(self) -> Sequence[KinetoEvent]:
        """Return every event by start, made when it is read."""
        order, tree = self._tree.rows.order, self._tree
        return LazyRows(
            len(tree.tree), lambda at: KinetoEvent(tree, at if order is None else int(order[at]))
        )

    def experimental_event_tree(self) -> list[ProfilerEvent]:
        """Return the events that no other encloses; children and parents are read from them."""
        return self._tree.roots()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as export_chrome_trace() does."""
        self._save(path)
