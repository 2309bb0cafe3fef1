# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks of the columns of a list: each event a line, or each stack one with the sum if that is too much."""

from __future__ import annotations

import numpy as np
import pytest

from fastprof.exporters import stacks
from fastprof.exporters.stacks import collapsed_stacks
from fastprof.model.table import CodedColumn, EventTable, Site
from fastprof.views import EventList

STACKS = [["leaf", "mid", "root"], ["leaf", "mid", "root"], ["other; x"], None, ["short", "root"], []]  # fmt: skip
LASTING_NS = [2_000, 3_900, 5_000, 7_000, 999, 1_000]


def listed() -> EventList:
    starts = np.arange(len(STACKS)) * 10_000
    table = EventTable(
        {"start_ns": starts, "end_ns": starts + np.array(LASTING_NS), "site": [0] * len(STACKS)},
        sites=[Site("a")], coded={"stack": CodedColumn.encode(STACKS)},
    )  # fmt: skip
    return EventList.from_table(table)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (2 * 13 + 8, ["root;mid;leaf 2", "root;mid;leaf 3", "other__x 5"]),
        (2 * 13 + 7, ["root;mid;leaf 5", "other__x 5"]),
        (0, ["root;mid;leaf 5", "other__x 5"]),
    ],
)
def test_stacks_are_summed_if_there_is_too_much_text(
    monkeypatch: pytest.MonkeyPatch, most: int, expected: list[str]
) -> None:
    monkeypatch.setattr(stacks, "_MAX_CHARS", most)
    assert list(collapsed_stacks(listed(), "self_cpu_time_total")) == expected
