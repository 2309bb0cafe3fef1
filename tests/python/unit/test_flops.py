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
