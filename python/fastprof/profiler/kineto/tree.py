# SPDX-License-Identifier: Apache-2.0
"""KinetoTree: all rows of a recording as PyTorch's raw results have them, made when they are read.

Ranges, calls, device activities and memory records are nodes; a device activity is a child of the range that
launched it. Columns only: a node is a row number. Any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastprof.analysis.memory_categories.storages import Storage, can_categorise, read_steps
from fastprof.analysis.tree_events import TreeEvent
from fastprof.base.cached_property import cached_property
from fastprof.base.device_type import DeviceType, as_device_type, device_type_name
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.launching import launching_rows
from fastprof.model.memory_rows import is_python_allocator
from fastprof.model.sites import MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME
from fastprof.model.table import EventKind, EventTable
from fastprof.model.tree import EventTree
from fastprof.profiler.kineto.fields import (
    AllocationFields,
    DeviceFields,
    FailedFields,
    OpFields,
    PyCallFields,
    PyCCallFields,
)
from fastprof.profiler.kineto.torch_types import EventType, Imitation, torch_member
from fastprof.views.table_rows import TableRows

__all__ = ["KinetoTree", "ProfilerEvent", "torch_device_type"]

_MEMORY_WORDS = 4
_SHOWN = (EventKind.RANGE, EventKind.ASYNC_RANGE, EventKind.MEMORY, EventKind.OUT_OF_MEMORY)


def torch_device_type(value: DeviceType) -> Any:
    """Return torch's DeviceType of that name while torch is loaded, else ours."""
    return torch_member("torch._C._autograd", value, "DeviceType")


class KinetoTree:
    """The nodes of a table. table: as recorded, before memory is attributed to ranges. The rest: see TableRows."""

    def __init__(
        self, table: EventTable, use_device: str | None, kineto_metadata: bool = False
    ) -> None:
        self.table = table
        self._categories = table.sites.field("category")
        rows = np.flatnonzero(np.isin(table.column("kind"), _SHOWN) & ~self._python_memory())
        position = np.full(len(table) + 1, -1, np.int32)
        position[rows] = np.arange(len(rows), dtype=np.int32)
        parent = position[self._parent_rows()[rows]]
        self.tree = EventTree(table, rows, parent)
        self.rows = TableRows(self.tree, use_device, kineto_metadata)

    def _python_memory(self) -> Any:
        functions = self.table.sites.field("function")
        python = np.array([is_python_allocator(one) for one in functions] or [False], np.bool_)
        return (self.table.column("kind") == EventKind.MEMORY) & python[self.table.column("site")]

    def _parent_rows(self) -> Any:
        """Return the row around each row; of a device activity, the one that launched it."""
        table = self.table
        parent = (
            table.column("parent") if table.has("parent") else np.full(len(table), -1, np.int32)
        )
        if not table.has("linked_correlation_id"):
            return parent
        launching = launching_rows(table, np.arange(len(table)))
        return np.where(launching >= 0, launching, parent).astype(np.int32)

    @cached_property
    def _children(self) -> tuple[Any, Any, Any]:
        """(tree indices by parent and start, first position of each parent, roots)."""
        parent, start = self.tree.parent, self.tree.column("start_ns")
        order = np.lexsort((start, parent))
        first = np.searchsorted(parent[order], np.arange(-1, len(parent) + 1))
        return order, first, order[: first[1]]

    def children(self, index: int) -> list[int]:
        """Return the tree indices right below a node, by start."""
        order, first, _ = self._children
        found: list[int] = order[first[index + 1] : first[index + 2]].tolist()
        return found

    def roots(self) -> list[ProfilerEvent]:
        """Return the nodes that no other encloses, by start."""
        return [ProfilerEvent(self, index) for index in self._children[2].tolist()]

    @cached_property
    def _storages(self) -> tuple[Mapping[int, list[Storage]], Mapping[int, Storage]]:
        """(storages of an op row's tensors in order, storage of a memory row); empty without allocations and shapes."""
        inputs: dict[int, list[Storage]] = {}
        records: dict[int, Storage] = {}
        if can_categorise(self.table):
            storages, steps = read_steps(self.table)
            for step in steps:
                for touch in step.touches:
                    inputs.setdefault(touch.row, []).append(storages[touch.storage])
                for change in step.allocations:
                    records[change.row] = storages[change.storage]
        return inputs, records

    def input_storages(self, row: int) -> list[Storage]:
        """Return the storages of the tensors that an op got, in order."""
        return self._storages[0].get(row, [])

    def memory(self, row: int) -> tuple[list[int], Storage | None]:
        """Return (address, bytes, total allocated, total reserved) of a memory record, and its storage."""
        at = int(self.table.column("payload")[row])
        words = self.table.payload_words
        if words is None or at == NO_PAYLOAD:
            return [0] * _MEMORY_WORDS, None
        return words.view(np.int64)[at : at + _MEMORY_WORDS].tolist(), self._storages[1].get(row)

    def tag(self, row: int) -> EventType:
        """Return the kind of a row."""
        kind = int(self.table.column("kind")[row])
        if kind == EventKind.MEMORY:
            return EventType.Allocation
        if kind == EventKind.OUT_OF_MEMORY:
            return EventType.OutOfMemory
        category = self._categories[int(self.table.column("site")[row])]
        if category == "python_function":
            return EventType.PyCCall if "<built-in" in self.table.name(row) else EventType.PyCall
        if category in ("cuda_runtime", "cuda_driver", "overhead") or self.device(row)[0]:
            return EventType.Kineto
        return EventType.TorchOp

    def name(self, row: int) -> str:
        """Return the name of a row, which for memory records is PyTorch's."""
        kind = int(self.table.column("kind")[row])
        if kind == EventKind.MEMORY:
            return MEMORY_EVENT_NAME
        return OUT_OF_MEMORY_EVENT_NAME if kind == EventKind.OUT_OF_MEMORY else self.table.name(row)

    def device(self, row: int) -> tuple[DeviceType, int]:
        """Return the device of a row; of a memory record, that of the memory."""
        table = self.table
        if int(table.column("kind")[row]) <= EventKind.ASYNC_RANGE:
            index = int(table.column("device_index")[row])
            return as_device_type(int(table.column("device_type")[row])), index
        site = int(table.column("site")[row])
        number = max(int(table.sites.field("device_type")[site]), 0)
        return as_device_type(number), int(table.sites.field("device_index")[site])


