# SPDX-License-Identifier: Apache-2.0
"""Fold calls that are shorter than a bound: each run of them becomes one row."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.distinct import distinct
from fastprof.base.native_numbers import Category
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.nesting import sum_by
from fastprof.model.parents import skip_rows
from fastprof.model.sites import SHORTER_CALLS, Site, SiteTable
from fastprof.model.table import CodedColumn, EventFlag, EventTable

__all__ = ["fold_short_calls"]

Array: TypeAlias = NDArray[Any]


def fold_short_calls(table: EventTable, min_duration_ns: int) -> EventTable:
    """Return the table with calls under `min_duration_ns` summed into rows named SHORTER_CALLS.

    A run is a succession of short calls of one parent without a kept row in between; it becomes one row. The
    row begins where the run begins, its duration is the sum of the run's calls, and its argument "calls" is the
    number of these calls and of all calls inside of them. So the self time of each remaining row is unchanged.
    Calls that contain a range, an op or another record are kept, and so are open calls.

    table: rows in the order of a capture: grouped by track, parents before children. min_duration_ns: the bound.
    """
    parent = table.column("parent").astype(np.int64)
    kept = ~_may_be_folded(table, min_duration_ns)
    pending = parent[np.flatnonzero(kept)]
    while len(pending := distinct(pending[pending >= 0])) and not kept[pending].all():
        pending = pending[~kept[pending]]
        kept[pending] = True
        pending = parent[pending]
    outermost = ~kept & ((parent < 0) | kept[parent])
    if not outermost.any():
        return table
    first, sums_ns, calls = _runs(table, parent, kept, outermost)
    rows = kept.copy()
    rows[first] = True
    end_ns = table.end_ns.copy()
    end_ns[first] = table.start_ns[first] + sums_ns
    site = table.column("site").astype(np.int64)
    site[first] = len(table.sites)
    payload = table.column("payload").copy()
    payload[first] = NO_PAYLOAD
    columns = {"end_ns": end_ns, "site": site.astype(np.uint32), "payload": payload}
    if table.has("call_line"):  # a run is of calls from several lines
        columns["call_line"] = table.column("call_line").copy()
        columns["call_line"][first] = 0
    made = Site(SHORTER_CALLS, category="python_function", mask=Category.PYTHON_CALL.value)
    folded = table.with_columns(
        columns,
        coded={"metadata_json": _counts(table, first, calls)},
        sites=SiteTable.from_sites([*table.sites, made]),
    )
    return folded[rows]


def _may_be_folded(table: EventTable, min_duration_ns: int) -> Array:
    short = table.column("is_python_function") & (table.duration_ns < min_duration_ns)
    flags = table.column("flags") & np.uint8(EventFlag.FINISHED | EventFlag.ENCLOSING)
    result: Array = short & (flags == EventFlag.FINISHED)
    return result


def _runs(
    table: EventTable, parent: Array, kept: Array, outermost: Array
) -> tuple[Array, Array, Array]:
    """Return (first row, summed ns, number of calls) of each run of folded calls."""
    owner = np.flatnonzero(~kept & ~outermost)
    if len(owner):
        owner = skip_rows(parent, outermost)[owner]
    calls = np.bincount(owner, minlength=len(parent)) + 1
    siblings = np.flatnonzero(kept | outermost)
    track = table.column("track")[siblings]
    order = np.lexsort((siblings, parent[siblings], track))
    siblings, track = siblings[order], track[order]
    in_run = outermost[siblings]
    begins = in_run.copy()
    begins[1:] &= (
        ~in_run[:-1]
        | (parent[siblings[1:]] != parent[siblings[:-1]])
        | (track[1:] != track[:-1])
    )  # fmt: skip
    run = np.cumsum(begins)[in_run] - 1
    folded = siblings[in_run]
    first = siblings[begins]
    sums_ns = sum_by(run, table.duration_ns[folded], len(first))
    return first, sums_ns, sum_by(run, calls[folded], len(first))


def _counts(table: EventTable, rows: Array, calls: Array) -> CodedColumn:
    """Return the column of arguments, with the number of calls in `rows`."""
    known = table.coded.get("metadata_json")
    codes = np.full(len(table), -1, np.int32) if known is None else known.codes.copy()
    texts: list[Any] = [] if known is None else list(known.values)
    totals, number = np.unique(calls, return_inverse=True)
    codes[rows] = len(texts) + number.reshape(-1)
    texts += [json.dumps({"calls": count}) for count in totals.tolist()]
    return CodedColumn(codes, texts)
