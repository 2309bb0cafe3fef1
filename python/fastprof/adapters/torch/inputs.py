# SPDX-License-Identifier: Apache-2.0
"""Self-test of reading op inputs: run known ops, and compare what was read with what was passed."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Sequence
from typing import Any

from fastprof import _core
from fastprof.adapters.torch.layout import INPUTS
from fastprof.adapters.torch.proven_builds import proven_storage_offset, remember
from fastprof.adapters.torch.storages import storage_offset
from fastprof.adapters.torch.unlisted import proven_layout
from fastprof.adapters.torch.versions import cxx11_abi
from fastprof.decode.op_inputs import decode_op_inputs

__all__ = ["prepare_inputs", "wrong_about_known_inputs"]


def prepare_inputs(torch: Any, version: str) -> str:
    """Prove the layout and adopt it; return "" or the reason against it. Requires a thread without modes."""
    abi = cxx11_abi(torch)
    if not abi:  # the older string ABI is not supported, whatever headers or compiler exist
        return (
            f"torch ops are recorded without shapes and FLOPs: torch {version} is built with"
            " libstdc++'s older string ABI, for which fastprof cannot read inputs. Install torch 2.7"
            " or newer."
        )
    listed = _core.torch_known_input_layout(version, abi) is not None
    # The first op of a wrapper tensor makes torch import torch.distributed.tensor, which takes a second.
    wrappers = not listed or "torch.distributed.tensor" in sys.modules
    reason = proven_layout(
        torch,
        version,
        "inputs",
        known=lambda release: _core.torch_known_input_layout(release, abi),
        proof=lambda numbers: _test_and_adopt(torch, numbers, wrappers),
    )
    return f"torch ops are recorded without shapes and FLOPs: {reason}" if reason else ""


def _test_and_adopt(torch: Any, layout: Sequence[int], wrappers: bool) -> str:
    """Adopt the layout if the self-test succeeds, now or earlier; return "" or the reason against it."""
    storage = proven_storage_offset(torch, layout, wrappers)
    if storage is not None:
        _adopt(layout, storage)
        return ""
    try:
        wrong = wrong_about_known_inputs(torch, layout, wrappers)
    except Exception as failure:
        return f"the self-test of op inputs raised {failure}"
    if not wrong:
        storage = _storage_offset_or_zero(torch, layout)
        _adopt(layout, storage)
        remember(torch, layout, wrappers, storage)
    return wrong


def _adopt(layout: Sequence[int], storage: int) -> None:
    _core.torch_adopt_input_layout(layout)
    _core.torch_adopt_storage_offset(storage)


def _storage_offset_or_zero(torch: Any, layout: Sequence[int]) -> int:
    try:
        return storage_offset(torch, layout)
    except Exception:  # some version of torch lacks what this runs: shapes and FLOPs do not need it
        return 0


def wrong_about_known_inputs(torch: Any, layout: Sequence[int], wrappers: bool = True) -> str:
    """Return which inputs of known ops were read incorrectly; "" if the layout holds.

    layout: numbers in the order of layout.INPUTS. Wrong numbers are safe: memory is checked before it
    is read. wrappers: try ops of tensors of a Python class, too.
    Raises fastprof.errors.ValueError if libtorch's own objects contradict it.
    """
    dense = torch.empty((3, 5), dtype=torch.float64)
    turned = torch.empty((7, 2, 4), dtype=torch.int16).permute(2, 0, 1)
    deep = torch.empty((1, 2, 1, 3, 1, 2), dtype=torch.bool).transpose(1, 3)
    single = torch.empty((), dtype=torch.bfloat16)
    bits = torch.empty((0, 6), dtype=torch.complex64)
    # Converted from dense: torch 2.11 and 2.12 warn if it is made of indices and values.
    sparse = torch.ones(4).to_sparse()

    equation = "i j , k j  ->  i k"  # longer than std::string's inline buffer

    def facts(tensor: Any, dtype: str, strided: bool = True) -> tuple[Any, Any, str, None]:
        return list(tensor.shape), list(tensor.stride()) if strided else [], dtype, None

    def scalar(value: Any) -> tuple[Any, Any, str, Any]:
        return [], [], "Scalar", value

    def numbers(value: Any) -> tuple[Any, Any, str, Any]:
        return [], [], "ScalarList", value

    nothing: tuple[Any, Any, str, None] = ([], [], "", None)
    cases = [
        (
            lambda: torch.add(dense, dense, alpha=3),
            ("aten::add", "Tensor"),
            [facts(dense, "double"), facts(dense, "double"), scalar(3)],
        ),
        (
            lambda: turned.mul_(1 << 40),
            ("aten::mul_", "Tensor"),
            [facts(turned, "short int"), facts(single, "long int")],
        ),
        (
            lambda: deep.sum((0, -1), keepdim=True, dtype=torch.int32),
            ("aten::sum", "dim_IntList"),
            [facts(deep, "bool"), numbers([0, -1]), scalar(True), scalar(3)],
        ),
        (
            lambda: torch.fill_(single, 0.1),
            ("aten::fill_", "Scalar"),
            [facts(single, "c10::BFloat16"), scalar(0.1)],
        ),
        (
            lambda: torch.fill_(bits, 2 - 3j),
            ("aten::fill_", "Scalar"),
            [facts(bits, "c10::complex<float>"), scalar(2 - 3j)],
        ),
        (
            lambda: torch.stack([dense, dense.t().contiguous().t()], -1),
            ("aten::stack", ""),
            [
                ([[3, 5], [3, 5]], [[5, 1], [1, 3]], "TensorList", None),
                scalar(-1),
            ],
        ),
        (
            lambda: torch.index_put(dense, [torch.zeros(1, dtype=torch.int64)], dense[0]),
            ("aten::index_put", ""),
            [facts(dense, "double"), nothing, facts(dense[0], "double"), scalar(False)],
        ),
        (
            lambda: torch._foreach_mul([single, single], [0.5, 2]),
            ("aten::_foreach_mul", "ScalarList"),
            [([[], []], [[], []], "TensorList", None), numbers([0.5, 2])],
        ),
        (
            lambda: torch.neg(sparse),
            ("aten::neg", ""),
            [facts(sparse, "float", strided=False)],
        ),
        (
            lambda: torch.einsum(equation, dense, dense),
            ("aten::einsum", ""),
            [nothing, ([[3, 5], [3, 5]], [[5, 1], [5, 1]], "TensorList", None), nothing],
        ),
        (
            lambda: torch.clamp(dense, None, -1),
            ("aten::clamp", ""),
            [facts(dense, "double"), nothing, scalar(-1)],
        ),
    ]  # fmt: skip
    for wrapper, read in _wrappers(torch) if wrappers else ():
        cases.append((functools.partial(torch.neg, wrapper), ("aten::neg", ""), [read]))
    for work, key, expected in cases:
        tried = _core.torch_try_inputs(layout, work)
        # Older versions report no overload names.
        seen = [
            decode_op_inputs(words)
            for name, overload, words, _ in tried
            if name == key[0] and overload in (key[1], "") and words
        ]
        if not seen:
            return f"the inputs of {'.'.join(key).rstrip('.')} could not be read"
        found = list(
            zip(
                seen[0].structured_input_shapes,
                seen[0].structured_input_strides,
                seen[0].input_dtypes,
                seen[0].concrete_inputs,
                strict=True,
            )
        )
        if repr(found) != repr(expected):
            return f"the inputs of {'.'.join(key).rstrip('.')} were read as {found}"
        texts = next(texts for name, _, _, texts in tried if name == key[0])
        if texts != ([equation] if key[0] == "aten::einsum" else []):
            return f"the text given to {key[0]} was read as {texts}"
    return _wrong_about_keys(torch, dict(zip(INPUTS, layout, strict=True)))


def _wrappers(torch: Any) -> list[tuple[Any, tuple[Any, Any, str, None]]]:
    """Return tensors without and with a symbolic size; [] if this torch cannot make them this way."""

    class Wrapper(torch.Tensor):  # type: ignore[misc]
        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, op: Any, types: Any, inputs: Any, keywords: Any = None) -> Any:
            return inputs[0]

    def make(size: Any) -> Any:
        facts = {"dtype": torch.float32, "dispatch_sizes_strides_policy": "sizes"}
        return torch.Tensor._make_wrapper_subclass(Wrapper, (size,), (1,), storage_size=8, **facts)

    try:
        symbolic = make(torch._C._get_nested_int(1, 1))
        return [(make(3), ([3], [1], "float", None)), (symbolic, ([], [], "", None))]
    except (AttributeError, TypeError, RuntimeError):
        return []


def _wrong_about_keys(torch: Any, numbers: dict[str, int]) -> str:
    """Compare the dispatch keys with torch's own, if exposed: no test case has a tensor of each key."""
    wanted = {
        "nested_keys": ("NestedTensor",),
        "unstrided_keys": ("Sparse", "SparseCsr", "MkldnnCPU"),
    }
    for field, names in wanted.items():
        try:
            keys = [torch._C._parse_dispatch_key(name) for name in names]
            bits = [torch._C.DispatchKeySet(key).raw_repr() for key in keys]
        except (AttributeError, TypeError, RuntimeError):
            continue
        if numbers[field] != functools.reduce(operator.or_, bits):
            return f"the keys {', '.join(names)} are not {numbers[field]:#x}"
    return ""
