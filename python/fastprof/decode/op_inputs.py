# SPDX-License-Identifier: Apache-2.0
"""Decode the inputs of ops: shapes, strides, dtypes and values, from the words recorded with each op.

The words are described in csrc/include/fastprof/payload/op_inputs/op_inputs.hpp. Most calls repeat the
inputs of earlier calls, so each distinct block is decoded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.native_numbers import InputBit, InputKind

__all__ = ["DTYPE_NAMES", "OpInputs", "decode_op_inputs"]

Array: TypeAlias = NDArray[Any]

# Plain ints, because access to enum members is slow and every input is compared with several.
_OTHER, _TENSOR, _UNDEFINED, _INTEGER, _REAL, _BOOLEAN, _COMPLEX, _LIST, _TENSOR_LIST, _TEXT = map(
    int, InputKind
)
_WIDE, _PACKED = int(InputBit.WIDE), int(InputBit.PACKED)
_STRIDES, _CUT, _STORAGE = int(InputBit.STRIDES), int(InputBit.CUT), int(InputBit.STORAGE)

_NO_DTYPE = 0xFFFF  # DType::undefined of a TensorDescription

# Element type names as in PyTorch's traces, indexed by c10::ScalarType.
DTYPE_NAMES = (
    "unsigned char", "signed char", "short int", "int", "long int", "c10::Half", "float", "double",
    "c10::complex<c10::Half>", "c10::complex<float>", "c10::complex<double>", "bool", "c10::qint8",
    "c10::quint8", "c10::qint32", "c10::BFloat16", "c10::quint4x2", "c10::quint2x4", "c10::bits1x8",
    "c10::bits2x4", "c10::bits4x2", "c10::bits8", "c10::bits16", "c10::Float8_e5m2",
    "c10::Float8_e4m3fn", "c10::Float8_e5m2fnuz", "c10::Float8_e4m3fnuz", "short unsigned int",
    "unsigned int", "long unsigned int", *(f"c10::dummy_uint1_7_t<{bits}>" for bits in range(1, 8)),
    *(f"c10::dummy_int1_7_t<{bits}>" for bits in range(1, 8)), "c10::Float8_e8m0fnu",
    "c10::Float4_e2m1fn_x2",
)  # fmt: skip

# Bytes of an element, by name: of all others, 1.
_ITEM_BYTES = {
    "short int": 2, "int": 4, "long int": 8, "c10::Half": 2, "float": 4, "double": 8,
    "c10::complex<c10::Half>": 4, "c10::complex<float>": 8, "c10::complex<double>": 16,
    "c10::qint32": 4, "c10::BFloat16": 2, "c10::bits16": 2, "short unsigned int": 2,
    "unsigned int": 4, "long unsigned int": 8,
}  # fmt: skip


class OpInputs(NamedTuple):
    """The inputs of one op, one list entry each, as in torch.profiler's events.

    input_shapes: sizes of tensors, else [].
    structured_input_shapes, structured_input_strides: also of lists of tensors, as a list of lists.
    input_dtypes: element type name of tensors, "Scalar", "ScalarList", "TensorList", "..." for inputs
    that did not fit into the record, else "".
    concrete_inputs: values of numbers and of lists of numbers, else None.
    kwinputs: values by name.
    input_storages: of each tensor [address of its storage's memory, bytes from its first element to
    behind its last]; a list of such for a list of tensors; [] for tensors without memory and for other
    inputs. Only of sessions that record allocations, too.
    list_dtypes: element type names of the tensors of a list; [] for other inputs.
    """

    input_shapes: list[Any]
    structured_input_shapes: list[Any]
    structured_input_strides: list[Any]
    input_dtypes: list[str]
    concrete_inputs: list[Any]
    kwinputs: dict[str, Any]
    input_storages: list[Any]
    list_dtypes: list[list[str]]


def decode_op_inputs(words: Sequence[int]) -> OpInputs:
    """Decode one block. Raises IndexError for invalid words (callers turn it into errors.FormatError)."""
    inputs = OpInputs([], [], [], [], [], {}, [], [])
    if not words:
        return inputs
    stored, keywords, given = words[0] & 0xFFFF, words[0] >> 16 & 0xFFFF, words[0] >> 32
    reader = _Reader(words)
    for _ in range(stored):
        shape, strides, dtype, value, storage = reader.item()
        plain = dtype != "TensorList"
        inputs.input_shapes.append(shape if plain else [])
        inputs.structured_input_shapes.append(shape)
        inputs.structured_input_strides.append(strides)
        inputs.input_dtypes.append(dtype)
        inputs.concrete_inputs.append(value if plain else None)
        inputs.list_dtypes.append([] if plain else value)
        inputs.input_storages.append(storage)
    for _ in range(given - stored):
        for column, value in zip(inputs[:5], ([], [], [], "...", None), strict=True):
            column.append(value)
        inputs.input_storages.append([])
        inputs.list_dtypes.append([])
    for _ in range(keywords):
        name = reader.item()[3]
        if not isinstance(name, str):
            raise IndexError("the name of a keyword input is not text")
        _, _, dtype, value, _ = reader.item()
        inputs.kwinputs[name] = None if dtype == "TensorList" else value
    return inputs


_Item: TypeAlias = tuple[list[Any], list[Any], str, Any, Any]


class _Reader:
    def __init__(self, words: Sequence[int]) -> None:
        self._words = words
        self._at = 1

    def _next(self) -> int:
        word = self._words[self._at]
        self._at += 1
        return word

    def _integer(self) -> int:
        word = self._next()
        return word - (word >> 63 << 64)

    def _double(self) -> float:
        return float(np.uint64(self._next()).view(np.float64))

    def item(self, inside: bool = False) -> _Item:
        """Return (sizes, strides, dtype, value, storage); of a list of tensors, its dtypes are the value.

        inside=True within a list, where lists are invalid.
        """
        head = self._next()
        kind, high = head & 15, head >> 32
        if kind == _TENSOR:
            return self._tensor(head)
        if kind == _INTEGER:
            return [], [], "Scalar", self._integer(), []
        if kind == _REAL:
            return [], [], "Scalar", self._double(), []
        if kind == _BOOLEAN:
            return [], [], "Scalar", bool(self._next()), []
        if kind == _COMPLEX:
            return [], [], "Scalar", complex(self._double(), self._double()), []
        if kind == _LIST:
            return [], [], "ScalarList", self._list(head, high, inside), []
        if kind == _TENSOR_LIST:
            items = self._items(self._next() if head & _CUT else high, inside)
            shapes, strides, dtypes, _, storages = zip(*items, strict=True) if items else ((),) * 5
            return list(shapes), list(strides), "TensorList", list(dtypes), list(storages)
        if kind == _TEXT:
            words = [self._next() for _ in range((high + 7) // 8)]
            text = np.array(words, "<u8").tobytes()[:high].decode("utf-8", "replace")
            return [], [], "", text + "..." if head & _CUT else text, []
        if kind in (_OTHER, _UNDEFINED):
            return [], [], "", None, []
        raise IndexError(f"unknown kind of input {kind}")

    def _list(self, head: int, count: int, inside: bool) -> list[Any]:
        if head & _PACKED:
            return [self._integer() for _ in range(count)]
        return [item[3] for item in self._items(count, inside)]

    def _items(self, count: int, inside: bool) -> list[_Item]:
        if inside:
            raise IndexError("nested list of items")
        return [self.item(inside=True) for _ in range(count)]

    def _tensor(self, head: int) -> _Item:
        number = head >> 16 & 0xFFFF
        if number == _NO_DTYPE:
            dtype = ""
        else:
            dtype = DTYPE_NAMES[number] if number < len(DTYPE_NAMES) else f"dtype {number}"
        dims = head >> 8 & 255
        sizes = self._numbers(head, dims)
        strides = self._numbers(head, dims) if head & _STRIDES else []
        if not head & _STORAGE:
            return sizes, strides, dtype, None, []
        size_bytes = 0
        if 0 not in sizes:
            items = sum((n - 1) * step for n, step in zip(sizes, strides, strict=False))
            size_bytes = _ITEM_BYTES.get(dtype, 1) * (1 + items)
        return sizes, strides, dtype, None, [self._next(), size_bytes]

    def _numbers(self, head: int, count: int) -> list[int]:
        if head & _WIDE:
            return [self._integer() for _ in range(count)]
        words = [self._next() for _ in range((count + 1) // 2)]
        return [half for word in words for half in (word & 0xFFFFFFFF, word >> 32)][:count]
