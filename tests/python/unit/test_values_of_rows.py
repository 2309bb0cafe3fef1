# SPDX-License-Identifier: Apache-2.0
"""The table that a recorded object, a list or a tree has."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from made_events import built, event

import fastprof
from fastprof import errors
from fastprof.exporters.native_file import table_of
from fastprof.model.table import EventTable, Site
from fastprof.model.tree import EventTree


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