class ProfilerEvent(TreeEvent, Imitation):
    """A node, with the names of torch's _ProfilerEvent."""

    __slots__ = ("_of",)
    _NAME = "_ProfilerEvent"

    def __init__(self, of: KinetoTree, index: int) -> None:
        super().__init__(of.tree, index)
        self._of = of

    def read(self, field: str) -> Any:
        """Return a field of the FunctionEvent of the same row."""
        return self._of.rows.read(self.index, field)

    @property
    def id(self) -> int:
        return self.row + 1

    @property
    def name(self) -> str:
        return self._of.name(self.row)

    @property
    def overload_name(self) -> str:
        return self.read("overload_name") or ""

    @property
    def correlation_id(self) -> int:
        return self.row + 1

    @property
    def parent(self) -> ProfilerEvent | None:
        index = int(self.tree.parent[self.index])
        return None if index < 0 else ProfilerEvent(self._of, index)

    @property
    def children(self) -> list[TreeEvent]:
        return [ProfilerEvent(self._of, index) for index in self._of.children(self.index)]

    @property
    def is_call(self) -> bool:
        """Whether it is a call of a Python or C function."""
        return self._of.tag(self.row) in (EventType.PyCall, EventType.PyCCall)

    def input_storages(self) -> Sequence[Any]:
        """Return the places of an op's inputs; see decode.op_inputs."""
        return self._coded("input_storages")

    def list_dtypes(self) -> Sequence[Any]:
        """Return the element types of an op's lists of tensors; see decode.op_inputs."""
        return self._coded("list_dtypes")

    def _coded(self, name: str) -> Sequence[Any]:
        column = self._of.table.coded.get(name)
        return (None if column is None else column[self.row]) or ()

    def storages(self) -> list[Storage]:
        """Return the storages of an op's tensors, in order."""
        return self._of.input_storages(self.row)

    @property
    def tag(self) -> Any:
        return torch_member("torch._C._profiler", self._of.tag(self.row), "_EventType")

    @property
    def extra_fields(self) -> Any:
        of, row = self._of, self.row
        kind, (device, number) = of.tag(row), of.device(row)
        if kind is EventType.Allocation:
            words, storage = of.memory(row)
            return AllocationFields(words, f"{device_type_name(device)}:{max(number, 0)}", storage)
        if kind is EventType.Kineto:
            return DeviceFields(torch_device_type(device), number)
        if kind is EventType.OutOfMemory:
            return FailedFields()
        if kind is EventType.TorchOp:
            return OpFields(self)
        return (PyCallFields if kind is EventType.PyCall else PyCCallFields)(self)

    @property
    def typed(self) -> tuple[Any, Any]:
        return self.tag, self.extra_fields
