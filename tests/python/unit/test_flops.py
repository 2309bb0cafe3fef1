# SPDX-License-Identifier: Apache-2.0
"""FLOP formulas by hand, and beside brute-force counting loops."""

from __future__ import annotations

from typing import Any

import pytest

from fastprof.analysis.flops import estimate_flops


@pytest.mark.parametrize(
    ("name", "shapes", "values", "flops", "extended"),
    [
        ("aten::mm", [[3, 4], [4, 5]], None, 120, False),
        ("mm", [[3, 4], [4, 5]], None, 120, False),
        ("aten::mm", [[3, 0], [0, 5]], None, 0, False),
        ("aten::addmm", [[5], [3, 4], [4, 5], [], []], None, 120, False),
        ("aten::bmm", [[2, 3, 4], [2, 4, 5]], None, 240, False),
        ("aten::baddbmm", [[2, 3, 5], [2, 3, 4], [2, 4, 5]], None, 240, False),
        ("aten::mul", [[3, 1], [1, 7]], None, 3, False),
        ("aten::add", [[], [3, 1], []], None, 1, False),
        (
            "aten::conv2d",
            [[2, 4, 9, 9], [6, 2, 3, 3], [], [], [], [], []],
            [None, None, None, [2, 2], [1, 1], [1, 1], 2],
            10800,
            False,
        ),
        ("aten::conv2d", [[4, 9, 9], [6, 4, 3, 3]], None, 2 * 49 * 9 * 24, True),
        (
            "aten::conv2d",
            [[2, 4, 9, 9], [6, 4, 3, 3]],
            [None, None, None, [1, 1], "same", [1, 1], 1],
            2 * 2 * 81 * 9 * 24,
            True,
        ),
        ("aten::conv1d", [[2, 4, 9], [6, 4, 3]], None, 2 * 2 * 7 * 3 * 24, True),
        ("aten::conv3d", [[1, 2, 5, 5, 5], [3, 2, 2, 2, 2]], None, 2 * 64 * 8 * 6, True),
        ("aten::conv_transpose2d", [[2, 4, 9, 9], [4, 6, 3, 3]], None, 2 * 648 * 54, True),
        (
            "aten::scaled_dot_product_attention",
            [[2, 3, 4, 5], [2, 3, 6, 5], [2, 3, 6, 7]],
            None,
            2 * 6 * 4 * 6 * 5 + 2 * 6 * 4 * 6 * 7,
            True,
        ),
    ],
)
def test_formulas(name: str, shapes: Any, values: Any, flops: int, extended: bool) -> None:
    assert estimate_flops(name, shapes, values) == (flops, extended)


@pytest.mark.parametrize(
    ("name", "shapes", "values"),
    [
        ("aten::linear", [[3, 4], [5, 4]], None),
        ("aten::matmul", [[3, 4], [4, 5]], None),
        ("aten::add_", [[3, 4], [4]], None),
        ("aten::sub", [[3], [3]], None),
        ("aten::mm", [[3, 4]], None),
        ("aten::mm", [], None),
        ("aten::mm", None, None),
        ("aten::mm", "", None),
        ("aten::add", [[[3, 4], [4]]], None),
        ("aten::conv2d", [[2, 4, 9, 9], [6, 4, 3, 3]], [None, None, None, [1, 1], None, [1, 1], 1]),
        ("aten::conv2d", [[2, 4, 9, 9], [6, 4, 3, 3]], [None, None, None, [0, 0]]),
    ],
)
def test_no_estimate(name: str, shapes: Any, values: Any) -> None:
    assert estimate_flops(name, shapes, values) is None


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolution_counts_every_product(stride: int, padding: int, dilation: int) -> None:
    """Count the windows that fit, instead of computing how many do."""
    size, kernel = 9, 3
    padded = size + 2 * padding
    windows = sum(1 for at in range(0, padded, stride) if at + dilation * (kernel - 1) < padded)
    estimate = estimate_flops(
        "conv1d", [[2, 4, size], [6, 4, kernel]], [None, None, None, stride, padding, [dilation], 1]
    )
    assert estimate is not None
    assert estimate.flops == 2 * (2 * 6 * windows) * (4 * kernel)


def test_transposed_convolution_is_the_adjoint() -> None:
    """Without padding it pairs input and weight as the convolution back from its output does."""
    forward = estimate_flops("conv1d", [[2, 6, 11], [4, 6, 3]])
    back = estimate_flops("conv_transpose1d", [[2, 4, 9], [4, 6, 3]])
    assert forward == back
