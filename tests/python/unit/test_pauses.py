# SPDX-License-Identifier: Apache-2.0
"""Rows of a table that began while collection was switched off are left out."""

from __future__ import annotations

import pytest

from fastprof.decode.consolidate import without_pauses
from fastprof.model.table import EventTable, Site


@pytest.mark.parametrize(
    ("pauses", "kept"),
    [
        ([], [10, 20, 30, 40]),
        ([(20, 30)], [10, 30, 40]),  # from its begin up to, not including, its end
        ([(11, 20)], [10, 20, 30, 40]),
        ([(30, None)], [10, 20]),
        ([(0, 11), (35, None)], [20, 30]),
        ([(0, 41)], []),
    ],
)
def test_rows_that_began_in_a_pause(pauses: list[tuple[int, int | None]], kept: list[int]) -> None:
    starts = [10, 20, 30, 40]
    table = EventTable(
        {"start_ns": starts, "end_ns": [100] * 4, "site": [0] * 4}, sites=[Site("a")]
    )
    assert without_pauses(table, pauses).start_ns.tolist() == kept
