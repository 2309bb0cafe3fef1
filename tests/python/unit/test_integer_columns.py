# SPDX-License-Identifier: Apache-2.0
"""Columns of integers that readers build: distinct values and rows against NumPy's sort, numbers against a dict."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprof.importers.distinct import distinct_rows, distinct_values
from fastprof.importers.number_column import NumberColumn, extend_array, whole_array
from fastprof.model.columns import SparseValues

NEAR = st.integers(-5, 5)  # a table of all values is small
FAR = st.integers(-(1 << 62), 1 << 62)
LISTS = st.lists(NEAR) | st.lists(FAR) | st.lists(NEAR | FAR)


@given(LISTS)
def test_distinct_values_are_those_of_a_sort(values: list[int]) -> None:
    column = np.array(values, np.int64)
    distinct, codes = distinct_values(column)
    assert distinct.tolist() == sorted(set(values))
    assert distinct[codes].tolist() == values


@given(st.lists(st.tuples(NEAR, st.integers(0, 3), st.integers(1_000, 1_002)), min_size=1))
def test_distinct_rows_are_those_of_a_set(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    distinct, codes = distinct_rows(columns)
    assert list(map(tuple, distinct.tolist())) == sorted(set(rows))
    assert list(map(tuple, distinct[codes].tolist())) == rows


def test_no_rows_are_no_distinct_rows() -> None:
    none = np.zeros(0, np.int64)
    distinct, codes = distinct_rows([none, none])
    assert distinct.shape == (0, 2) and codes.tolist() == []


BIG = st.integers(-(1 << 70), 1 << 70)
PUTS = st.lists(
    st.tuples(st.integers(0, 40), BIG)
    | st.lists(st.tuples(st.integers(0, 40), FAR), min_size=1, max_size=5)
)


@given(PUTS, st.integers(0, 30), st.sampled_from([0, -1, 7]))
def test_a_number_column_is_a_dict_of_rows(puts: list[object], more: int, default: int) -> None:
    """In order or not, one by one or many at once, with gaps: the last number of a row counts."""
    column = NumberColumn(default)
    expected: dict[int, int] = {}
    for put in puts:
        if isinstance(put, tuple):
            column.put(*put)
            expected[put[0]] = min(max(put[1], -(1 << 63)), (1 << 63) - 1)
        elif isinstance(put, list):
            rows = dict(sorted(put))
            column.put_rows(np.array(list(rows)), np.array(list(rows.values()), np.int64))
            expected |= rows
    assert column.nbytes >= 8 * len(expected)
    size = max(expected, default=-1) + 1 + more
    made = column.column(size)
    assert len(made) == size
    numbers = made.dense("int64") if isinstance(made, SparseValues) else made
    assert numbers.tolist() == [expected.get(row, default) for row in range(size)]


def test_few_numbers_stay_pairs_and_many_become_an_array() -> None:
    few, many = NumberColumn(0), NumberColumn(0)
    for row in range(0, 300, 3):
        few.put(row, row)
    for row in range(0, 300, 2):
        many.put(row, row)
    assert isinstance(few.column(300), SparseValues)
    assert isinstance(many.column(200), np.ndarray)


@pytest.mark.parametrize("size", [0, 3, 70_000, 140_000])
def test_arrays_are_extended_by_their_default(size: int) -> None:
    values = array("i", [4, 5])
    extend_array(values, size, -1)
    assert len(values) == max(size, 2)
    assert values[:2] == array("i", [4, 5]) and set(values[2:]) <= {-1}
    whole = whole_array(values, len(values) + 1, 9)
    assert whole.dtype == np.int32 and whole[-1] == 9 and len(whole) == len(values)
