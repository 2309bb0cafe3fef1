# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks of nested ranges."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fastprof.exporters.range_stacks import collapsed_ranges, export_range_stacks
from fastprof.model.table import EventTable, Site, Track
from fastprof.model.tree import EventTree

NAMES = ["a", "b;c", "d"]
rows_strategy = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(0, 1), st.integers(0, 2)),
    max_size=30,
)


def table_of(rows: list[tuple[int, int, int, int]]) -> EventTable:
    return EventTable(
        {
            "start_ns": np.array([r[0] for r in rows], np.int64),
            "end_ns": np.array([r[0] + r[1] for r in rows], np.int64),
            "track": np.array([r[2] for r in rows], np.uint32),
            "site": np.array([r[3] for r in rows], np.uint32),
        },
        sites=[Site(name) for name in NAMES],
        tracks=[Track(3, name="main"), Track(4)],
    )


@given(rows_strategy, st.booleans())
def test_paths_and_sums_row_by_row(rows: list[tuple[int, int, int, int]], threads: bool) -> None:
    tree = EventTree.of(table_of(rows))
    expected: Counter[str] = Counter()
    for index in range(len(tree)):
        path: list[str] = []
        at = index
        while at >= 0:
            path.append(NAMES[rows[at][3]].replace(";", "_"))
            at = int(tree.parent[at])
        if threads:
            path.append(["main", "thread 4"][rows[index][2]])
        expected[";".join(reversed(path))] += int(tree.self_ns[index])
    got = list(collapsed_ranges(tree, threads=threads))
    assert len({label for label, _ in got}) == len(got)
    assert dict(got) == {label: value for label, value in expected.items() if value > 0}


def test_file(tmp_path: Path) -> None:
    export_range_stacks(table_of([(0, 10, 0, 0), (2, 5, 0, 1)]), tmp_path / "f.txt")
    assert (tmp_path / "f.txt").read_text() == "a 5\na;b_c 5\n"
    export_range_stacks(table_of([]), tmp_path / "none.txt")
    assert (tmp_path / "none.txt").read_text() == ""


def test_threads_are_summed_unless_asked_for(tmp_path: Path) -> None:
    table = table_of([(0, 10, 0, 0), (0, 7, 1, 0)])
    export_range_stacks(table, tmp_path / "sum.txt")
    assert (tmp_path / "sum.txt").read_text() == "a 17\n"
    export_range_stacks(table, tmp_path / "each.txt", threads=True)
    assert (tmp_path / "each.txt").read_text() == "main;a 10\nthread 4;a 7\n"
