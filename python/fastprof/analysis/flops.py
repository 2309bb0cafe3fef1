# SPDX-License-Identifier: Apache-2.0
"""FLOP estimates of ops, from the shapes and values of their inputs.

Counted as in PyTorch (tests compare with torch.profiler's with_flops): mm, addmm, bmm, baddbmm, mul,
add, conv2d. Counted in addition, and flagged `extended`: conv1d, conv3d, the transposed convolutions,
conv2d without a batch or with padding given by name, and scaled_dot_product_attention. linear and
matmul are not counted themselves, because the mm, addmm or bmm that they call is. No other op is
counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "FLOP_FORMULAS",
    "FlopEstimate",
    "are_wrappers",
    "estimate_flops",
    "have_formulas",
    "recorded_flops",
]

Shapes: TypeAlias = Sequence[Sequence[int]]


class FlopEstimate(NamedTuple):
    """Estimate of one call. flops: multiplications plus additions. extended: PyTorch does not count this op.

    Immutable: any thread.
    """

    flops: int
    extended: bool = False


def estimate_flops(
    name: str, input_shapes: Any, concrete_inputs: Sequence[Any] | None = None
) -> FlopEstimate | None:
    """Return the estimate for one call of an op; None without a formula or with too little data.

    name: with or without "aten::". In-place and other variants have no formula, as in PyTorch.
    input_shapes: one shape per argument, in the op's order; [] for arguments that are not tensors.
    concrete_inputs: one value per argument, None for tensors. Convolutions read stride, padding,
    dilation and groups from it; missing ones have the op's defaults.

        estimate_flops("aten::mm", [[64, 32], [32, 16]]).flops  # 65536

    Any thread.
    """
    formula = FLOP_FORMULAS.get(name.removeprefix("aten::"))
    if formula is None or not isinstance(input_shapes, (list, tuple)):
        return None
    shapes = [list(s) if isinstance(s, (list, tuple)) else [] for s in input_shapes]
    if not all(isinstance(size, int) and size >= 0 for shape in shapes for size in shape):
        return None  # a list of tensors, which no formula accepts
    try:
        return formula(shapes, list(concrete_inputs or []))
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        return None  # arguments that do not fit the formula


def recorded_flops(name: str, shapes: Any, dtypes: Any, values: Any) -> float:
    """Return the FLOPs of a recorded op, 0 without an estimate. Arguments as of estimate_flops(), and the dtypes."""
    if (dtypes or [])[:1] == [""]:  # a nested tensor has no sizes
        return 0.0
    try:
        estimate = estimate_flops(name, shapes, values)
        return 0.0 if estimate is None else float(estimate.flops)
    except OverflowError:  # a file may have sizes that no tensor has
        return 0.0


def have_formulas(names: Sequence[str]) -> list[bool]:
    """Return for each name whether it is an op with a formula."""
    return [name.removeprefix("aten::") in FLOP_FORMULAS for name in names]


def are_wrappers(names: Sequence[str]) -> list[bool]:
    """Return for each name whether it is an op of attention, which counts only if no op inside it does."""
    return [name.endswith("dot_product_attention") for name in names]


def _matrix_product(left: Sequence[int], right: Sequence[int], rank: int) -> FlopEstimate | None:
    if len(left) != rank or len(right) != rank or left[-1] != right[-2]:
        return None
    return FlopEstimate(2 * math.prod(left) * right[-1])


def mm_flops(shapes: Shapes, values: list[Any], rank: int = 2) -> FlopEstimate | None:
    """mm(A[n,m], B[m,p]) and bmm(A[b,n,m], B[b,m,p]): 2 b n m p.

    Each of the b n p results needs m multiplications and m additions. Source: torch.profiler.
    """
    return _matrix_product(shapes[0], shapes[1], rank)


def addmm_flops(shapes: Shapes, values: list[Any], rank: int = 2) -> FlopEstimate | None:
    """addmm(C, A[n,m], B[m,p]) and baddbmm: 2 b n m p; adding C is not counted.

    Source: torch.profiler.
    """
    return _matrix_product(shapes[1], shapes[2], rank)


def elementwise_flops(shapes: Shapes, values: list[Any]) -> FlopEstimate | None:
    """add and mul: one per element of the first argument; broadcasting is ignored.

    Source: torch.profiler, which reads only the first argument; a tensor without dimensions counts as
    one, a number is not counted.
    """
    if _value(values, 0, None) is not None:
        return None
    return FlopEstimate(math.prod(shapes[0]))


def conv2d_flops(shapes: Shapes, values: list[Any]) -> FlopEstimate | None:
    """conv2d(input[n,ci,h,w], weight[co,ci/g,kh,kw], bias, stride, padding, dilation, groups).

    2 n ho wo kh kw ci co / g with ho = (h + 2 pad - dil (kh - 1) - 1) // stride + 1; the bias is
    not counted. Source: torch.profiler. Extended: an input without n, and padding by name.
    """
    estimate = _convolution(shapes, values, 2)
    named = isinstance(_value(values, 4, 0), str)
    if estimate is None or named or len(shapes[0]) == 3:
        return estimate
    return FlopEstimate(estimate.flops)


def conv1d_flops(shapes: Shapes, values: list[Any]) -> FlopEstimate | None:
    """conv1d: the formula of conv2d with one spatial dimension. Extended."""
    return _convolution(shapes, values, 1)


def conv3d_flops(shapes: Shapes, values: list[Any]) -> FlopEstimate | None:
    """conv3d: the formula of conv2d with three spatial dimensions. Extended."""
    return _convolution(shapes, values, 3)


def conv_transpose_flops(shapes: Shapes, values: list[Any]) -> FlopEstimate | None:
    """conv_transposeNd(input[n,ci,...], weight[ci,co/g,k...]): 2 n (input positions) ci co/g k.

    Every input element is multiplied with its weight[ci] block and added to the output, independent of
    stride, padding and dilation. Source: it is the adjoint of the convolution, which pairs the same
    elements (Dumoulin and Visin, A guide to convolution arithmetic, 2016). Extended.
    """
    image, weight = shapes[0], shapes[1]
    dims = len(weight) - 2
    if dims < 1 or len(image) not in (dims + 1, dims + 2) or image[-dims - 1] != weight[0]:
        return None
    return FlopEstimate(2 * math.prod(image) * math.prod(weight[1:]), extended=True)


def attention_flops(shapes: Shapes, values: list[Any]) -> FlopEstimate | None:
    """scaled_dot_product_attention(q[...,l,e], k[...,s,e], v[...,s,d]): 2 B l s e + 2 B l s d.

    The two matrix products, B being q's leading dimensions; softmax is not counted, and a causal mask
    does not reduce the count. Source: torch.utils.flop_counter counts the same. Extended.
    """
    query, key, value = shapes[0], shapes[1], shapes[2]
    if min(len(query), len(key), len(value)) < 2 or query[-1] != key[-1] or key[-2] != value[-2]:
        return None
    pairs = math.prod(query[:-1]) * key[-2]
    return FlopEstimate(2 * pairs * query[-1] + 2 * pairs * value[-1], extended=True)


def _value(values: list[Any], position: int, default: Any) -> Any:
    value = values[position] if position < len(values) else None
    return default if value is None or value == "" else value


def _per_dimension(value: Any, dims: int, least: int = 1) -> list[int]:
    """Return one number per spatial dimension, given a number or a list of 1 or `dims` numbers.

    Raises ValueError for another length, or a number below `least`.
    """
    numbers = [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]
    if len(numbers) == 1:
        numbers *= dims
    if len(numbers) != dims or min(numbers) < least:
        raise ValueError(f"expected {dims} numbers of at least {least}, not {numbers}")
    return numbers


def _convolution(shapes: Shapes, values: list[Any], dims: int) -> FlopEstimate | None:
    image, weight = shapes[0], shapes[1]
    if len(weight) != dims + 2 or len(image) not in (dims + 1, dims + 2):
        return None
    if values and len(values) > 4 and values[4] is None:
        return None  # padding was given by name, and the name was not recorded
    stride = _per_dimension(_value(values, 3, 1), dims)
    padding = _value(values, 4, 0)
    dilation = _per_dimension(_value(values, 5, 1), dims)
    (groups,) = _per_dimension(_value(values, 6, 1), 1)
    if min(weight[2:]) < 1:
        return None
    positions = 1
    for axis in range(dims):
        size, kernel = image[len(image) - dims + axis], weight[2 + axis]
        reach = dilation[axis] * (kernel - 1)
        if padding == "same":
            around = reach
        elif isinstance(padding, str):
            around = 0  # "valid"
        else:
            around = 2 * _per_dimension(padding, dims, least=0)[axis]
        positions *= max((size + around - reach - 1) // stride[axis] + 1, 0)
    batch = image[0] if len(image) == dims + 2 else 1
    in_channels = image[-dims - 1]
    kernel_size = math.prod(weight[2:])
    flops = 2 * batch * positions * kernel_size * in_channels * weight[0] // groups
    return FlopEstimate(flops, extended=True)


FLOP_FORMULAS: dict[str, Callable[[Shapes, list[Any]], FlopEstimate | None]] = {
    "mm": mm_flops,
    "bmm": partial(mm_flops, rank=3),
    "addmm": addmm_flops,
    "baddbmm": partial(addmm_flops, rank=3),
    "mul": elementwise_flops,
    "add": elementwise_flops,
    "conv1d": conv1d_flops,
    "conv2d": conv2d_flops,
    "conv3d": conv3d_flops,
    "conv_transpose1d": conv_transpose_flops,
    "conv_transpose2d": conv_transpose_flops,
    "conv_transpose3d": conv_transpose_flops,
    "scaled_dot_product_attention": attention_flops,
}
