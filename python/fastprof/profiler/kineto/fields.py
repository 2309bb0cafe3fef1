# SPDX-License-Identifier: Apache-2.0
"""What a node of an event tree is: torch's _ExtraFields_* of ops, allocations and Python calls, and their tensors."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fastprof.base.record_scope import RecordScope
from fastprof.profiler.kineto.torch_types import (
    Imitation,
    dtype_of,
    torch_device,
    torch_member,
    torch_value,
)

__all__ = [
    "AllocationFields",
    "DeviceFields",
    "FailedFields",
    "OpFields",
    "PyCallFields",
    "PyCCallFields",
]

_NO_TENSOR = frozenset({"", "...", "Scalar", "ScalarList", "TensorList"})
_FRAME = re.compile(r"(.*)\((-?\d+)\): (.*)", re.DOTALL)
_MODULE = "nn.Module: "


class TensorMetadata(Imitation):
    """A tensor given to an op. id, allocation_id: number of its storage; None if no allocations were recorded.

    impl_ptr is None: the address of the tensor object is not recorded.
    """

    __slots__ = ("_device", "_dtype", "allocation_id", "id", "sizes", "storage_data_ptr", "strides")
    _NAME = "_TensorMetadata"

    def __init__(
        self, sizes: list[int], strides: list[int], dtype: str, storage: Any, address: int | None
    ) -> None:
        self.sizes, self.strides, self._dtype = list(sizes), list(strides), dtype
        self.storage_data_ptr = address
        self.id = self.allocation_id = None if storage is None else storage.index
        self._device = "cpu:0" if storage is None else storage.device

    impl_ptr = None

    @property
    def device(self) -> Any:
        return torch_device(self._device)

    @property
    def dtype(self) -> Any:
        return dtype_of(self._dtype)

    @property
    def layout(self) -> Any:
        return torch_value("torch", "strided")


class OpFields(Imitation):
    """An op or a range of record_function. node: the tree's event."""

    __slots__ = ("_node",)
    _NAME = "_ExtraFields_TorchOp"

    def __init__(self, node: Any) -> None:
        self._node = node

    @property
    def name(self) -> str:
        return str(self._node.name)

    @property
    def sequence_number(self) -> int:
        return int(self._node.read("sequence_nr"))

    @property
    def scope(self) -> Any:
        return torch_member(
            "torch._C._profiler", RecordScope(self._node.read("scope")), "RecordScope"
        )

    @property
    def allow_tf32_cublas(self) -> bool:
        """torch's setting now: that of the op's time is not recorded."""
        cuda = torch_value("torch.backends", "cuda")
        return bool(cuda is not None and cuda.matmul.allow_tf32)

    @property
    def inputs(self) -> list[Any]:
        """Tensors as TensorMetadata, numbers as they are, None for all others; [] without record_shapes."""
        node = self._node
        shapes, strides = (
            node.read("structured_input_shapes"),
            node.read("structured_input_strides"),
        )
        dtypes, values = node.read("input_dtypes"), node.read("concrete_inputs")
        addresses = node.input_storages()
        storages, listed = iter(node.storages()), node.list_dtypes()
        made: list[Any] = []

        def tensor(sizes: Any, steps: Any, dtype: str, place: Any) -> TensorMetadata:
            storage = next(storages, None) if place else None
            return TensorMetadata(sizes, steps, dtype, storage, place[0] if place else None)

        for at, dtype in enumerate(dtypes):
            place = addresses[at] if at < len(addresses) else []
            if dtype == "TensorList":
                places = place if len(place) == len(shapes[at]) else [[]] * len(shapes[at])
                parts = zip(shapes[at], strides[at], listed[at], places, strict=True)
                made.append([tensor(*part) for part in parts])
            elif dtype in _NO_TENSOR:
                made.append(values[at] if dtype == "Scalar" else None)
            else:
                made.append(tensor(shapes[at], strides[at], dtype, place))
        return made


class AllocationFields(Imitation):
    """An allocation (alloc_size > 0) or a free. Sizes in bytes. id is None unless an op had it as an input."""

    __slots__ = (
        "_device",
        "alloc_size",
        "allocation_id",
        "id",
        "ptr",
        "total_allocated",
        "total_reserved",
    )
    _NAME = "_ExtraFields_Allocation"

    def __init__(self, words: list[int], device: str, storage: Any) -> None:
        self.ptr, self.alloc_size, self.total_allocated, self.total_reserved = words
        self._device = device
        self.allocation_id = None if storage is None else storage.index
        self.id = self.allocation_id if storage is not None and storage.is_input else None

    @property
    def device(self) -> Any:
        return torch_device(self._device)


class FailedFields(Imitation):
    """A request for memory that failed."""

    __slots__ = ()
    _NAME = "_ExtraFields_OutOfMemory"


class DeviceFields(Imitation):
    """An activity of a device, or a call that launched one."""

    __slots__ = ("device_index", "device_type")
    _NAME = "_ExtraFields_Kineto"

    def __init__(self, device_type: Any, device_index: int) -> None:
        self.device_type, self.device_index = device_type, device_index


class PyFrame(NamedTuple):
    """A Python function. line_number: where it begins (torch: the line that runs); 0 if unknown."""

    file_name: str
    line_number: int
    function_name: str

    @classmethod
    def of(cls, name: str) -> PyFrame:
        """Return the frame of a call's name, "file(line): function"."""
        found = _FRAME.fullmatch(name)
        return cls(found[1], int(found[2]), found[3]) if found else cls("", 0, name)


class ModuleInfo(NamedTuple):
    """The torch.nn.Module of a call. parameters is empty: they are not recorded."""

    cls_name: str
    parameters: tuple[()] = ()


class PyCallFields(Imitation):
    """A call of a Python function."""

    __slots__ = ("_node",)
    _NAME = "_ExtraFields_PyCall"
    optimizer = None

    def __init__(self, node: Any) -> None:
        self._node = node

    @property
    def callsite(self) -> PyFrame:
        return PyFrame.of(self._node.name)

    @property
    def caller(self) -> PyFrame:
        around = self._node.parent
        while around is not None and not around.is_call:
            around = around.parent
        return PyFrame.of("" if around is None else around.name)

    @property
    def module(self) -> ModuleInfo | None:
        name = self._node.name
        return (
            ModuleInfo(name[len(_MODULE) :].rpartition("_")[0])
            if name.startswith(_MODULE)
            else None
        )


class PyCCallFields(PyCallFields):
    """A call of a function written in C."""

    __slots__ = ()
    _NAME = "_ExtraFields_PyCCall"
