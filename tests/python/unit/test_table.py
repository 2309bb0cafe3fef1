# SPDX-License-Identifier: Apache-2.0
"""EventTable: columns, defaults, selection."""

from __future__ import annotations

import numpy as np
import pytest
from trace_tables import every_column_table

from fastprof import errors
from fastprof.model.table import (
    CodedColumn,
    EventKind,
    EventTable,
    KernelTable,
    Site,
    Track,
)
from fastprof.model.tree import EventTree
from fastprof.views.frame import EventFrame


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
    "rows",
    [np.array([True, False, True, True, True]), np.array([0, 2, 3, 4]), [0, 2, 3, 4]],
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


def test_selection_keeps_kernels_of_selected_rows() -> None:
    kernels = KernelTable(
        np.array([0, 2, 2]), np.array([0, 0, 1]), np.zeros(3), np.array([5, 6, 7]), ["k", "l"]
    )
    table = small_table().with_columns(kernels=kernels)
    picked = table[[2, 3]]
    assert picked.kernels is not None
    assert picked.kernels.row.tolist() == [0, 0]
    assert picked.kernels.duration_ns.tolist() == [6, 7]


def test_coded_column_keeps_each_value_once() -> None:
    column = CodedColumn.encode([[[1, 2]], None, [[1, 2]], [[3]]])
    assert column.codes.tolist() == [0, -1, 0, 1]
    assert [column[i] for i in range(4)] == [[[1, 2]], None, [[1, 2]], [[3]]]
    table = small_table().with_columns(coded={"input_shapes": CodedColumn.encode([[[1]]] * 5)})
    assert table[1:3].coded["input_shapes"].codes.tolist() == [0, 0]


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
    with pytest.raises(TypeError, match="EventList"):
        iter(table)


def test_only_selections_in_order_stay_in_begin_order() -> None:
    ordered = EventTable(
        {"start_ns": [1, 2, 3], "end_ns": [2, 3, 4], "site": [0] * 3},
        sites=[Site("a")], begin_ordered=True,
    )  # fmt: skip
    for rows in (slice(None), slice(1, 3), slice(0, 3, 2), np.array([True, False, True])):
        assert ordered[rows].begin_ordered
    for rows in (slice(None, None, -1), [2, 0], np.array([0, 2]), []):
        assert not ordered[rows].begin_ordered


def test_a_selection_of_everything_keeps_parents_and_kernels() -> None:
    table = small_table()
    assert table[:].column("parent").tolist() == [-1, 0, 1, 0, -1]
    assert table[:].has("parent")


def test_kernels_cannot_be_reassigned() -> None:
    import dataclasses

    kernels = KernelTable(np.array([0]), np.array([0]), np.zeros(1), np.array([5]), ["k"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        kernels.names = []  # type: ignore[misc]


def test_the_size_of_a_table_is_that_of_its_arrays() -> None:
    table = every_column_table()
    columns = sum(column.nbytes for column in table.to_dict().values())
    codes = sum(column.codes.nbytes for column in table.coded.values())
    assert table.payload_words is not None and table.payload_words.nbytes > 0
    assert table.nbytes == columns + codes + table.payload_words.nbytes
    bare = EventTable({"start_ns": [1], "end_ns": [2], "site": [0]}, sites=[Site("a")])
    assert bare.nbytes == sum(column.nbytes for column in bare.to_dict().values())


@pytest.mark.parametrize(
    ("kind", "flags", "category", "unfinished"),
    [
        (None, [1, 1], "", 0),
        (None, [0, 1], "", 1),
        (None, [0, 0], "", 2),
        ([EventKind.RANGE, EventKind.ASYNC_RANGE], [0, 2], "", 2),
        ([EventKind.RANGE, EventKind.MARK], [0, 0], "", 1),
        ([EventKind.MARK, EventKind.MEMORY], [0, 0], "", 0),
        ([EventKind.COUNTER, EventKind.ASYNC_RANGE], [0, 5], "", 0),
        (None, [0, 0], "task_lifetime", 1),
    ],
)
def test_ranges_that_were_open_at_the_end(
    kind: list[int] | None, flags: list[int], category: str, unfinished: int
) -> None:
    """Bit 0 of the flags says that a row has ended; instants have no end, and tasks do not count."""
    columns = {"start_ns": [0, 1], "end_ns": [5, 6], "site": [0, 1], "flags": flags}
    if kind is not None:
        columns["kind"] = kind
    assert (
        EventTable(columns, sites=[Site("a", category=category), Site("b")]).unfinished
        == unfinished
    )
    del columns["flags"]
    assert EventTable(columns, sites=[Site("a"), Site("b")]).unfinished == 0
    empty = EventTable({"start_ns": [], "end_ns": [], "site": [], "flags": []}, sites=[])
    assert empty.unfinished == 0


def test_keys_alone_have_no_times() -> None:
    tree = EventTree.of(small_table())
    frame = EventFrame.from_tree(tree, None, None, times=False)
    assert frame.cpu_time_total.tolist() == frame.self_cpu_time_total.tolist() == [0] * 5
    assert frame.has_parent.tolist() == [False] * 5 and frame.flops is None
    whole = EventFrame.from_tree(tree, None, None)
    assert whole.cpu_time_total.tolist() == [10, 3, 1, 4, 10]
    assert whole.self_cpu_time_total.tolist() == [3, 2, 1, 4, 10]


def test_kernels_of_a_table_without_parents_follow_their_rows() -> None:
    columns = {"start_ns": [0, 1, 2, 3], "end_ns": [9, 9, 9, 9], "site": [0, 0, 0, 0]}
    kernels = KernelTable(
        np.array([0, 2, 2, 3]),
        np.array([0, 1, 2, 3]),
        np.zeros(4, int),
        np.array([5, 6, 7, 8]),
        list("abcd"),
    )
    table = EventTable(columns, sites=[Site("op")], kernels=kernels)
    for rows, found in (
        ([2, 3], [(0, 6), (0, 7), (1, 8)]),
        ([3, 2], [(0, 8), (1, 6), (1, 7)]),
        ([1], []),
        (slice(1, 4), [(1, 6), (1, 7), (2, 8)]),
        (np.array([True, False, False, True]), [(0, 5), (1, 8)]),
    ):
        part = table[rows].kernels
        assert part is not None
        assert list(zip(part.row.tolist(), part.duration_ns.tolist(), strict=True)) == found
    assert table[:].kernels is kernels


def test_unknown_coded_columns_are_refused() -> None:
    with pytest.raises(errors.ValueError, match=r"unknown coded column 'colour'\. Use one of "):
        small_table_with({"colour": CodedColumn.encode(["a"] * 5)})


def small_table_with(coded: dict[str, CodedColumn]) -> EventTable:
    whole = small_table()
    return EventTable(whole.to_dict(), sites=whole.sites, coded=coded)
