# SPDX-License-Identifier: Apache-2.0
"""flight_recorder.start(min_op_us=): short ops are time of what ran them, and nothing else is lost."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from processes import python
from recorder_programs import program, records

from fastprof import errors, flight_recorder
from fastprof.flight_recorder.dumps import dump_facts, read_dump, write_dump
from fastprof.model.columns import EventFlag

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(sys.platform != "linux", reason="backing files are read on Linux"),
]

PROGRAM = """
import os, sys, threading, time
import torch
import fastprof
from fastprof import flight_recorder
a, b = torch.ones(4), torch.rand(300, 300)
long_us = 50
flight_recorder.start(min_op_us=long_us, record_shapes=len(sys.argv) > 1, with_stack=len(sys.argv) > 1)
def work():
    with torch.profiler.record_function("torch's range"):
        pass
    with fastprof.record_function("range"):
        for _ in range(100):
            a.add_(1)
        torch.mm(b, b)
def forever():
    while True:
        work()
work()
for _ in range(3):
    with fastprof.profile() as beside:
        work()
    counts = {row.key: row.count for row in beside.key_averages()}
    assert counts["aten::add_"] == 100 and counts["aten::mm"] == 1, counts
for _ in range(20):
    work()
before = flight_recorder.status()["ops_left_out"]
assert before >= 1500
def short():
    for _ in range(10):
        torch.ones(4).add_(1)
for _ in range(30):  # threads that end before their counts are added up by the way
    thread = threading.Thread(target=short); thread.start(); thread.join()
assert flight_recorder.status()["ops_left_out"] >= before + 300
threading.Thread(target=forever, daemon=True).start()
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("details", [(), ("details",)])
def test_what_dumps_of_a_recorder_of_long_ops_contain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, details: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FASTPROF_PROCESS_FOLDER", str(tmp_path))
    with program(PROGRAM, *details) as running:
        for number in range(20):  # while records are given back and written anew
            write_dump(str(records(tmp_path)[0]), str(tmp_path / f"{number}.flight"), "test")
        running.kill()
    for number in range(20):
        table = read_dump(tmp_path / f"{number}.flight")
        assert any("ops below 50 us" in line for line in dump_facts(table))
        names = [table.name(row) for row in range(len(table))]
        assert names.count("torch's range") >= 24
        assert abs(names.count("range") - names.count("torch's range")) <= 1
        parents = set(table.column("parent").tolist())
        closed = (table.column("flags") & EventFlag.FINISHED) != 0
        short = [
            name
            for row, name in enumerate(names)
            if name.startswith("aten::")
            and closed[row]
            and row not in parents
            and table.duration_ns[row] < 49_000  # the clocks' rates agree within 1 %
        ]
        # Those of the three profiles beside, and one where a chunk of 2,700 records ended inside of it.
        assert len(short) <= 3 * 220 + len(table) // 1000, len(short)


def test_invalid_options() -> None:
    with pytest.raises(errors.ValueError, match="min_op_us has no effect beside it"):
        flight_recorder.start(min_op_us=10, aggregate=True)
    for wrong in (-1, 0, math.nan, math.inf, 1e300, True, "abc"):
        with pytest.raises(errors.ValueError, match="invalid min_op_us="):
            flight_recorder.start(min_op_us=wrong)  # type: ignore[arg-type]


def test_a_clock_that_does_not_permit_it(tmp_path: Path) -> None:
    code = """
from fastprof import flight_recorder
flight_recorder.start(min_op_us=10)
print(flight_recorder.status()["missing"]["min_op_us"])
"""
    done = python(
        "-c", code, check=True, FASTPROF_CLOCK="slow", FASTPROF_PROCESS_FOLDER=str(tmp_path)
    )
    assert "ops of any duration are kept" in done.stdout
