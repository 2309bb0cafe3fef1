# SPDX-License-Identifier: Apache-2.0
"""What recording costs, measured and taken out of the times."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof import errors
from fastprof.cli.main import main

COST = {
    "range": {"inside_ns": 1000, "outside_ns": 500},
    "call": {"inside_ns": 100, "outside_ns": 200},
}


def trace(path: Path, events: list[tuple[str, str, int, float, float]], **members: Any) -> Path:
    """A Chrome trace of (category, name, thread, begin in us, end in us)."""
    rows = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": end - begin}
        for category, name, thread, begin, end in events
    ]  # fmt: skip
    path.write_text(json.dumps({"traceEvents": rows, **members}))
    return path


EVENTS = [
    ("user_annotation", "outer", 1, 0, 100),
    ("user_annotation", "inner", 1, 10, 20),
    ("python_function", "a.py(1): f", 1, 12, 15),
    ("user_annotation", "inner", 1, 30, 40),
    ("user_annotation", "next", 1, 110, 120),
    ("user_annotation", "tiny", 1, 130, 130.2),
    ("user_annotation", "other thread", 2, 50, 60),
]


def test_each_event_takes_its_cost_from_all_around_it(tmp_path: Path) -> None:
    table = fastprof.load(trace(tmp_path / "t.json", EVENTS, event_cost=COST)).without_overhead()
    origin = int(table.start_ns.min())
    found = [
        (table.name(row), int(table.start_ns[row]) - origin, int(table.duration_ns[row]))
        for row in range(len(table))
    ]
    assert sorted(found, key=lambda each: each[1]) == [
        ("outer", 0, 100000 - 1000 - 2 * 1500 - 300),
        ("inner", 9000, 10000 - 1000 - 300),
        ("a.py(1): f", 10000, 2900),
        ("inner", 30000 - 1000 - 1500 - 300, 9000),
        ("other thread", 50000, 9000),
        ("next", 110000 - 3 * 1500 - 300, 9000),
        ("tiny", 130000 - 4 * 1500 - 300, 0),
    ]


def test_report_subtracts_and_says_so(tmp_path: Path, capsys: Any) -> None:
    path = str(trace(tmp_path / "t.json", EVENTS, event_cost=COST))
    assert main(["report", path, "--subtract-overhead", "--time-unit", "us"]) == 0
    out = capsys.readouterr().out
    assert "95.700us" in out and "taken out" in out
    other = str(trace(tmp_path / "u.json", EVENTS))
    assert main(["report", other, "--subtract-overhead"]) == 2
    assert "--calibrate" in capsys.readouterr().err


@pytest.mark.parametrize("cost", [[], {"range": {}}, {"range": {"inside_ns": -1, "outside_ns": 0}}])
def test_a_cost_that_makes_no_sense_is_refused(tmp_path: Path, cost: Any) -> None:
    table = fastprof.load(trace(tmp_path / "t.json", EVENTS, event_cost=cost))
    with pytest.raises(errors.ValueError, match="calibrate"):
        table.without_overhead()


def test_a_calibrated_profile_has_its_cost_in_its_trace(tmp_path: Path) -> None:
    with fastprof.profile(python_calls=True) as profile:
        with pytest.raises(errors.StateError):
            profile.calibrate()
    cost = profile.calibrate()
    assert {"range", "call"} <= set(cost) <= {"range", "call", "op"}
    assert all(part >= 0 for parts in cost.values() for part in parts.values())
    with profile, fastprof.record_function("work"):
        sorted([3, 1, 2], key=lambda value: value)
    profile.export(tmp_path / "t.json")
    assert fastprof.load(tmp_path / "t.json").metadata["event_cost"] == cost
    corrected, table = profile.event_table.without_overhead(cost), profile.event_table
    assert (corrected.duration_ns <= table.duration_ns).all()


def test_no_event_becomes_longer(tmp_path: Path) -> None:
    """What is taken from an end is at least what is taken from its begin, however the cost rounds."""
    chains = [("user_annotation", "r", 1, (300 * n + d) / 1e3, (300 * n + 200 - d) / 1e3)
              for n in range(5) for d in range(5)]  # fmt: skip
    table = fastprof.load(trace(tmp_path / "t.json", [("user_annotation", "o", 1, 0, 2), *chains]))
    for tenth in range(1, 300, 2):
        cost = {"range": {"inside_ns": 0, "outside_ns": tenth / 10}}
        assert (table.without_overhead(cost).duration_ns <= table.duration_ns).all(), tenth


def test_a_thread_and_its_tasks_move_alike() -> None:
    def small() -> None:
        pass

    async def work() -> None:
        await asyncio.sleep(0)
        time.sleep(0.01)

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(3)))

    with fastprof.profile(python_calls=True) as prof:
        for _ in range(40_000):
            small()
        asyncio.run(main())
    cost = {"call": {"inside_ns": 20, "outside_ns": 40}}

    table = prof.event_table.without_overhead(cost)
    assert (table.duration_ns <= prof.event_table.duration_ns).all()
    self_us = {
        e.key: e.self_cpu_time_total for e in table.key_averages(include_python_functions=True)
    }
    (slept,) = (found for name, found in self_us.items() if "function sleep>" in name)
    (ran,) = (found for name, found in self_us.items() if "method run of" in name)
    assert slept > 30_000 > ran
