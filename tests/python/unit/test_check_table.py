# SPDX-License-Identifier: Apache-2.0
"""check_indices: each column of indices, with its largest valid value and with its smallest invalid one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastprof import errors
from fastprof.importers.check_table import check_indices
from fastprof.model.table import CodedColumn, EventKind, EventTable, KernelTable, Site, Track

SITES = [Site("a"), Site("two words", arg_names=("x", "y"), arg_types=(0, 2))]
TRACKS = [Track(0), Track(1)]


def table(columns: dict[str, Any] | None = None, **more: Any) -> EventTable:
    given = {"start_ns": [0, 1, 2], "end_ns": [9, 8, 7], "site": [0, 0, 0]}
    return EventTable(given | (columns or {}), sites=SITES, **({"tracks": TRACKS} | more))


def refused(row: int, what: str, *arguments: Any, **more: Any) -> None:
    with pytest.raises(errors.FormatError) as caught:
        check_indices(table(*arguments, **more), "file")
    assert str(caught.value) == f"file: row {row}: {what}"


def test_indices_of_sites_and_tracks() -> None:
    check_indices(table({"site": [1, 0, 1], "track": [0, 1, 1], "end_track": [-1, 0, 1]}), "file")
    refused(2, "site is not the index of a site", {"site": [1, 0, 2]})
    refused(1, "track is not the index of a track", {"track": [1, 2, 0]})
    refused(0, "end_track is not the index of a track", {"end_track": [2, 0, 0]})
    check_indices(table({"track": [5, 6, 7], "end_track": [0, -1, 0]}, tracks=[]), "file")
    refused(0, "end_track is not the index of a track", {"end_track": [1, 0, 0]}, tracks=[])


def test_kinds() -> None:
    last = int(max(EventKind))
    check_indices(table({"kind": [0, 1, last]}), "file")
    refused(2, "kind is not an EventKind", {"kind": [0, 1, last + 1]})


def test_parents() -> None:
    check_indices(table({"parent": [-1, 0, 1]}), "file")
    check_indices(table({"parent": [2, 0, -1]}), "file")  # in any order
    refused(0, "parent is not the index of a row", {"parent": [-2, 0, 0]})
    refused(1, "parent is not the index of a row", {"parent": [-1, 3, 0]})
    refused(0, "parent is not an earlier row", {"parent": [2, 0, -1]}, begin_ordered=True)
    refused(1, "parent is not an earlier row", {"parent": [-1, 2, 0]}, begin_ordered=True)
    check_indices(table({"parent": [-1, 0, 1]}, begin_ordered=True), "file")


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9, 100])
def test_rings_of_parents(size: int) -> None:
    rows = {"start_ns": range(size), "end_ns": range(size), "site": [0] * size}
    ring = [*range(1, size), 0]
    with pytest.raises(errors.FormatError, match="row 0: its parents form a cycle"):
        check_indices(EventTable({**rows, "parent": ring}, sites=SITES), "file")
    chain = [*range(1, size), -1]  # as long, but it ends
    check_indices(EventTable({**rows, "parent": chain}, sites=SITES), "file")


def test_a_ring_away_from_the_first_row_is_named() -> None:
    refused(1, "its parents form a cycle", {"parent": [-1, 2, 1]})


def test_codes() -> None:
    for code, good in ((-1, True), (1, True), (2, False)):
        codes = CodedColumn(np.array([0, code, 0], np.int32), ("x", "y"))
        if good:
            check_indices(table(coded={"overload_name": codes}), "file")
        else:
            refused(1, "overload_name is not the index of a value", coded={"overload_name": codes})


def kernels(row: list[int], name: list[int], device: int = 2) -> KernelTable:
    return KernelTable(
        np.array(row, np.int64),
        np.array(name, np.int32),
        np.zeros(device, np.int32),
        np.zeros(2, np.int64),
        ("k", "l"),
    )


def test_kernels() -> None:
    check_indices(table(kernels=kernels([0, 2], [0, 1])), "file")
    check_indices(table(kernels=kernels([1, 1], [1, 0])), "file")
    for bad, first in (
        (kernels([0, 3], [0, 1]), 1),
        (kernels([-1, 2], [0, 1]), 0),
        (kernels([0, 2], [0, 2]), 1),
        (kernels([0, 2], [-1, 1]), 0),
        (kernels([2, 1], [0, 1]), 1),
    ):
        refused(first, "kernels has an invalid index or is out of order", kernels=bad)
    with pytest.raises(errors.FormatError, match="the columns of kernels differ in length"):
        check_indices(table(kernels=kernels([0, 2], [0, 1], device=1)), "file")


NONE = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("kind", "site", "words"),
    [
        (EventKind.COUNTER, 0, 1),
        (EventKind.FLOW_BEGIN, 0, 1),
        (EventKind.FLOW_END, 0, 1),
        (EventKind.MEMORY, 0, 4),
        (EventKind.OUT_OF_MEMORY, 0, 3),
        (EventKind.MARK, 1, 2),
        (EventKind.RANGE, 1, 2),
        (EventKind.RANGE, 0, 0),
    ],
)
def test_payload_lies_within_the_words(kind: EventKind, site: int, words: int) -> None:
    def given(payload: int, count: int) -> tuple[dict[str, Any], Any]:
        columns = {"kind": [0, kind, 0], "site": [0, site, 0], "payload": [NONE, payload, NONE]}
        return columns, np.zeros(count, np.uint64)

    columns, payload_words = given(3, 3 + words)
    check_indices(table(columns, payload_words=payload_words), "file")
    columns, payload_words = given(3, 2 + words)
    refused(1, "payload lies outside payload_words", columns, payload_words=payload_words)
    if words:
        refused(1, "payload lies outside payload_words", given(0, 0)[0])
