# SPDX-License-Identifier: Apache-2.0
"""explain() on planted cases: a slow loader, a sync in the loop, a pause, a blocking thread; silent on a clean loop."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from trace_tables import table_of_rows
from waiting_threads import until_threads_wait

import fastprof
from fastprof.analysis import explain
from fastprof.cli.main import main

MS = 1_000_000
Row = tuple[str, int, int, int]  # name, start, end, track


def table_of(rows: list[Row]) -> fastprof.EventTable:
    categories = ["cpu_op" if name.startswith("aten") else "user_annotation" for name, *_ in rows]
    return table_of_rows(
        [(row[0], category, *row[1:3]) for row, category in zip(rows, categories, strict=True)],
        track=[row[3] for row in rows],
        tracks=[fastprof.Track(1, name="main"), fastprof.Track(2, name="writer")],
    )


def loop(steps: int = 12, **extra: int) -> list[Row]:
    """Steps of 10 ms: 6 ms forward, 4 ms backward; extra: name -> ns added to each step."""
    rows: list[Row] = []
    at = 0
    for number in range(steps):
        begin = at
        for name, ns in {"forward": 6 * MS, "backward": 4 * MS, **extra}.items():
            rows.append((name, at, at + ns, 0))
            at += ns
        rows.append((f"ProfilerStep#{number}", begin, at, 0))
    return rows


def stretched(rows: list[Row], step: int, name: str, ns: int) -> list[Row]:
    """Put an event into a step, before its end, and move what follows."""
    end = next(row[2] for row in rows if row[0] == f"ProfilerStep#{step}")
    moved = [
        (n, a + ns * (a >= end), b + ns * (b > end or (b == end and n.startswith("Prof"))), t)
        for n, a, b, t in rows
    ]
    return [*moved, (name, end, end + ns, 0)]


def test_a_clean_loop_is_silent() -> None:
    found = explain(table_of(loop()))
    assert (found.steps, found.median_step_ns) == (12, 10 * MS)
    assert not (found.waits or found.changed or found.slowest or found.anti_patterns)
    assert found.first is None
    assert "Nothing unusual" in found.text()
    assert [(c.ns, c.text.split()[-3]) for c in found.where] == [
        (72 * MS, "forward"),
        (48 * MS, "backward"),
    ]


def test_without_steps_of_the_program_an_optimizer_steps() -> None:
    optimizer = "Optimizer.step#SGD.step"
    rows = [row for row in stretched(loop(), 5, "save", 40 * MS) if not row[0].startswith("Prof")]
    ends = [row[2] for row in rows if row[0] == "backward"]
    rows += [(optimizer, end - MS, end, 0) for end in ends]
    found = explain(table_of(rows))
    assert (found.steps, found.steps_by, found.median_step_ns) == (11, optimizer, 10 * MS)
    assert found.slowest[0].text.startswith("step 5 took 50.000ms, 40.000ms more than the median")
    assert {c.text.split()[-3]: c.ns for c in found.where} == {
        "forward": 66 * MS, "backward": 33 * MS, optimizer: 11 * MS, "save": 40 * MS,
    }  # fmt: skip
    # A few steps among other work are not what the recording is about.
    assert explain(table_of([*rows, ("evaluation", 10**9, 2 * 10**9, 0)])).steps == 0


def test_a_slow_loader_is_what_to_mend_first() -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    found = explain(table_of(loop(**{name: 30 * MS})))
    (wait,) = found.waits
    assert wait.ns == 360 * MS
    assert wait.text.startswith("waiting for data")
    (pattern,) = found.anti_patterns
    assert (pattern["count"], pattern["estimated_gain_ns"]) == (12, 360 * MS)
    assert found.first is not None
    assert found.first.ns == 360 * MS
    assert not found.slowest
    assert not found.changed


def test_a_sync_in_the_loop_is_found_with_its_events() -> None:
    table = table_of(loop(cudaStreamSynchronize=5 * MS))
    found = explain(table)
    (wait,) = found.waits
    assert (wait.ns, wait.text.split(":")[0]) == (60 * MS, "waiting for the device")
    assert {table.name(row) for row in wait.rows} == {"cudaStreamSynchronize"}
    assert found.anti_patterns[0]["name"] == "Host Synchronization Pattern"
    assert found.anti_patterns[0]["count"] == 12


def test_the_pause_of_the_collector_explains_its_step() -> None:
    table = table_of(stretched(loop(), 5, "Python GC", 40 * MS))
    found = explain(table)
    (slow,) = found.slowest
    assert slow.ns == 40 * MS
    assert slow.text.startswith("ProfilerStep#5 took 50.000ms")
    assert "40.000ms of it in Python GC (garbage collection)" in slow.text
    assert [table.name(row) for row in slow.rows] == ["ProfilerStep#5", "Python GC"]


def test_a_slow_step_without_an_event_for_it_says_so() -> None:
    rows = stretched(loop(), 2, "to be left out", 30 * MS)
    found = explain(table_of([row for row in rows if row[0] != "to be left out"]))
    assert found.slowest[0].text.endswith("30.000ms of it outside of any event")


def test_steps_that_became_longer_are_reported_with_what_grew() -> None:
    rows = loop(9)
    for step in (6, 7, 8):
        rows = stretched(rows, step, "save", 5 * MS)
    (change,) = explain(table_of(rows)).changed
    assert change.ns == 5 * MS
    assert change.text.endswith("5.000ms of it in save")


def test_a_live_profile_shows_the_thread_that_blocks() -> None:
    lock, held = threading.Lock(), threading.Event()
    waiter = threading.get_ident()
    reads, writes = os.pipe()

    def idle() -> None:
        with open(reads, "rb") as pipe:
            pipe.read()

    def hold() -> None:
        with lock, fastprof.record_function("hold the lock"):
            held.set()
            until_threads_wait("lock.acquire()", waiter)
            time.sleep(0.2)

    with fastprof.profile(python_calls=True) as prof:
        reader, thread = threading.Thread(target=idle), threading.Thread(target=hold)
        reader.start()
        thread.start()
        held.wait()
        with fastprof.record_function("step"):
            lock.acquire()
            lock.release()
        os.close(writes)
        thread.join()
        reader.join()
    (wait,) = explain(prof, step="step").waits
    assert wait.text.startswith("waiting for another thread")
    assert "hold the lock" in wait.text or "sleep" in wait.text
    with pytest.raises(fastprof.errors.ValueError, match="'none such'"):
        explain(prof, step="none such")


def test_the_command_prints_text_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "a.fastprof")
    fastprof.save(table_of(loop(cudaDeviceSynchronize=5 * MS)), path)
    assert main(["explain", path]) == 0
    assert "What to do first" in capsys.readouterr().out
    assert main(["explain", "--as-json", path]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["first"]["ns"] == 60 * MS
    assert found["steps"] == 12


def test_an_empty_table_has_nothing_to_explain() -> None:
    empty = fastprof.EventTable({"start_ns": [], "end_ns": [], "site": []}, sites=[])
    assert explain(empty).where == []


def slow(*steps: tuple[int, int]) -> list[str]:
    """Return what explain() says of slow steps, each of (ns of the step, ns of work in it), one after another."""
    rows: list[Row] = []
    at = 0
    for number, (duration, work) in enumerate(steps):
        rows += [("work", at, at + work, 0), (f"ProfilerStep#{number}", at, at + duration, 0)]
        at += duration
    return [claim.text for claim in explain(table_of(rows)).slowest]


def test_a_step_is_slow_from_one_and_a_half_times_the_median_on() -> None:
    usual = (100, 90)
    name = "ProfilerStep#2 took 0.150us, 0.050us more than the median: "
    assert slow(usual, usual, (150, 140)) == [name + "0.050us of it in work"]
    assert slow(usual, usual, (149, 139)) == []
    assert slow(usual, (150, 140)) == []  # of two steps, none is slow
    many = [(300 + i, 290 + i) for i in range(4)]
    assert [text.split()[0] for text in slow(*[usual] * 5, *many)] == [
        "ProfilerStep#8", "ProfilerStep#7", "ProfilerStep#6",
    ]  # fmt: skip
