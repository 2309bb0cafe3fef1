# SPDX-License-Identifier: Apache-2.0
"""Communication of steps and its overlap with computation: hand-written tables, and sums by brute force."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from report_reader import read_report
from trace_tables import table_of_rows

import fastprof
from fastprof.analysis import explain
from fastprof.analysis.communication import communication
from fastprof.report.export import export_html
from fastprof.views import EventList

STEP, LAUNCH, GEMM, REDUCE, COPY = (
    ("ProfilerStep#", "user_annotation"),
    ("launch", "user_annotation"),
    ("gemm", "kernel"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "kernel"),
    ("Memcpy DtoH (Device -> Pageable)", "gpu_memcpy"),
)
# site, start, end, device (-1: host), and the number of the host row (by place, from 1) that launched it
Row = tuple[tuple[str, str], int, int, int, int]


def table_of(rows: list[Row]) -> fastprof.EventTable:
    plain = [
        (f"{kind[0]}{number}" if kind is STEP else kind[0], kind[1], start, end)
        for number, (kind, start, end, _, _) in enumerate(rows)
    ]
    devices = [device for _, _, _, device, _ in rows]
    return table_of_rows(
        plain,
        track=[1 + device for device in devices],
        external_id=[n + 1 if device < 0 else 0 for n, device in enumerate(devices)],
        linked_correlation_id=[row[4] for row in rows],
        device_index=[max(device, 0) for device in devices],
        device_type=[int(device >= 0) for device in devices],
        tracks=[fastprof.Track(n + 1, name=f"track {n}") for n in range(4)],
    )


def found(table: fastprof.EventTable, steps: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    start, end = (np.array(each, np.int64) for each in zip(*steps, strict=True))
    return [c[:4] for c in communication(table, start, end)]


def test_a_table_by_hand() -> None:
    """Two steps on device 0: 300 ns of which 120 run beside gemm; one of the second runs in no step's time."""
    table = table_of([
        (LAUNCH, 10, 20, -1, 0), (LAUNCH, 1010, 1020, -1, 0),
        (GEMM, 100, 200, 0, 1), (GEMM, 250, 270, 0, 1), (COPY, 270, 400, 0, 1),
        (REDUCE, 150, 300, 0, 1), (REDUCE, 250, 450, 0, 1),  # a union of 300: 50 + 20 beside gemm
        (REDUCE, 5000, 5100, 0, 2), (GEMM, 5000, 5050, 1, 2),  # gemm on another device
        (REDUCE, 40, 60, 1, 0),  # not linked: by its own time
        (REDUCE, 900, 950, 1, 0),  # between the steps
    ])  # fmt: skip
    assert found(table, [(0, 500), (1000, 1500)]) == [
        (0, 0, 300, 230), (0, 1, 100, 100), (1, 0, 20, 20),
    ]  # fmt: skip


def test_random_intervals_by_brute_force() -> None:
    """Each ns is looked at; ties, empty intervals and several devices are among them."""
    chance = random.Random(5)
    for _ in range(60):
        rows: list[Row] = [(LAUNCH, 0, 1, -1, 0), (LAUNCH, 100, 101, -1, 0)]
        for _ in range(chance.randrange(1, 25)):
            begin = chance.randrange(300)
            kind = chance.choice((GEMM, REDUCE, COPY))
            length, device, step = chance.randrange(40), chance.randrange(2), chance.randrange(1, 3)
            rows.append((kind, begin, begin + length, device, step))
        wanted = []
        for device in range(2):
            for step in range(2):
                covered: dict[bool, set[int]] = {True: set(), False: set()}
                any_row = False
                for kind, begin, end, on, link in rows:
                    if on == device and kind is GEMM:
                        covered[False].update(range(begin, end))
                    if on == device and kind is REDUCE and link == step + 1:
                        covered[True].update(range(begin, end))
                        any_row = True
                if any_row:
                    both = covered[True] & covered[False]
                    wanted.append((device, step, len(covered[True]), len(covered[True] - both)))
        assert found(table_of(rows), [(0, 100), (100, 400)]) == wanted


def test_explain_lists_each_step_and_the_remedy() -> None:
    ms = 1_000_000
    rows: list[Row] = []
    for n in range(3):
        at = 10 * n * ms
        rows += [(STEP, at, at + 10 * ms, -1, 0), (LAUNCH, at + ms, at + 2 * ms, -1, 0)]
        rows += [
            (GEMM, at + 2 * ms, at + 6 * ms, 0, len(rows)),
            (REDUCE, at + 5 * ms, at + (8 + n) * ms, 0, len(rows)),
        ]
    found = explain(table_of(rows))
    assert [claim.text for claim in found.communication] == [
        "device 0 communicated 12.000ms: 3.000ms (25.0 %) beside computation, 9.000ms exposed (30.0 % of the steps)",
        "    2.000ms exposed of 3.000ms  ProfilerStep#0",
        "    3.000ms exposed of 4.000ms  ProfilerStep#4",
        "    4.000ms exposed of 5.000ms  ProfilerStep#8",
    ]
    assert found.communication[0].ns == 9 * ms
    assert found.first is not None and "communication" in found.first.text.lower()
    assert "Communication" in found.text().splitlines()


def test_the_report_has_the_steps_in_its_order(tmp_path: Path) -> None:
    rows: list[Row] = [(STEP, 0, 100, -1, 0), (STEP, 100, 200, -1, 0), (LAUNCH, 110, 120, -1, 0)]
    rows += [(REDUCE, 130, 160, 0, 3), (GEMM, 150, 170, 0, 3)]
    path = tmp_path / "report.html"
    export_html(EventList.from_table(table_of(rows)), str(path))
    (line,) = read_report(path).head["communication"]
    assert line == {"row": 1, "device": 0, "comm_ns": 30, "exposed_ns": 20}
