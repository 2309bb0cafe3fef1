# SPDX-License-Identifier: Apache-2.0
"""EventTable: columns, defaults, selection."""

from __future__ import annotations

import numpy as np
import pytest

from fastprof import errors
from fastprof.model.table import CodedColumn, EventTable, Site, Track


def small_table(**extra: object) -> EventTable:
    columns = {
        "start_ns": np.array([0, 1, 2, 5, 20], np.int64),
        "end_ns": np.array([10, 4, 3, 9, 30], np.int64),
        "site": np.array([0, 1, 2, 1, 0], np.uint32),
        "track": np.array([0, 0, 0, 0, 1], np.uint32),
        "parent": np.array([-1, 0, 1, 0, -1], np.int32),
    }
    columns.update(extra)  # type: ignore[arg-type]
    return EventTable(
        columns,
        sites=[Site("a"), Site("b", category="cpu_op", scope=0), Site("c")],
        tracks=[Track(7), Track(9)],
        begin_ordered=True,
    )


def test_columns_are_shared_and_read_only() -> None:
    start = np.arange(4, dtype=np.int64)
    table = EventTable(
        {"start_ns": start, "end_ns": start, "site": np.zeros(4, np.uint32)}, sites=[Site("a")]
    )
    assert np.shares_memory(table.start_ns, start)
    with pytest.raises(ValueError, match="read-only"):
        table.start_ns[0] = 1
    start[0] = 9  # the caller's array stays writable


def test_absent_columns_cost_nothing_and_have_defaults() -> None:
    table = small_table()
    before = table.nbytes
    flops = table.column("flops")
    assert np.isnan(flops).all()
    assert flops.strides == (0,)
    assert table.column("node_id").tolist() == [-1] * 5
    assert table.nbytes == before
    assert not table.has("flops")


def test_equal_names_of_different_sites_share_a_code() -> None:
    table = EventTable(
        {"start_ns": [0, 1, 2], "end_ns": [1, 2, 3], "site": [0, 1, 2]},
        sites=[Site("x", line=1), Site("y"), Site("x", line=2)],
    )
    assert table.name_id.tolist() == [0, 1, 0]
    assert list(table.names) == ["x", "y"]
    assert table.name(2) == "x"


@pytest.mark.parametrize(
    "rows", [np.array([True, False, True, True, True]), np.array([0, 2, 3, 4]), [0, 2, 3, 4]]
)
def test_selection_keeps_the_nearest_selected_ancestor(rows: object) -> None:
    table = small_table()[rows]  # type: ignore[index]
    assert table.column("parent").tolist() == [-1, 0, 0, -1]
    assert table.column("id").tolist() == [0, 2, 3, 4]


def test_slice_shares_memory() -> None:
    table = small_table()
    part = table[1:4]
    assert np.shares_memory(part.start_ns, table.start_ns)
    assert part.column("parent").tolist() == [-1, 0, -1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"start_ns": [0], "end_ns": [1]}, "requires the column 'site'"),
        ({"start_ns": [0], "end_ns": [1], "site": [0], "color": [0]}, "unknown column 'color'"),
        ({"start_ns": [0], "end_ns": [1, 2], "site": [0]}, r"'end_ns' has shape \(2,\)"),
    ],
)
def test_wrong_columns_are_named(columns: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EventTable(columns, sites=[Site("a")])


def test_an_integer_index_and_iteration_say_what_to_do() -> None:
    table = small_table()
    with pytest.raises(TypeError, match="slice"):
        table[0]  # type: ignore[index]
    with pytest.raises(TypeError, match=r"events\(\)"):
        iter(table)


def test_unknown_coded_columns_are_refused() -> None:
    with pytest.raises(errors.ValueError, match=r"unknown coded column 'colour'\. Use one of "):
        small_table_with({"colour": CodedColumn.encode(["a"] * 5)})


def small_table_with(coded: dict[str, CodedColumn]) -> EventTable:
    whole = small_table()
    return EventTable(whole.to_dict(), sites=whole.sites, coded=coded)
