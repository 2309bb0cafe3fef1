# SPDX-License-Identifier: Apache-2.0
"""with_op_inputs: the columns of ops' inputs that a profile has and traces have not, from the args of the ops."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.importers.chrome_args import LISTS
from fastprof.importers.distinct import distinct_rows
from fastprof.model.table import CodedColumn, EventTable
from fastprof.model.tree import EventTree

__all__ = ["with_op_inputs"]

Array: TypeAlias = NDArray[Any]


def with_op_inputs(table: EventTable) -> EventTable:
    """Return the table with input_shapes and flops; rows without inputs have empty lists, as those of a profile.

    "Input Dims" has the shapes of lists of tensors, input_shapes has [] for a list. flops: if the trace was made
    with_flops, which its metadata says.
    """
    dims = table.coded.get("structured_input_shapes")
    if dims is None:
        return table
    plain = [[size if _is_tensor(size) else [] for size in sizes] for sizes in dims.values]
    found = {name: table.coded[name] for _, name in LISTS if name in table.coded}
    found["input_shapes"] = CodedColumn(dims.codes, plain)
    flops = {"flops": _flops(table, found)} if table.metadata.get("with_flops") == 1 else {}
    return table.with_columns(flops, coded={name: _filled(each) for name, each in found.items()})


def _is_tensor(size: Any) -> bool:
    return isinstance(size, list) and all(type(number) is int for number in size)


def _filled(column: CodedColumn) -> CodedColumn:
    codes = np.where(column.codes < 0, np.int32(len(column.values)), column.codes)
    return CodedColumn(codes, (*column.values, []))


def _flops(table: EventTable, inputs: dict[str, CodedColumn]) -> Array:
    """Return FLOPs by row as decode/op_columns.py does; those of a wrapper are 0 if ops inside it have some."""
    from fastprof.analysis.flops import are_wrappers, have_formulas, recorded_flops

    names, site = table.sites.names, table.column("site")
    has_formula = np.array(have_formulas(names), bool)
    none = CodedColumn(np.full(len(table), -1, np.int32), ())
    columns = [
        inputs.get(name, none) for name in ("input_shapes", "input_dtypes", "concrete_inputs")
    ]
    rows = np.flatnonzero(has_formula[site] & (columns[0].codes >= 0))
    keys = [codes[rows].astype(np.int64) for codes in (site, *(each.codes for each in columns))]
    distinct, of_key = distinct_rows(keys)
    example = np.empty(len(distinct), np.int64)  # a row of each
    example[of_key] = rows
    estimates = []
    for row in example.tolist():
        shapes, dtypes, values = (column[row] for column in columns)
        values = [_value(each) for each in values or []]
        estimates.append(recorded_flops(names[site[row]], shapes, dtypes, values))
    flops = np.zeros(len(table))
    flops[rows] = np.array(estimates, np.float64)[of_key]
    wrappers = np.array(are_wrappers(names), bool)[site]
    if bool((flops[wrappers] > 0).any()):
        parent = EventTree.of(table).parent_rows()
        around = parent[(flops > 0) & ~wrappers]
        while len(around := np.unique(around[around >= 0])):
            flops[around[wrappers[around]]] = 0
            around = parent[around]
    return flops


def _value(text: Any) -> Any:
    """Return the number or list that a text of "Concrete Inputs" is, or the text; None for "", an input without."""
    try:
        return json.loads(text) if text else None
    except (TypeError, ValueError, RecursionError):
        return text
