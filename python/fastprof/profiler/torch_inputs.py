# SPDX-License-Identifier: Apache-2.0
"""Whether inputs of this torch's ops can be read: known ops are read, checked, and compared."""

from __future__ import annotations

from typing import Any

from fastprof import _core
from fastprof.op_inputs import decode_op_inputs

__all__ = ["prepare_inputs", "wrong_about_known_inputs"]


def prepare_inputs(torch: Any, version: str) -> str:
    """Try, and trust the layout when it holds; else the reason. On a thread without modes."""
    try:
        wrong = wrong_about_known_inputs(torch, version)
    except Exception as failure:
        wrong = f"known ops could not be tried: {failure}"
    if wrong:
        return f"torch ops are recorded without shapes and FLOPs: {wrong}"
    _core.torch_trust_inputs(version)
    return ""


def wrong_about_known_inputs(torch: Any, version: str, field: str = "", shift: int = 0) -> str:
    """What of known ops was read otherwise than it was given; empty when the layout holds.

    field, shift: a layout with an offset moved, for tests. Nothing is read that is not there.
    """
    dense = torch.empty((3, 5), dtype=torch.float64)
    turned = torch.empty((7, 2, 4), dtype=torch.int16).permute(2, 0, 1)
    deep = torch.empty((1, 2, 1, 3, 1, 2), dtype=torch.bool).transpose(1, 3)
    single = torch.empty((), dtype=torch.bfloat16)
    bits = torch.empty((0, 6), dtype=torch.complex64)
    sparse = torch.sparse_coo_tensor(
        torch.zeros((1, 1), dtype=torch.int64), torch.ones(1), (4,), check_invariants=False
    )

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
            lambda: torch.clamp(dense, None, -1),
            ("aten::clamp", ""),
            [facts(dense, "double"), nothing, scalar(-1)],
        ),
    ]  # fmt: skip
    for work, key, expected in cases:
        seen = [
            decode_op_inputs(words)
            for name, overload, words in _core.torch_try_inputs(version, work, field, shift)
            if (name, overload) == key and words
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
    return ""
