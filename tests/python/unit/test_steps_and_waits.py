# SPDX-License-Identifier: Apache-2.0
"""Steps of a recording, the self times in them, and which names are waits: on hand-written tables."""

from __future__ import annotations

import pytest

import fastprof
from fastprof.analysis.named_rows import NamedRows
from fastprof.analysis.steps import StepTimes
from fastprof.analysis.wait_kinds import KINDS, kinds_of_rows
from fastprof.analysis.waits import find_waits

Row = tuple[str, int, int, int]  # name, start, end, track


def rows_of(*rows: Row) -> NamedRows:
    names = list(dict.fromkeys(row[0] for row in rows))
    return NamedRows(
        fastprof.EventTable(
            {
                "start_ns": [row[1] for row in rows],
                "end_ns": [row[2] for row in rows],
                "site": [names.index(row[0]) for row in rows],
                "track": [row[3] for row in rows],
            },
            sites=[fastprof.Site(name) for name in names],
            tracks=[fastprof.Track(11, name="main"), fastprof.Track(12)],
        )
    )


def spans(times: StepTimes) -> list[tuple[int, int]]:
    return list(zip(times.start.tolist(), times.end.tolist(), strict=True))


def test_steps_are_the_outermost_ranges_of_their_name() -> None:
    rows = rows_of(
        ("ProfilerStep#2", 50, 90, 0), ("ProfilerStep#1", 0, 40, 0), ("ProfilerStep#7", 10, 20, 0),
        ("ProfilerStep#x", 200, 210, 0), ("a ProfilerStep#3", 300, 310, 0),
    )  # fmt: skip
    times = StepTimes(rows)
    assert spans(times) == [(0, 40), (50, 90)] and len(times) == len(times.rows) == 2
    assert [rows.name(int(row)) for row in times.rows] == ["ProfilerStep#1", "ProfilerStep#2"]
    assert spans(StepTimes(rows, "ProfilerStep#x")) == [(200, 210)]
    assert times.duration.tolist() == [40, 40]


def test_steps_are_of_the_thread_that_has_most() -> None:
    rows = rows_of(
        ("step", 0, 10, 0), ("step", 20, 30, 1), ("step", 40, 50, 1), ("other", 0, 500, 0)
    )
    times = StepTimes(rows, "step")
    assert (spans(times), times.thread) == ([(20, 30), (40, 50)], 12)


def test_without_steps_the_whole_recording_of_the_busiest_thread_is_one() -> None:
    rows = rows_of(("a", 5, 10, 0), ("b", 20, 40, 1), ("c", 30, 39, 1), ("d", 60, 61, 1))
    times = StepTimes(rows)
    assert (spans(times), times.thread, len(times.rows), len(times)) == ([(20, 61)], 12, 0, 1)


def test_self_times_by_step_and_name() -> None:
    rows = rows_of(
        ("step", 0, 100, 0), ("load", 10, 40, 0), ("read", 20, 30, 0), ("load", 50, 60, 0),
        ("step", 100, 200, 0), ("load", 110, 115, 0), ("elsewhere", 0, 200, 1),
    )  # fmt: skip
    times = StepTimes(rows, "step")
    names = [rows.names[code] for code in times.names.tolist()]
    by_name = {name: times.self_ns[:, column].tolist() for column, name in enumerate(names)}
    assert by_name["load"] == [30, 5] and by_name["read"] == [10, 0]
    assert "elsewhere" not in by_name
    totals = times.self_ns.sum(axis=0).tolist()
    assert totals == sorted(totals, reverse=True)
    assert times.unmeasured_ns.tolist() == [60, 95]
    assert times.step_of.tolist() == [0, 0, 0, 0, 1, 1, -1]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaDeviceSynchronize", "waiting for the device"),
        ("<built-in method acquire of _thread.lock object>", "waiting for another thread"),
        ("<built-in method __exit__ of _thread.lock object>", ""),
        ("<built-in method release of _thread.lock object>", ""),
        ("forward", ""),
    ],
)
def test_kinds_of_waits(name: str, kind: str) -> None:
    number = int(kinds_of_rows(rows_of((name, 0, 1, 0)))[0])
    assert (KINDS[number].what if number >= 0 else "") == kind


def test_only_outermost_waits_within_steps_count() -> None:
    acquire = "<built-in method acquire of _thread.lock object>"
    rows = rows_of(
        ("step", 0, 100, 0), (acquire, 10, 30, 0), (acquire, 12, 20, 0), (acquire, 40, 45, 0),
        ("cudaDeviceSynchronize", 50, 95, 0), (acquire, 150, 190, 0), (acquire, 0, 90, 1),
        ("writer", 5, 28, 1), ("inner", 12, 29, 1),
    )  # fmt: skip
    device, thread = find_waits(StepTimes(rows, "step"))
    assert (device.ns, thread.ns) == (45, 25)
    assert [int(rows.start[row]) for row in thread.rows] == [10, 40]
    assert thread.meanwhile == "thread 12 ran inner"  # for 17 of the 18 ns that writer ran
    assert device.meanwhile == ""


def test_garbage_collection_in_a_step_is_a_wait() -> None:
    rows = rows_of(
        ("step", 0, 100, 0), ("Python GC", 10, 30, 0), ("Python GC", 150, 190, 0),
    )  # fmt: skip
    (wait,) = find_waits(StepTimes(rows, "step"))
    assert (wait.what, wait.rows.tolist(), wait.ns) == ("garbage collection", [1], 20)
