# SPDX-License-Identifier: Apache-2.0
"""Traces of hand-written tables: each row's site, parent, payload and args."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastprof import errors
from fastprof.decode.consolidate import table_of
from fastprof.exporters import trace_writers
from fastprof.exporters.trace_writers import write_chrome_trace
from fastprof.model.table import CodedColumn, EventFlag, EventKind, EventTable, Site, Track

NONE = 0xFFFFFFFF
FLAG = int(EventFlag.FINISHED)


def events(table: EventTable, path: Path) -> list[dict[str, Any]]:
    write_chrome_trace(table, path)
    found: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return [event for event in found if event["ph"] != "M" and event.get("cat") != "Trace"]


def test_args_of_a_trace_beside_strings_and_words_of_the_capture(tmp_path: Path) -> None:
    """Texts of args are stored after the table's own strings, their words after the table's own words."""
    mark = Site("mark", arg_names=("text", "n"), arg_types=(4, 0), kind=int(EventKind.MARK))
    table = EventTable(
        {
            "start_ns": [0, 10, 20, 30],
            "end_ns": [90, 10, 25, 35],
            "site": [0, 1, 0, 0],
            "kind": [0, EventKind.MARK, 0, 0],
            "flags": [FLAG] * 4,
            "payload": [NONE, 0, NONE, NONE],
        },
        sites=[Site("range"), mark],
        tracks=[Track(0, 7, 71)],
        strings=("first", "second"),
        payload_words=[1, 5],
        coded={
            "metadata_json": CodedColumn(
                np.array([1, 0, 0, -1], np.int32), ('{"k": 1}', '{"k": 2}')
            )
        },
    )
    seen = {event["ts"]: event["args"] for event in events(table, tmp_path / "t.json")}
    assert [seen[ts].get("k") for ts in (0, 0.01, 0.02, 0.03)] == [2, None, 1, None]
    assert seen[0.01]["text"] == "second" and seen[0.01]["n"] == 5


def test_sites_take_the_kind_of_their_rows(tmp_path: Path) -> None:
    """One site has rows of three kinds, none of which is the site's own."""
    table = EventTable(
        {
            "start_ns": [0, 10, 20, 30],
            "end_ns": [9, 10, 29, 30],
            "site": [1, 0, 1, 1],
            "kind": [0, EventKind.MARK, EventKind.ASYNC_RANGE, EventKind.MARK],
            "flags": [FLAG] * 4,
        },
        sites=[Site("other", kind=int(EventKind.MARK)), Site("name", kind=int(EventKind.COUNTER))],
    )
    found = [
        (event["ts"], event["ph"], event["name"]) for event in events(table, tmp_path / "t.json")
    ]
    assert sorted(found) == [
        (0, "X", "name"), (0.01, "i", "other"), (0.02, "X", "name"), (0.03, "i", "name"),
    ]  # fmt: skip


def test_metadata_is_written_again_but_for_what_the_writer_makes_itself(tmp_path: Path) -> None:
    metadata = {
        "format": "chrome", "skipped_events": {"a": 1}, "skipped_packets": {"b": 2}, "traceEvents": [],
        "user": {"x": [1]}, "odd": float("nan"), 5: "number",
    }  # fmt: skip
    table = EventTable(
        {"start_ns": [0], "end_ns": [5], "site": [0]}, sites=[Site("a")], metadata=metadata
    )
    write_chrome_trace(table, tmp_path / "t.json")
    trace = json.loads((tmp_path / "t.json").read_text())
    assert trace["user"] == {"x": [1]} and trace["odd"] == "nan" and trace["5"] == "number"
    assert {"format", "skipped_events", "skipped_packets"}.isdisjoint(trace)
    assert len(trace["traceEvents"]) > 0


def test_more_arguments_than_a_trace_can_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for limit, fits in ((8, True), (7, False)):  # one word, and two blocks of three
        monkeypatch.setattr(trace_writers, "NO_PAYLOAD", limit)
        table = EventTable(
            {"start_ns": [0, 1], "end_ns": [5, 6], "site": [0, 0], "payload": [limit, limit]},
            sites=[Site("a")],
            payload_words=[1],
            coded={"metadata_json": CodedColumn(np.array([0, 0], np.int32), ('{"k": 1}',))},
        )
        if fits:
            trace_writers._payload(table, np.arange(2), np.zeros(2, np.uint8))
            continue
        with pytest.raises(errors.ValueError, match="arguments of the table exceed"):
            write_chrome_trace(table, tmp_path / "t.json")


def test_a_capture_and_the_table_of_it_have_the_facts_of_the_table() -> None:
    table = EventTable(
        {"start_ns": [5], "end_ns": [9], "site": [0], "track": [0]},
        sites=[Site("a", "cpu_op", "f.py", "work", 12)],
        tracks=[Track(0, 7, 71, "worker")],
        t0_ns=1,
        t1_ns=20,
        clock_error_ns=33,
        pid=7,
        process_name="program",
    )
    again = table_of(trace_writers.capture_of_table(table), metadata={"k": 1})
    assert (again.t0_ns, again.t1_ns, again.clock_error_ns) == (1, 20, 33)
    assert (again.pid, again.process_name, again.metadata) == (7, "program", {"k": 1})
    assert again.sites[0][:5] == ("a", "cpu_op", "f.py", "work", 12)
    assert again.tracks[0][1:4] == (7, 71, "worker")
