# SPDX-License-Identifier: Apache-2.0
"""Inputs of ops as columns: shapes, strides, dtypes and values from the words recorded with each op.

The words are described in csrc/include/fastprof/range_detail/op_inputs.hpp. Ops of one kind are
called again and again with the same inputs, so each distinct block is decoded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["DTYPE_NAMES", "OpInputs", "code_blocks", "decode_op_inputs"]

Array: TypeAlias = NDArray[Any]

# InputKind there.
_TENSOR, _UNDEFINED, _INTEGER, _REAL, _BOOLEAN, _COMPLEX, _LIST, _TENSOR_LIST, _TEXT = range(1, 10)
# input_bit there.
_WIDE, _PACKED, _STRIDES, _CUT = 1 << 4, 1 << 4, 1 << 5, 1 << 6

_NO_DTYPE = 0xFFFF  # DType::undefined of a TensorDescription

# Names of element types as PyTorch's traces have them, by the number of the type (c10::ScalarType).
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


class OpInputs(NamedTuple):
    """Inputs of one op, a list entry each, as torch.profiler's events have them.

    input_shapes: sizes of tensors, [] for all else. structured_input_shapes, ..._strides: lists of
    tensors too, as a list for each. input_dtypes: the name of the element type, "Scalar",
    "ScalarList", "TensorList", "" for all else, "..." for what there was no room to record.
    concrete_inputs: values of numbers and of lists of numbers, None for all else. kwinputs: values
    by name.
    """

    input_shapes: list[Any]
    structured_input_shapes: list[Any]
    structured_input_strides: list[Any]
    input_dtypes: list[str]
    concrete_inputs: list[Any]
    kwinputs: dict[str, Any]


def decode_op_inputs(words: Sequence[int]) -> OpInputs:
    """The contents of one block; errors.ValueError is the reader's to raise: bad words give IndexError."""
    inputs = OpInputs([], [], [], [], [], {})
    if not words:
        return inputs
    stored, keywords, given = words[0] & 0xFFFF, words[0] >> 16 & 0xFFFF, words[0] >> 32
    reader = _Reader(words)
    for _ in range(stored):
        shape, strides, dtype, value = reader.item()
        plain = dtype != "TensorList"
        inputs.input_shapes.append(shape if plain else [])
        inputs.structured_input_shapes.append(shape)
        inputs.structured_input_strides.append(strides)
        inputs.input_dtypes.append(dtype)
        inputs.concrete_inputs.append(value)
    for _ in range(given - stored):
        for column, value in zip(inputs[:5], ([], [], [], "...", None), strict=True):
            column.append(value)
    for _ in range(keywords):
        name = reader.item()[3]
        inputs.kwinputs[name] = reader.item()[3]
    return inputs


_Item: TypeAlias = tuple[list[Any], list[Any], str, Any]


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

    def item(self) -> _Item:
        """Sizes, strides, dtype and value."""
        head = self._next()
        kind, high = head & 15, head >> 32
        if kind == _TENSOR:
            return self._tensor(head)
        if kind == _INTEGER:
            return [], [], "Scalar", self._integer()
        if kind == _REAL:
            return [], [], "Scalar", self._double()
        if kind == _BOOLEAN:
            return [], [], "Scalar", bool(self._next())
        if kind == _COMPLEX:
            return [], [], "Scalar", complex(self._double(), self._double())
        if kind == _LIST:
            return [], [], "ScalarList", self._list(head, high)
        if kind == _TENSOR_LIST:
            stored = self._next() if head & _CUT else high
            items = [self.item() for _ in range(stored)]
            return [item[0] for item in items], [item[1] for item in items], "TensorList", None
        if kind == _TEXT:
            words = [self._next() for _ in range((high + 7) // 8)]
            text = np.array(words, "<u8").tobytes()[:high].decode("utf-8", "replace")
            return [], [], "", text + "..." if head & _CUT else text
        return [], [], "", None

    def _list(self, head: int, count: int) -> list[Any]:
        if head & _PACKED:
            return [self._integer() for _ in range(count)]
        return [self.item()[3] for _ in range(count)]

    def _tensor(self, head: int) -> _Item:
        number = head >> 16 & 0xFFFF
        if number == _NO_DTYPE:
            dtype = ""
        else:
            dtype = DTYPE_NAMES[number] if number < len(DTYPE_NAMES) else f"dtype {number}"
        dims = head >> 8 & 255
        sizes = self._numbers(head, dims)
        return sizes, self._numbers(head, dims) if head & _STRIDES else [], dtype, None

    def _numbers(self, head: int, count: int) -> list[int]:
        if head & _WIDE:
            return [self._integer() for _ in range(count)]
        words = [self._next() for _ in range((count + 1) // 2)]
        return [half for word in words for half in (word & 0xFFFFFFFF, word >> 32)][:count]


def code_blocks(words: Array, first: Array, count: Array) -> tuple[Array, list[list[int]]]:
    """Number the distinct blocks words[first:first + count]: a code each, and the blocks by code."""
    codes = np.empty(len(first), np.int32)
    blocks: list[list[int]] = []
    for length in np.unique(count).tolist():
        rows = np.flatnonzero(count == length)
        at = first[rows]
        # A hash of each block finds its equals; that they are equal is checked.
        mixed = np.zeros(len(rows), np.uint64)
        for k in range(length):
            mixed = (mixed ^ words[at + k]) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        _, chosen, code = np.unique(mixed, return_index=True, return_inverse=True)
        code = code.reshape(-1)
        for k in range(length):
            if not np.array_equal(words[at + k], words[at[chosen] + k][code]):
                matrix = words[at[:, None] + np.arange(length)]
                _, chosen, code = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
                code = code.reshape(-1)
                break
        codes[rows] = code + len(blocks)
        blocks += [words[start : start + length].tolist() for start in at[chosen].tolist()]
    return codes, blocks
