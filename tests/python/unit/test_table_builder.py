# SPDX-License-Identifier: Apache-2.0
"""TableBuilder: rows, sites, tracks and columns as they are added, and an upper bound of their memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from fastprof import Site
from fastprof.importers.table_builder import TableBuilder
from fastprof.model.columns import NO_PAYLOAD
from fastprof.model.table import EventFlag, EventKind


def test_rows_have_what_they_were_added_with() -> None:
    builder = TableBuilder()
    site = builder.site_of(Site("a"))
    track = builder.track_of("t", 7, 8)
    assert builder.add(EventKind.RANGE, 5, 9, site, track) == 0
    assert builder.add(EventKind.MARK, -1, -1, site, track, 0, builder.add_words(3, -1)) == 1
    assert len(builder) == 2
    table = builder.finish(pid=7)
    assert table.start_ns.tolist() == [5, -1] and table.end_ns.tolist() == [9, -1]
    assert table.column("kind").tolist() == [EventKind.RANGE, EventKind.MARK]
    assert table.column("flags").tolist() == [int(EventFlag.FINISHED), 0]
    assert table.column("payload").tolist() == [NO_PAYLOAD, 0]
    assert table.payload_words is not None
    assert table.payload_words.tolist() == [3, (1 << 64) - 1]
    assert table.pid == 7
    for wrong in ((1 << 63, 0), (0, 1 << 63), (-(1 << 63) - 1, 0), (0, -(1 << 63) - 1)):
        with pytest.raises(OverflowError, match="64 bits"):
            builder.add(0, *wrong, site, track)
    builder = TableBuilder()
    builder.add(0, -(1 << 63), (1 << 63) - 1, builder.site_of(Site("a")), 0)


def test_equal_sites_and_known_tracks_are_found_again() -> None:
    builder = TableBuilder()
    assert [builder.site_of(Site(name)) for name in ("a", "b", "a")] == [0, 1, 0]
    assert builder.site_at(1) == Site("b")
    assert [builder.track_of(key, 1, 2) for key in ("x", "y", "x")] == [0, 1, 0]
    assert builder.known_track("y") == 1 and builder.known_track("z") is None
    builder.name_track(1, "worker")
    assert [(t.id, t.pid, t.tid, t.name) for t in builder.tracks] == [
        (0, 1, 2, ""), (1, 1, 2, "worker"),
    ]  # fmt: skip


def test_whole_arrays_of_ranges() -> None:
    builder = TableBuilder()
    builder.site_of(Site("a"))
    builder.track_of("t", 1, 2)
    builder.extend(np.array([1, 2]), np.array([3, 4]), np.array([0, 0]), np.array([0, 0]))
    table = builder.finish()
    assert table.start_ns.tolist() == [1, 2] and table.end_ns.tolist() == [3, 4]
    assert not table.has("kind") and not table.has("payload") and table.payload_words is None
    assert table.column("flags").tolist() == [int(EventFlag.FINISHED)] * 2


def test_columns_of_some_rows() -> None:
    builder = TableBuilder()
    for row in range(5):
        builder.add(0, row, row, builder.site_of(Site("a")), 0)
    builder.put("id", 1, 1 << 70, -1)
    builder.put("id", 3, -(1 << 70), -1)
    builder.put("id", 1, 8, -1)
    builder.put("sequence_nr", 0, 4, -9)
    builder.code("stack", 2, "f", ("f",))
    table = builder.finish()
    assert table.column("id").tolist() == [-1, 8, -1, -(1 << 63), -1]
    assert table.column("sequence_nr").tolist() == [4, -9, -9, -9, -9]
    assert [table.coded["stack"][row] for row in range(5)] == [None, None, ("f",), None, None]


def test_tracks_may_be_renumbered() -> None:
    builder = TableBuilder()
    for key in "abc":
        builder.add(0, 1, 2, builder.site_of(Site("a")), builder.track_of(key, 1, 1))
    assert builder.finish().column("track").tolist() == [0, 1, 2]
    moved = builder.finish(track_map={0: 2, 2: 0})
    assert moved.column("track").tolist() == [2, 1, 0]


def many_rows(builder: TableBuilder) -> None:
    for row in range(20_000):
        builder.add(0, row, row, 0, 0)


def many_columns(builder: TableBuilder) -> None:
    for column in range(64):
        builder.put(f"number {column}", 999, 1, 0)
    for row in range(1000):
        builder.add(0, row, row, 0, 0)


def many_codes(builder: TableBuilder) -> None:
    for column in range(128):
        builder.code(f"code {column}", 999, "text", "text")
    for row in range(1000):
        builder.add(0, row, row, 0, 0)


def many_words(builder: TableBuilder) -> None:
    builder.add_words(*([1 << 63] * 50_000))


def many_sites(builder: TableBuilder) -> None:
    for number in range(2000):
        builder.site_of(Site(f"{number} \u00e9\u20ac" * 20, category=f"{number}" * 9))


def many_tracks(builder: TableBuilder) -> None:
    for number in range(2000):
        builder.track_of((number, number), number, number)


@pytest.mark.parametrize(
    "fill", [many_rows, many_columns, many_codes, many_words, many_sites, many_tracks]
)
def test_the_estimate_is_an_upper_bound_and_not_ten_times_too_high(
    fill: Callable[[TableBuilder], None],
) -> None:
    builder = TableBuilder()
    fill(TableBuilder())  # what only the first run allocates
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        fill(builder)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # An array has room for up to a sixteenth more than it contains.
    assert used * 16 / 17 <= builder.estimate_bytes() <= 10 * used
