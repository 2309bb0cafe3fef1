# SPDX-License-Identifier: Apache-2.0
"""Unions of intervals, paths of names and arrows of flows, each against the rule written out."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprof.analysis.intervals import covered_ns, union_of
from fastprof.importers.flow_links import FlowLinks, FlowStep
from fastprof.importers.table_builder import TableBuilder
from fastprof.model.name_paths import name_paths
from fastprof.model.table import EventKind, EventTable, Site
from fastprof.model.tree import EventTree

PAIRS = st.lists(st.tuples(st.integers(-20, 20), st.integers(-3, 9)), max_size=12)


def columns(pairs: list[tuple[int, int]]) -> tuple[Any, Any]:
    start = np.array([begin for begin, _ in pairs], np.int64)
    return start, start + np.array([length for _, length in pairs], np.int64)


@given(PAIRS, PAIRS)
def test_unions_and_what_they_cover(
    pairs: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    covered = {ns for begin, length in pairs for ns in range(begin, begin + length)}
    starts, ends = union_of(*columns(pairs))
    assert (ends > starts).all() and (starts[1:] > ends[:-1]).all()
    assert starts.dtype == ends.dtype == np.int64
    assert {
        ns for a, b in zip(starts.tolist(), ends.tolist(), strict=True) for ns in range(a, b)
    } == covered
    found = covered_ns(*columns(others), (starts, ends))
    assert found.dtype == np.int64
    assert found.tolist() == [
        len(covered & set(range(begin, begin + length))) for begin, length in others
    ]


@given(st.lists(st.tuples(st.integers(-1, 30), st.integers(0, 3), st.integers(0, 2)), max_size=30))
def test_paths_of_names(rows: list[tuple[int, int, int]]) -> None:
    """(parent, name, head) of each row; parents come before their children."""
    parents = [min(parent, i - 1) for i, (parent, _, _) in enumerate(rows)]
    names = np.array([name for _, name, _ in rows], np.int32)
    heads = np.array([head for _, _, head in rows], np.int64)
    size = len(rows)
    table = EventTable(
        {"start_ns": np.zeros(size, np.int64), "end_ns": np.arange(size), "site": [0] * size,
         "parent": np.array(parents, np.int32)},
        sites=[Site("a")],
    )  # fmt: skip
    tree = EventTree(table, None, np.array(parents, np.int32))
    paths = name_paths(tree, names, 4, heads)
    expected: list[tuple[int, ...]] = []
    for i, parent in enumerate(parents):
        above = expected[parent] if parent >= 0 else (rows[i][2],)
        expected.append((*above, rows[i][1]))
    assert len(paths) == len(set(expected))

    def path_of(number: int) -> tuple[int, ...]:
        parent = int(paths.parent[number])
        above = path_of(parent) if parent >= 0 else (int(paths.head[number]),)
        return (*above, int(paths.name[number]))

    assert [path_of(number) for number in paths.of_row.tolist()] == expected
    for number in range(len(paths)):
        path = path_of(number)
        assert (int(paths.depth[number]), int(paths.head[number])) == (len(path) - 2, path[0])
        assert int(paths.parent[number]) < number
    counts = Counter(expected)
    assert {path_of(i): n for i, n in enumerate(paths.count.tolist())} == counts
    values = np.arange(size) * 10
    sums: dict[tuple[int, ...], int] = defaultdict(int)
    for path, value in zip(expected, values.tolist(), strict=True):
        sums[path] += value
    assert {path_of(i): n for i, n in enumerate(paths.sums(values).tolist())} == sums
    without = name_paths(tree, names, 4)
    assert len(without) == len({path[1:] for path in expected}) and not without.head.any()


P, B, C, E, A = FlowStep.PASS, FlowStep.BEGIN, FlowStep.CONTINUE, FlowStep.END, FlowStep.ARRIVE


@pytest.mark.parametrize(
    ("steps", "rows", "skipped"),
    [
        ([P, P, P], "b eb eb", {}),
        ([B, C, E], "b eb e", {}),
        ([P, E, P, E], "b e b e", {}),  # the id is used again
        ([B, A, A, C, E], "b e e eb e", {}),  # older arrows leave the flow active
        ([B, B, E], "b - e", {"flow that begins twice": 1}),
        ([E, C, A, P], "- - - b", {"flow that ends without a begin": 3}),
        ([B, E, E], "b e -", {"flow that ends without a begin": 1}),
    ],
)
def test_arrows_of_a_flow(steps: list[FlowStep], rows: str, skipped: dict[str, int]) -> None:
    builder, counted = TableBuilder(), Counter[str]()
    links = FlowLinks(builder, counted)
    assert links.estimate_bytes() == 0
    for at in reversed(range(len(steps))):  # in any order of the file
        links.add(at * 10, 5, steps[at], f"n{at}", "cat", at % 2)
        links.add(at * 10, 6, FlowStep.END, "other", "cat", 0)
    links.finish()
    expected = [
        (
            at * 10,
            int(EventKind.FLOW_END if letter == "e" else EventKind.FLOW_BEGIN),
            f"n{at}",
            at % 2,
            5,
        )
        for at, word in enumerate(rows.split())
        for letter in word.strip("-")
    ]
    found = [
        (start, builder.site_at(site).kind, builder.site_at(site).name, track, builder.words[payload])
        for start, site, track, payload in zip(
            builder.start, builder.site, builder.track, builder.payload, strict=True
        )
    ]  # fmt: skip
    assert found == expected
    lone = "flow that ends without a begin"
    assert counted == Counter(skipped) + Counter({lone: len(steps)})
    assert links.estimate_bytes() >= 29 * 2 * len(steps)


def test_numbers_of_named_flows() -> None:
    links = FlowLinks(TableBuilder(), Counter())
    numbers = [links.named_id(key) for key in ("a", ("a", 1), "a", "b")]
    assert numbers[0] == numbers[2] and len(set(numbers)) == 3
    assert [n - numbers[0] for n in numbers] == [0, 1, 0, 2]
