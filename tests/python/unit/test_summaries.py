# SPDX-License-Identifier: Apache-2.0
"""What a notebook and a shell show of a profile: its state, or a line about the recording and the averages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastprof.model.table import EventTable, Site, Track
from fastprof.profiler.summary_html import summary_html, summary_text
from fastprof.views import EventList


def recorded(threads: int, rows: int = 3, name: str = "train", **options: Any) -> Any:
    table = EventTable(
        {"start_ns": range(rows), "end_ns": range(1, rows + 1), "site": [0] * rows, "track": [0] * rows},
        sites=[Site("work")], tracks=[Track(i, tid=i) for i in range(threads)], process_name=name, t1_ns=2_500_000,
    )  # fmt: skip
    return SimpleNamespace(table=table, options=SimpleNamespace(trace_only=False, **options))


def profiler(*results: Any, records: bool = False, **more: Any) -> Any:
    averages = EventList.from_table(results[-1].table).key_averages() if results else None
    fields: dict[str, Any] = {
        "enabled": True, "_stopping": False, "_ended": False, "_results": list(results), "missing": {},
    }  # fmt: skip
    return SimpleNamespace(
        **(fields | more), _records=lambda: records, key_averages=lambda: averages
    )


@pytest.mark.parametrize(
    ("given", "state"),
    [
        (profiler(enabled=False), "disabled: nothing is recorded"),
        (profiler(recorded(1), _stopping=True), "stopping; call stop() again to complete an interrupted stop"),
        (profiler(records=True), "recording; results are there after stop()"),
        (profiler(recorded(1), records=True), "recording again; results are there after stop()"),
        (profiler(), "not started"),
        (profiler(_ended=True), "nothing was recorded"),
    ],
)  # fmt: skip
def test_states(given: Any, state: str) -> None:
    assert summary_text(given) == f"<fastprof.profile: {state}>"
    assert summary_html(given) == f"<p>{state}</p>"


@pytest.mark.parametrize(
    ("results", "line"),
    [
        ([recorded(1)], "train: 3 rows on 1 thread in 2.500ms"),
        ([recorded(0, rows=1, name="")], "profile: 1 row on 1 thread in 2.500ms"),
        ([recorded(3)], "train: 3 rows on 3 threads in 2.500ms"),
        ([recorded(9), recorded(2)], "train: 3 rows on 2 threads in 2.500ms (the last of 2 recordings)"),
    ],
)  # fmt: skip
def test_the_line_of_a_recording(results: list[Any], line: str) -> None:
    given = profiler(*results, missing={"counters": "no permission"})
    lines = summary_text(given).splitlines()
    assert lines[:2] == [line, "not recorded: counters: no permission"]
    assert any("work" in shown for shown in lines[2:])
    html = summary_html(given)
    assert html.startswith(f"<p>{line}</p><p>not recorded: counters: no permission</p><div ")
    assert summary_html(profiler(*results)).startswith(f"<p>{line}</p><div ")


def test_a_recording_without_events() -> None:
    empty = recorded(1, rows=0)
    line = (
        "nothing was recorded in 2.500ms: add ranges with fastprof.record_function, or record calls with "
        "profile(python_calls=True)"
    )
    assert summary_text(profiler(empty)) == line
    assert summary_html(profiler(empty)) == f"<p>{line}</p>"
