# SPDX-License-Identifier: Apache-2.0
"""Columns of the HTML report on hand-written tables: numbers, flags, arrows, values, marks, processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_tables import made, written
from trace_tables import T0

import fastprof
from fastprof.model.columns import CodedColumn
from fastprof.model.table import EventFlag, EventTable
from fastprof.views import EventList


def test_flags_of_rows(tmp_path: Path) -> None:
    finished, other, around = (
        int(flag) for flag in (EventFlag.FINISHED, EventFlag.CROSS_THREAD_END, EventFlag.ENCLOSING)
    )
    given = [finished, 0, finished | other, finished | around, other | around]
    table = made([(10 * i, 10 * i + 5, 0, 0) for i in range(5)], columns={"flags": given})
    found = written(table, tmp_path).rows()
    by_start = dict(zip(found["start"].tolist(), found["flags"].tolist(), strict=True))
    assert by_start == {0: 0, 10: 1, 20: 2, 30: 4, 40: 7}
    whole = made([(10 * i, 10 * i + 5, 0, 0) for i in range(5)], columns={"flags": [finished] * 5})
    assert written(whole, tmp_path).rows()["flags"].tolist() == [0] * 5


def test_arrows_from_launches_to_device_activities(tmp_path: Path) -> None:
    rows = [(0, 10, 0, 0), (20, 30, 1, 0), (40, 50, 2, 1), (60, 70, 3, 1)]
    given = {"external_id": [7, 1, 0, 0], "linked_correlation_id": [0, 0, 1, 7]}
    flows = written(made(rows, columns=given), tmp_path).block("flows")
    arrows = zip(flows["from_time"].tolist(), flows["to_time"].tolist(), strict=True)
    assert sorted(arrows) == [(0, 60), (20, 40)]


def test_arrows_from_forward_to_backward(tmp_path: Path) -> None:
    rows = [(0, 10, 0, 0), (20, 30, 1, 1), (40, 50, 2, 0)]
    given = {"sequence_nr": [3, 3, -1], "fwd_thread": [0, 1, 0]}
    table = made(rows, columns=given)
    sites = [fastprof.Site("a", category="cpu_op", scope=0), fastprof.Site("b", scope=1)]
    table = EventTable(
        table.to_dict(), sites=[*sites, fastprof.Site("c")], t0_ns=T0,
        tracks=[fastprof.Track(1), fastprof.Track(2)],
    )  # fmt: skip
    flows = written(table, tmp_path).block("flows")
    assert (flows["from_time"].tolist(), flows["to_time"].tolist()) == ([0], [20])


def test_arrows_of_the_flow_columns(tmp_path: Path) -> None:
    columns = {"flow_id": [5, 0, 5, 9], "flow_start": [True, True, False, False]}
    table = made([(0, 10, 0, 0), (20, 30, 1, 0), (40, 50, 2, 1), (60, 70, 3, 0)], columns=columns)
    data = written(EventList.from_table(table), tmp_path)
    assert data.head["flows"] == 1  # 9 has no begin, 0 is no arrow
    flows, names = data.block("flows"), data.names()
    assert [names[flows[end][0] - 1] for end in ("from_row", "to_row")] == ["a", "c"]


def test_processes_of_the_page(tmp_path: Path) -> None:
    told = [{"pid": 9, "name": "worker" * 50}, {"pid": "x", "name": "no"}, "odd", {"pid": 10}]
    table = made([(0, 1, 0, 0)], metadata={"processes": told}, pid=7, process_name="main")
    data = written(EventList.from_table(table), tmp_path)
    found = data.head["processes"]
    assert {pid: name[:6] for pid, name in found.items()} == {"7": "main", "9": "worker", "10": ""}
    assert found["9"].startswith("worker" * 33) and len(found["9"]) < 300
    odd = made([(0, 1, 0, 0)], metadata={"processes": 3}, pid=7, process_name="main")
    assert written(EventList.from_table(odd), tmp_path).head["processes"] == {"7": "main"}


def test_a_list_of_objects_has_a_report(tmp_path: Path) -> None:
    events = EventList.from_table(made([(0, 10_000, 0, 0), (2_000, 5_000, 1, 0)]))
    data = written(EventList(list(events)), tmp_path)
    assert data.names() == ["a", "b"]


def test_values_that_take_too_much_room_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastprof.report.details.MAX_VALUE_CHARS", 9)
    shapes = CodedColumn.encode([[[1]], [[2]], [[1]], [[345]], []])
    rows = [(10 * i, 10 * i + 5, 0, 0) for i in range(5)]
    data = written(made(rows).with_columns(coded={"input_shapes": shapes}), tmp_path)
    (column,) = data.text("values")["columns"]
    assert column["values"] == ["[[1]]"]  # a further one would exceed 9 characters
    assert data.block("values")["input_shapes"].tolist() == [1, 0, 1, 0, 0]
    note = "input shapes of 3 rows are not in this report; those of 2 rows are"
    assert note in data.head["notes"]
