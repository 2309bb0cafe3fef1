# SPDX-License-Identifier: Apache-2.0
"""FLOP formulas, compared with tests/cases/flops.txt, which the C++ test reads too, and with counting loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fastprof.analysis.flops import FLOP_FORMULAS, estimate_flops

CASES = Path(__file__).resolve().parents[2] / "cases" / "flops.txt"


class Case(NamedTuple):
    mark: str
    name: str
    shapes: list[list[int]]
    values: list[Any]
    flops: int | None


def value_of(word: str) -> Any:
    if word == "-" or word.startswith("T"):
        return None
    if word.startswith("("):
        return [int(number) for number in word[1:-1].split(",")]
    return int(word) if word.lstrip("-").isdigit() else word


def read_cases() -> list[Case]:
    cases = []
    for line in CASES.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        left, flops = line[2:].split("=")
        name, *inputs = left.split()
        sizes = [
            word[1:].split("x") if word.startswith("T") and word != "T" else [] for word in inputs
        ]
        shapes = [[int(size) for size in shape] for shape in sizes]
        values = [value_of(word) for word in inputs]
        cases.append(
            Case(line[0], name, shapes, values, None if flops.strip() == "none" else int(flops))
        )
    return cases


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: f"{case.name} {case.shapes}")
def test_the_table_of_cases(case: Case) -> None:
    expected = None if case.flops is None else (case.flops, case.mark != " ")
    assert estimate_flops(case.name, case.shapes, case.values) == expected


def test_the_table_has_every_formula() -> None:
    assert len(read_cases()) > 50
    counted = {case.name for case in read_cases() if case.flops}
    alike = {"conv_transpose1d", "conv_transpose3d"}  # as conv_transpose2d
    assert {name.removeprefix("aten::") for name in counted} == set(FLOP_FORMULAS) - alike


@pytest.mark.parametrize(
    ("name", "shapes", "values", "flops", "extended"),
    [
        ("mm", [[3, 4], [4, 5]], None, 120, False),
        ("aten::conv2d", [[4, 9, 9], [6, 4, 3, 3]], None, 2 * 49 * 9 * 24, True),
    ],
)
def test_without_values(name: str, shapes: Any, values: Any, flops: int, extended: bool) -> None:
    assert estimate_flops(name, shapes, values) == (flops, extended)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("aten::mm", None), ("aten::mm", ""), ("aten::add", [[[3, 4], [4]]])],
)
def test_what_is_no_list_of_shapes(name: str, shapes: Any) -> None:
    assert estimate_flops(name, shapes) is None


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
    """Without padding it needs as many products as the convolution from its output back to its input."""
    forward = estimate_flops("conv1d", [[2, 6, 11], [4, 6, 3]])
    back = estimate_flops("conv_transpose1d", [[2, 4, 9], [4, 6, 3]])
    assert forward == back


def test_arguments_that_are_left_out_have_their_defaults() -> None:
    shapes: Any = [[1, 2, 8, 8], [3, 2, 3, 3]]
    whole = estimate_flops("conv2d", shapes, [None, None, None, 1, 0, 1, 1])
    assert whole is not None and whole.flops == 2 * 6 * 6 * 3 * 3 * 2 * 3
    for known in ([], [None], [None] * 3, [None, None, None, 1], [None, None, None, 1, 0]):
        assert estimate_flops("conv2d", shapes, known) == whole
    unknown_padding = [None, None, None, 1, None]
    assert estimate_flops("conv2d", shapes, unknown_padding) is None


@pytest.mark.parametrize(
    ("name", "shapes", "flops"),
    [
        # Attention: q[..., l, e], k[..., s, e], v[..., s, d]; by hand, 2 B l s e + 2 B l s d.
        ("scaled_dot_product_attention", [[5, 7], [3, 7], [3, 2]], 2 * 5 * 3 * 7 + 2 * 5 * 3 * 2),
        (
            "scaled_dot_product_attention",
            [[4, 2, 5, 7], [4, 2, 3, 7], [4, 2, 3, 2]],
            8 * (210 + 60),
        ),
        ("scaled_dot_product_attention", [[5, 7], [3, 8], [3, 2]], None),
        ("scaled_dot_product_attention", [[5, 7], [3, 7], [4, 2]], None),
        ("scaled_dot_product_attention", [[7], [3, 7], [3, 2]], None),
        ("scaled_dot_product_attention", [[5, 7], [7], [3, 2]], None),
        ("scaled_dot_product_attention", [[5, 7], [3, 7], [3]], None),
        ("scaled_dot_product_attention", [[5, 7], [3, 7]], None),
        # Convolutions of the number of dimensions in their name, with a batch or without.
        ("conv1d", [[2, 4, 9], [6, 4, 3]], 2 * 2 * 7 * 3 * 4 * 6),
        ("conv1d", [[4, 9], [6, 4, 3]], 2 * 7 * 3 * 4 * 6),
        ("conv1d", [[9], [6, 4, 3]], None),
        ("conv1d", [[1, 2, 4, 9], [6, 4, 3]], None),
        ("conv1d", [[2, 4, 9, 9], [6, 4, 3, 3]], None),
        ("conv2d", [[2, 4, 9, 8], [6, 4, 3, 2]], 2 * 2 * (7 * 7) * 6 * 4 * 6),
        ("conv2d", [[2, 4, 9], [6, 4, 3]], None),
        ("conv3d", [[4, 9, 8, 7], [6, 4, 3, 2, 1]], 2 * (7 * 7 * 7) * 6 * 4 * 6),
        ("conv3d", [[4, 9, 8], [6, 4, 3, 2]], None),
        ("conv2d", [[1, 4, 2, 2], [6, 4, 3, 3]], 0),  # smaller than the kernel
        ("conv2d", [[1, 4, 9, 9], [6, 4, 3, 0]], None),
        # Transposed: every element of the input by its block of the weight.
        ("conv_transpose1d", [[2, 4, 9], [4, 6, 3]], 2 * 72 * 18),
        ("conv_transpose1d", [[4, 9], [4, 6, 3]], 2 * 36 * 18),
        ("conv_transpose1d", [[5, 9], [4, 6, 3]], None),
        ("conv_transpose1d", [[9], [4, 6, 3]], None),
        ("conv_transpose1d", [[1, 2, 4, 9], [4, 6, 3]], None),
        ("conv_transpose2d", [[4, 9, 8], [4, 6, 3, 3]], 2 * 288 * 54),
        ("conv_transpose2d", [[4, 9], [4, 6]], None),
    ],
)
def test_shapes_that_a_formula_takes(name: str, shapes: Any, flops: int | None) -> None:
    found = estimate_flops(name, shapes)
    assert (None if found is None else found.flops) == flops


@pytest.mark.parametrize(
    ("values", "windows"),
    [
        ([2, 0, 1, 1], 4 * 4),
        ([[2, 1], 0, 1, 1], 4 * 7),
        ([[3], [1, 2], [1, 1], 1], 3 * 4),
        ([1, "same", 1, 1], 9 * 9),
        ([1, "same", [2, 3], 1], 9 * 9),
        ([1, "valid", 1, 1], 7 * 7),
        ([1, "", 1, 1], 7 * 7),  # recorded without its value: the default
        ([1, 0, [1, 3], 1], 7 * 3),
        ([0, 0, 1, 1], None),
        ([1, -1, 1, 1], None),
        ([[1, 1, 1], 0, 1, 1], None),
        ([1, 0, 0, 1], None),
        ([1, 0, 1, 0], None),
    ],
)
def test_arguments_of_a_convolution(values: list[Any], windows: int | None) -> None:
    found = estimate_flops("conv2d", [[1, 4, 9, 9], [6, 4, 3, 3]], [None, None, None, *values])
    expected = None if windows is None else 2 * windows * 9 * 4 * 6
    assert (None if found is None else found.flops) == expected
    halved = estimate_flops("conv2d", [[1, 4, 9, 9], [6, 2, 3, 3]], [None, None, None, 1, 0, 1, 2])
    assert halved is not None and halved.flops == 2 * 49 * 9 * 2 * 6
