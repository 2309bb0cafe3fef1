# SPDX-License-Identifier: Apache-2.0
"""sum_by() against Python's own sums: exact for integers of any size, and of the type of what is summed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprof.model.nesting import sum_by

EDGE = 1 << 53  # from here on, not every integer is a float64
NUMBERS = st.sampled_from([0, 1, -1, EDGE - 1, EDGE, EDGE + 1, -EDGE - 1, 1 << 60]) | st.integers(
    -1000, 1000
)


@given(st.lists(st.tuples(st.integers(0, 3), NUMBERS), max_size=6))
def test_integers_are_summed_exactly(pairs: list[tuple[int, int]]) -> None:
    codes = np.array([code for code, _ in pairs], np.int64)
    values = np.array([value for _, value in pairs], np.int64)
    sums = sum_by(codes, values, 5)
    assert sums.dtype == np.int64
    assert sums.tolist() == [sum(v for c, v in pairs if c == code) for code in range(5)]


def test_the_bound_of_exact_floats_is_of_the_sum() -> None:
    """Each of the values is exact as a float; what they add up to is not."""
    values = np.array([EDGE - 1, 2, EDGE - 1], np.int64)
    assert sum_by(np.zeros(3, np.int64), values, 1).tolist() == [2 * EDGE]
    values = np.array([EDGE // 2, EDGE // 2 + 1, 0], np.int64)
    assert sum_by(np.zeros(3, np.int64), values, 1).tolist() == [EDGE + 1]
    assert sum_by(np.zeros(3, np.int64), -values, 1).tolist() == [-EDGE - 1]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float64])
@pytest.mark.parametrize("value", [0, 3])
def test_columns_of_one_value(dtype: type, value: int) -> None:
    whole = np.broadcast_to(dtype(value), (4,))
    sums = sum_by(np.array([0, 2, 2, 0]), whole, 4)
    assert sums.tolist() == [2 * value, 0, 2 * value, 0]
    assert sums.dtype == (np.float64 if dtype is np.float64 else np.int64)


def test_floats_are_added_in_the_order_of_rows() -> None:
    values = np.array([1e16, 1.0, -1e16, 0.5])
    assert sum_by(np.array([0, 0, 0, 1]), values, 2).tolist() == [(1e16 + 1.0) - 1e16, 0.5]
    assert sum_by(np.zeros(0, np.int64), np.zeros(0), 2).tolist() == [0.0, 0.0]
