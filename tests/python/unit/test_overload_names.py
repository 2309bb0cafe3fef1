# SPDX-License-Identifier: Apache-2.0
"""overload_names(): of PyTorch's ops by their site, of others as they were recorded with the row."""

from __future__ import annotations

import numpy as np

from fastprof.decode.op_columns import overload_names
from fastprof.model.sites import Site, SiteTable
from fastprof.model.table import CodedColumn

OPS = SiteTable.from_sites(
    [
        Site("aten::add", category="cpu_op", function="out"),
        Site("aten::mul", category="cpu_op"),
        Site("here", category="cpu_op", function="f", file="a.cpp"),  # a function of C++ is no overload
        Site("range", category="user_annotation", function="g"),
        Site("aten::sub", category="cpu_op", function="Tensor"),
    ]
)  # fmt: skip
ROWS = np.array([4, 0, 1, 2, 3, 0])


def texts(column: CodedColumn | None) -> list[str | None]:
    assert column is not None
    return [column[row] for row in range(len(column))]


def test_names_are_those_of_sites() -> None:
    assert texts(overload_names(ROWS, OPS)) == ["Tensor", "out", "", "", "", "out"]


def test_recorded_names_come_first() -> None:
    recorded = CodedColumn(np.array([-1, 1, 0, -1, -1, -1], np.int32), ("own", "other"))
    assert texts(overload_names(ROWS, OPS, recorded)) == ["Tensor", "other", "own", "", "", "out"]


def test_without_ops_of_pytorch_there_are_only_recorded_ones() -> None:
    none = SiteTable.from_sites([Site("a"), Site("b", category="cpu_op")])
    recorded = CodedColumn(np.array([0, -1], np.int32), ("own",))
    assert overload_names(np.array([0, 1]), none, recorded) is recorded
    assert overload_names(np.array([0, 1]), none) is None
