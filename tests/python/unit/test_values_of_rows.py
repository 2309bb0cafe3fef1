# SPDX-License-Identifier: Apache-2.0
"""Values as columns keep them: typed arguments of each kind, columns by site, tables of whatever has one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_events import built, event

import fastprof
from fastprof import errors
from fastprof.base.html_table import HtmlColumn, html_table
from fastprof.base.native_numbers import ArgType
from fastprof.decode.consolidate import _argument, _LazyValues
from fastprof.exporters.native_file import table_of
from fastprof.exporters.trace_writers import _sites
from fastprof.model.columns import CodedBySite, SparseValues, read_only
from fastprof.model.table import EventKind, EventTable, Site
from fastprof.model.tree import EventTree


@pytest.mark.parametrize(
    ("kind", "word", "value"),
    [
        (ArgType.INT64, np.int64(-5), -5),
        (ArgType.UINT64, np.uint64(2**64 - 1), 2**64 - 1),
        (ArgType.POINTER, np.uint64(2**63), 2**63),
        (ArgType.FLOAT64, np.float64(-2.5), -2.5),
        (ArgType.BOOLEAN, np.uint64(1), True),
        (ArgType.BOOLEAN, np.uint64(0), False),
        (ArgType.STRING, np.uint64(1), "second"),
    ],
)
def test_an_argument_of_each_type(kind: ArgType, word: Any, value: Any) -> None:
    found = _argument(kind, np.array([word]).view(np.uint64), ["first", "second"])
    assert found == value and type(found) is type(value)


def test_values_that_are_computed_on_access() -> None:
    values = _LazyValues(np.array([7, 3, 5]), lambda row: row * 10)
    assert len(values) == 3 and list(values) == [70, 30, 50]
    assert values[-1] == 50 and values[1:] == [30, 50] and values[::-2] == [50, 70]
    with pytest.raises(IndexError):
        values[3]


def test_codes_by_site() -> None:
    column = CodedBySite(np.array([1, 0, 2, 1]), np.array([4, -1, 0], np.int32), list("abcde"))
    assert len(column) == 4 and list(column) == [None, "e", "a", None]
    assert column.codes.dtype == np.int32 and not column.codes.flags.writeable
    taken = column.take(np.array([2, 1]))
    assert list(taken) == ["a", "e"] and taken.values is column.values and len(taken) == 2


def test_sparse_columns() -> None:
    column = SparseValues(np.array([1, 4], np.int32), np.array([7, 9], np.int64), 5, -1)
    assert column.dense("int64").tolist() == [-1, 7, -1, -1, 9]
    assert column.dense("float64").dtype == np.float64
    assert (len(column), column.nbytes) == (5, 2 * 4 + 2 * 8)


def test_read_only_arrays_are_views() -> None:
    array = np.arange(3)
    view = read_only(array)
    assert view.base is array and not view.flags.writeable and array.flags.writeable
    assert read_only(view) is view


def test_the_table_of_what_has_one() -> None:
    table = EventTable({"start_ns": [0], "end_ns": [5], "site": [0]}, sites=[Site("a")])
    events = fastprof.EventList.from_table(table)
    made = built(event("a", 0, 1))
    assert table_of(table) is table_of(EventTree.of(table)) is table_of(events) is table
    assert list(table_of(made).names) == ["a"]
    assert table_of(SimpleNamespace(event_table=None, to_table=lambda: table)) is table
    for other in (None, [], SimpleNamespace(event_table=3)):
        with pytest.raises(errors.ValueError, match=f"from a {type(other).__name__}. Pass a table"):
            table_of(other)


def test_sites_of_rows_of_another_kind_are_doubled() -> None:
    table = EventTable(
        {
            "start_ns": range(5), "end_ns": range(5), "site": [0, 1, 0, 1, 0],
            "kind": [EventKind.RANGE, EventKind.MARK, EventKind.MARK, EventKind.RANGE, EventKind.MARK],
        },
        sites=[Site("a", file="f"), Site("b", kind=int(EventKind.MARK))],
    )  # fmt: skip
    site, sites = _sites(table, np.array([4, 3, 2, 1, 0]))
    assert [(sites[s].name, sites[s].kind) for s in site.tolist()] == [
        ("a", EventKind.MARK), ("b", EventKind.RANGE), ("a", EventKind.MARK), ("b", EventKind.MARK),
        ("a", EventKind.RANGE),
    ]  # fmt: skip
    assert sites[:2] == list(table.sites) and len(sites) == 4 and sites[int(site[0])].file == "f"


def test_cells_of_html_tables() -> None:
    columns = [HtmlColumn("Name", True), HtmlColumn("A & B", False), HtmlColumn("%", False)]
    text = html_table(
        columns, [("<x>", "1", "25.00%"), ("'y\"", "NaN%", "150%"), ("", "x%", "0.00%")], ["a<b"]
    )
    shade = "linear-gradient(90deg,rgba(80,140,255,.3) {0},transparent {0})"
    assert '<th scope="col" class="text">Name</th><th scope="col">A &amp; B</th>' in text
    first, second, third = text.partition("<tbody>")[2].partition("</tbody>")[0].split("</tr>")[:3]
    assert first == (
        '<tr><td class="text"><bdi>&lt;x&gt;</bdi></td><td>1</td>'
        f'<td style="background:{shade.format("25.0%")}">25.00%</td>'
    )
    assert second == (
        '<tr><td class="text"><bdi>&#x27;y&quot;</bdi></td><td>NaN%</td>'
        f'<td style="background:{shade.format("100.0%")}">150%</td>'
    )
    assert third == '<tr><td class="text"><bdi></bdi></td><td>x%</td><td>0.00%</td>'
    assert "</table><p>a&lt;b</p><script>" in text
