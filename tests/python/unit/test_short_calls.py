# SPDX-License-Identifier: Apache-2.0
"""Calls shorter than a bound are summed into rows of their parents, and no time is lost."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastprof
from fastprof import CallFilter, EventTable, EventTree, Site, SiteTable, errors, profile
from fastprof.base.native_numbers import Category
from fastprof.decode.short_calls import fold_short_calls
from fastprof.model.columns import NO_PAYLOAD, EventFlag
from fastprof.model.nesting import nest_intervals
from fastprof.model.sites import SHORTER_CALLS
from fastprof.views.python_calls import PythonCallStats

CALL, RANGE = 0, 1
SITES = SiteTable.from_sites(
    [Site("f.py(1): f", category="python_function", mask=Category.PYTHON_CALL.value), Site("range")]
)


def made(rows: list[tuple[int, int, int]], track: list[int] | None = None) -> EventTable:
    """A table of rows (start ns, end ns, CALL or RANGE), parents before children."""
    start, end, site = (np.array(column) for column in zip(*rows, strict=True))
    tracks = np.zeros(len(rows), np.uint32) if track is None else np.array(track, np.uint32)
    return EventTable(
        {
            "start_ns": start, "end_ns": end, "site": site.astype(np.uint32), "track": tracks,
            "parent": nest_intervals(start, end, tracks),
            "payload": np.full(len(rows), NO_PAYLOAD, np.uint32),
            "flags": np.full(len(rows), EventFlag.FINISHED, np.uint8),
        },
        sites=SITES, begin_ordered=True,
    )  # fmt: skip


def found(folded: EventTable) -> list[tuple[Any, ...]]:
    """(name, start, duration, parent, number of calls) of each row; None calls if it is no sum."""
    arguments = folded.coded.get("metadata_json")
    texts = [None] * len(folded) if arguments is None else list(arguments)
    return [
        (folded.name(i), int(folded.start_ns[i]), int(folded.duration_ns[i]),
         int(folded.column("parent")[i]), json.loads(text)["calls"] if text else None)
        for i, text in enumerate(texts)
    ]  # fmt: skip


def test_runs_of_short_calls_become_rows() -> None:
    rows = [
        (0, 100, CALL), (5, 8, CALL), (10, 14, CALL), (11, 13, CALL), (20, 50, CALL), (60, 61, CALL),
        (70, 90, RANGE), (71, 73, CALL), (95, 99, CALL),
    ]  # fmt: skip
    assert found(fold_short_calls(made(rows), 10)) == [
        ("f.py(1): f", 0, 100, -1, None),
        (SHORTER_CALLS, 5, 7, 0, 3),
        ("f.py(1): f", 20, 30, 0, None),
        (SHORTER_CALLS, 60, 1, 0, 1),
        ("range", 70, 20, 0, None),
        (SHORTER_CALLS, 71, 2, 4, 1),
        (SHORTER_CALLS, 95, 4, 0, 1),
    ]


def test_a_call_with_a_range_in_it_is_kept_and_so_are_its_callers() -> None:
    rows = [(0, 9, CALL), (1, 8, CALL), (2, 5, RANGE), (3, 4, CALL), (6, 7, CALL)]
    assert [(name, calls) for name, *_, calls in found(fold_short_calls(made(rows), 10))] == [
        ("f.py(1): f", None), ("f.py(1): f", None), ("range", None), (SHORTER_CALLS, 1), (SHORTER_CALLS, 1),
    ]  # fmt: skip


def test_threads_are_kept_apart() -> None:
    rows = [(0, 3, CALL), (4, 5, CALL), (0, 2, CALL), (6, 7, CALL)]
    folded = fold_short_calls(made(rows, [0, 0, 1, 1]), 10)
    assert found(folded) == [(SHORTER_CALLS, 0, 4, -1, 2), (SHORTER_CALLS, 0, 3, -1, 2)]
    assert folded.column("track").tolist() == [0, 1]


def test_a_table_without_short_calls_is_returned_as_it_is() -> None:
    given = made([(0, 100, CALL), (1, 90, CALL), (2, 3, RANGE)])
    assert fold_short_calls(given, 10) is given


def random_rows(rng: random.Random, size: int) -> list[tuple[int, int, int]]:
    """Nested rows of random lengths: most short, some long."""
    rows: list[tuple[int, int, int]] = []

    def fill(start: int, end: int, depth: int) -> None:
        at = start
        while at < end and len(rows) < size:
            at += rng.randrange(1, 6)
            length = rng.choice((1, 3, 9, 40, 200))
            if at + length >= end:
                return
            rows.append((at, at + length, RANGE if rng.random() < 0.1 else CALL))
            if depth < 8:
                fill(at, at + length, depth + 1)
            at += length

    fill(0, 100_000, 0)
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_no_time_and_no_call_is_lost(seed: int) -> None:
    given = made(random_rows(random.Random(seed), 400))
    bound_ns = 10
    folded = fold_short_calls(given, bound_ns)
    assert len(folded) < len(given)
    before, after = EventTree.of(given), EventTree.of(folded)
    stays = {
        (int(folded.start_ns[i]), int(folded.end_ns[i])): int(after.self_ns[i])
        for i in range(len(folded))
        if folded.name(i) != SHORTER_CALLS
    }
    same = dict(
        zip(zip(given.start_ns.tolist(), given.end_ns.tolist(), strict=True),
            before.self_ns.tolist(), strict=True)
    )  # fmt: skip
    assert stays.items() <= same.items()  # the own time of every row that stays is what it was
    assert int(after.self_ns.sum()) == int(before.self_ns.sum())
    for name, _, duration, _, calls in found(folded):
        assert (name == SHORTER_CALLS) == (calls is not None)
        assert name != "f.py(1): f" or duration >= bound_ns or calls is None
    of_given, of_folded = PythonCallStats(given), PythonCallStats(folded)
    assert sum(f.calls for f in of_folded.functions) == sum(f.calls for f in of_given.functions)
    assert sum(f.own_ns for f in of_folded.functions) == sum(f.own_ns for f in of_given.functions)
    # Rows still nest: none of them reaches over the end of its parent or into a sibling.
    parent = nest_intervals(folded.start_ns, folded.end_ns, folded.column("track"))
    assert parent.tolist() == folded.column("parent").tolist()


def tiny(x: int) -> int:
    return x


def busy() -> int:
    return sum(tiny(i) for i in range(300))


def test_a_profile(tmp_path: Path) -> None:
    chosen = CallFilter(min_duration_us=1e9)
    with profile(python_calls=chosen) as p, fastprof.record_function("range"):
        busy()
    table = p.event_table
    names = {table.name(row) for row in range(len(table))}
    assert SHORTER_CALLS in names and not any("tiny" in name for name in names)
    counted = {f.function: f.calls for f in p.python_calls().functions}
    assert counted[SHORTER_CALLS] >= 600  # tiny and the generator that calls it
    assert f"{counted[SHORTER_CALLS]}" in p.python_calls().table()
    assert p.python_calls().to_pstats().total_calls == sum(counted.values())
    p.export_chrome_trace(str(tmp_path / "t.json"))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    shorter = [e for e in events if e.get("name") == SHORTER_CALLS]
    assert sum(e["args"]["calls"] for e in shorter) == counted[SHORTER_CALLS]
    assert [e.key for e in p.key_averages()] == ["range"]


def test_a_bound_that_is_no_duration_is_refused() -> None:
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(errors.ValueError, match="min_duration_us"):
            CallFilter(min_duration_us=wrong)
