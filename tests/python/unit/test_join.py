# SPDX-License-Identifier: Apache-2.0
"""join_tables on hand-written tables: rows, sites, tracks, parents and codes keep their meaning."""

from __future__ import annotations

import numpy as np
import pytest

from fastprof import errors
from fastprof.model.join import join_tables
from fastprof.model.table import CodedColumn, EventTable, Site, Track


def table(first_ns: int, **more: object) -> EventTable:
    """Return an outer range, one inside it and one on another track, not in the order of their begins."""
    arguments: dict[str, object] = {
        "sites": [Site("inner"), Site("outer")],
        "tracks": [Track(0, 7, 71), Track(1, 7, 72)],
        "t0_ns": first_ns,
        "t1_ns": first_ns + 100,
    }
    return EventTable(
        {
            "start_ns": [first_ns + 10, first_ns, first_ns + 5],
            "end_ns": [first_ns + 20, first_ns + 50, first_ns + 15],
            "site": [0, 1, 1],
            "track": [0, 0, 1],
        },
        **(arguments | more),  # type: ignore[arg-type]
    )


def test_no_table_is_refused_and_one_is_itself() -> None:
    with pytest.raises(errors.ValueError, match="at least one"):
        join_tables([])
    one = table(0)
    empty = EventTable({"start_ns": [], "end_ns": [], "site": []}, sites=[])
    assert join_tables([one]) is one
    assert join_tables([empty, one, empty]) is one
    assert join_tables([empty, empty]) is empty


def test_rows_sites_tracks_and_parents() -> None:
    joined = join_tables([table(0), table(1000)])
    assert joined.start_ns.tolist() == [10, 0, 5, 1010, 1000, 1005]
    assert [joined.name(row) for row in range(6)] == ["inner", "outer", "outer"] * 2
    assert joined.column("site").tolist() == [0, 1, 1, 2, 3, 3]
    assert joined.column("track").tolist() == [0, 0, 1, 2, 2, 3]
    assert [joined.tracks[track].tid for track in joined.column("track").tolist()] == [
        71,
        71,
        72,
    ] * 2
    assert joined.column("parent").tolist() == [1, -1, -1, 4, -1, -1]


def test_parents_and_end_tracks_that_are_given_are_moved() -> None:
    first, second = table(0), table(1000)
    columns = {"parent": [-1, -1, 0], "end_track": [-1, 1, 0]}
    joined = join_tables([first, second.with_columns(columns), second.with_columns(columns)])
    assert joined.column("parent").tolist() == [1, -1, -1, -1, -1, 3, -1, -1, 6]
    assert joined.column("end_track").tolist() == [-1, -1, -1, -1, 3, 2, -1, 5, 4]


def test_columns_that_one_table_lacks_have_their_default() -> None:
    joined = join_tables([table(0), table(1000).with_columns({"sequence_nr": [4, 5, 6]})])
    assert joined.column("sequence_nr").tolist() == [-1, -1, -1, 4, 5, 6]


def test_codes_point_to_the_values_of_their_table_and_a_missing_code_stays_missing() -> None:
    def coded(*values: str, codes: list[int]) -> dict[str, object]:
        return {"coded": {"overload_name": CodedColumn(np.array(codes, np.int32), values)}}

    joined = join_tables(
        [
            table(0, **coded("a", "b", codes=[1, -1, 0])),
            table(1000),
            table(2000, **coded("c", "b", codes=[0, -1, 1])),
        ]
    )
    column = joined.coded["overload_name"]
    assert [column[row] for row in range(9)] == ["b", None, "a", None, None, None, "c", None, "b"]
    assert column.codes.tolist() == [1, -1, 0, -1, -1, -1, 2, -1, 3]
    assert column.values == ("a", "b", "c", "b")


def test_facts_of_the_tables() -> None:
    joined = join_tables(
        [
            table(0, dropped={"memory": 2}, clock_error_ns=9, pid=1, process_name="x", metadata={"a": 1}),
            table(
                1000, dropped={"memory": 3, "names": 1}, clock_error_ns=4, pid=2, process_name="y"
            ),
        ]
    )  # fmt: skip
    assert joined.dropped == {"memory": 5, "names": 1}
    assert (joined.t0_ns, joined.t1_ns, joined.clock_error_ns) == (0, 1100, 9)
    assert (joined.pid, joined.process_name, joined.metadata) == (2, "y", {})


def test_payload_and_ids_are_left_out() -> None:
    given = table(0, payload_words=[1, 2]).with_columns({"payload": [0, 1, 0], "id": [5, 6, 7]})
    joined = join_tables([given, table(1000)])
    assert not joined.has("payload") and not joined.has("id")
