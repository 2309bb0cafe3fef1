# SPDX-License-Identifier: Apache-2.0
"""Values and classes of libtorch, by name, for code that compares with them; torch is never imported here."""

from __future__ import annotations

import enum
import sys
from typing import Any

__all__ = ["EventType", "Imitation", "dtype_of", "torch_device", "torch_member", "torch_value"]


class EventType(enum.IntEnum):
    """Kinds of nodes of an event tree: the members of torch's _EventType, used while torch is not loaded."""

    TorchOp = 0
    Backend = 1
    Vulkan = 2
    Allocation = 3
    OutOfMemory = 4
    PyCall = 5
    PyCCall = 6
    Kineto = 7


def torch_value(module: str, name: str) -> Any:
    """Return an attribute of a module that is loaded, such as ("torch", "strided"); None if it is not there."""
    return getattr(sys.modules.get(module), name, None)


def torch_member(module: str, member: enum.Enum, name: str) -> Any:
    """Return torch's member of the enum `name` that is called as ours is; ours while torch is not loaded.

    libtorch's enums equal their own members only.
    """
    return getattr(torch_value(module, name), member.name, member)


class Imitation:
    """Base of objects that code written for torch takes for torch's own: isinstance() accepts them.

    _MODULE, _NAME: where torch's class is. The classes of libtorch cannot be instantiated from Python.
    """

    __slots__ = ()
    _MODULE = "torch._C._profiler"
    _NAME = ""

    @property
    def __class__(self) -> Any:
        return torch_value(self._MODULE, self._NAME) or type(self)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError(f"the class of a {type(self).__name__} is fixed")


def torch_device(label: str) -> Any:
    """Return torch.device of "cpu:0" or "cuda:1"; the label while torch is not loaded, or if it does not know it."""
    make = torch_value("torch", "device")
    if make is None:
        return label
    try:
        return make("cpu") if label == "cpu:0" else make(label)
    except RuntimeError:
        return label


# Element types by their names in traces (decode.op_inputs.DTYPE_NAMES); those of C++ types by rule.
_DTYPES = {
    "unsigned char": "uint8", "signed char": "int8", "short int": "int16", "int": "int32",
    "long int": "int64", "float": "float32", "double": "float64", "bool": "bool",
    "short unsigned int": "uint16", "unsigned int": "uint32", "long unsigned int": "uint64",
    "c10::Half": "float16", "c10::BFloat16": "bfloat16", "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}  # fmt: skip


def dtype_of(name: str) -> Any:
    """Return torch.dtype of an element type's name in traces; the name while torch is not loaded."""
    short = _DTYPES.get(name) or name.removeprefix("c10::").lower()
    found = torch_value("torch", short)
    return name if found is None else found
