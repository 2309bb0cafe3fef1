# SPDX-License-Identifier: Apache-2.0
"""Sends and receives, paired by group, ranks and order: waiting, arrows and the critical path across them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rank_tables import GEMM, Row, job_of, profiler_step, table_of
from trace_tables import table_of_rows

import fastprof
from fastprof.table import EventKind

pytestmark = pytest.mark.integrations
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

SYNC = ("cudaDeviceSynchronize", "cuda_runtime")
KERNEL = ("ncclDevKernel_SendRecv", "kernel")
# Two steps of 100 us: rank 0 computes 30, sends, and waits at the end for what rank 1 computes in 30 of what came.
# By rank and step: (name, begin, end, kind, peer in the group).
ROWS: list[list[tuple[Any, int, int, str, int]]] = [
    [(GEMM, 0, 30, "", 0), (KERNEL, 30, 36, "send", 1), (KERNEL, 40, 71, "recv", 1), (GEMM, 71, 90, "", 0)],
    [(KERNEL, 5, 36, "recv", 0), (GEMM, 36, 66, "", 0), (KERNEL, 66, 71, "send", 0)],
]  # fmt: skip


def pipeline(folder: Path, ranks: tuple[int, int], group: str) -> fastprof.ranks.Job:
    """Return a job of four ranks, of which two are a group of their own: peers are numbers within it."""
    tables = []
    for rank in range(4):
        rows: list[Row] = []
        calls: list[Any] = []
        for step in (7, 8):
            base = 100_000 * step
            rows.append((profiler_step(step), base, base + 100_000))
            calls.append(None)
            for kind, begin, end, name, peer in ROWS[ranks.index(rank)] if rank in ranks else ():
                rows.append((kind, base + 1000 * begin, base + 1000 * end))
                peer_of = {"send": "Dst Rank", "recv": "Src Rank"}.get(name, "")
                arguments = {"Collective name": name, "Process Group Name": group, "Seq": 99 + rank}
                arguments |= {"Process Group Ranks": str(list(ranks)), peer_of: peer}
                calls.append(arguments if name else None)
            ends = [each[2] for each in ROWS[ranks.index(rank)]] if rank in ranks else [10]
            rows.append((SYNC, base, base + 1000 * max(ends)))
            calls.append(None)
        tables.append(table_of(rows, calls))
    return on_one_clock(folder, tables)


def on_one_clock(folder: Path, tables: list[fastprof.EventTable]) -> fastprof.ranks.Job:
    """Return the job of tables whose clocks are one, as on one host."""
    job_of(folder, tables)
    for path in folder.glob("*.json"):
        clock = {key: {"realtime_ns": 1, "monotonic_ns": 1} for key in ("start", "end")}
        path.write_text(json.dumps({**json.loads(path.read_text()), "clock": clock}))
    return fastprof.ranks.open(folder)


@pytest.mark.parametrize("ranks", [(0, 1), (3, 1)])
def test_sends_and_receives_are_paired(tmp_path: Path, ranks: tuple[int, int]) -> None:
    first, second = ranks
    job = pipeline(tmp_path, ranks, "pp")
    assert job.problems == []
    matched = job.collectives
    pairs = {
        (matched.groups[int(g)].rpartition(" ")[2], matched.kinds[int(k)], int(r), int(w))
        for g, k, r, w in zip(
            matched.group, matched.kind, matched.rank, matched.wait_ns, strict=True
        )
    }
    assert pairs == {
        (f"{first}->{second}", "send", first, 0), (f"{first}->{second}", "recv", second, 25_000),
        (f"{second}->{first}", "send", second, 0), (f"{second}->{first}", "recv", first, 26_000),
    }  # fmt: skip
    assert len(matched) == 8 and matched.unmatched == 0
    assert job.waiting_ns[[first, second]].tolist() == [[26_000] * 2, [25_000] * 2]


def test_arrows_go_from_sends_to_receives(tmp_path: Path) -> None:
    job = pipeline(tmp_path, (0, 1), "pp")
    table = fastprof.ranks.timeline(job)
    times = {
        flow: [int(ns) % 100_000 for ns in table.start_ns[table.column("kind") == int(flow)]]
        for flow in (EventKind.FLOW_BEGIN, EventKind.FLOW_END)
    }
    assert sorted(times[EventKind.FLOW_BEGIN]) == [30_000] * 2 + [66_000] * 2
    assert sorted(times[EventKind.FLOW_END]) == [30_000] * 2 + [66_000] * 2


def test_the_critical_path_goes_with_what_was_sent(tmp_path: Path) -> None:
    job = pipeline(tmp_path, (0, 1), "pp")
    found = [
        (each.rank, each.name.split(" ")[0], each.end_ns - each.start_ns)
        for each in job.step_graph(7).path()
        if each.what in ("device", "collective")
    ]
    assert found == [
        (0, "gemm", 30_000), (1, "recv", 6_000), (1, "gemm", 30_000), (0, "recv", 5_000), (0, "gemm", 19_000)
    ]  # fmt: skip


@pytest.mark.parametrize("launches", [True, False])
def test_pairs_of_a_device_behind_its_host(tmp_path: Path, launches: bool) -> None:
    """The receive that the host issues in a step runs on its device in the next one."""
    tables = []
    for rank, begin in enumerate((90, 110)):
        rows: list[Row] = []
        calls: list[Any] = []
        for step in (1, 2, 3):
            base = 100_000 * step
            rows.append((profiler_step(step), base, base + 100_000))
            rows.append((("cudaLaunchKernel", "cuda_runtime"), base + 5000, base + 6000))
            rows.append((KERNEL, base + 1000 * begin, base + 115_000))
            name, peer = (("send", "Dst Rank"), ("recv", "Src Rank"))[rank]
            arguments = {"Collective name": name, "Process Group Name": "pp", peer: 1 - rank}
            number = {"correlation": step} if launches else {}
            calls += [None, number, {**arguments, **number}]
        tables.append(table_of(rows, calls))
    job = on_one_clock(tmp_path, tables)
    matched = job.collectives
    found: dict[int, list[int]] = {}
    for call, start in zip(matched.call.tolist(), matched.start.tolist(), strict=True):
        found.setdefault(call, []).append(start // 1000)
    if launches:
        assert list(found.values()) == [[190, 210], [290, 310], [390, 410]]
        assert job.waiting_ns[0].tolist() == [20_000] * 3 and job.problems == []
    else:  # by times of devices the receive at 210 is the second step's, whose send begins at 290
        assert list(found.values()) == [[190], [410]]
        assert any(each.startswith("4 sends and receives not paired") for each in job.problems)


@pytest.mark.parametrize(
    ("any_rank", "members", "paired"),
    [
        (set(), None, {1, 2}),
        ({1, 2}, None, set()),
        ({2}, None, {1}),  # the other tag's receive names its sender
        ({1, 2}, [0, 1], {1, 2}),  # any other rank is the only one
    ],
)
def test_gloo_pairs_each_tag_by_itself(
    tmp_path: Path, any_rank: set[int], members: list[int] | None, paired: set[int]
) -> None:
    tables = []
    begins = {}
    for rank, tags in enumerate(((1, 2), (2, 1))):
        rows = [(*profiler_step(0), 0, 1000)]
        inputs: list[Any] = [None]
        for start, tag in zip((100, 200), tags, strict=True):
            loose = rank == 1 and tag in any_rank
            op = "recv_any_source_" if loose else ("send", "recv_")[rank]
            name = "recvAnySource" if loose else ("send", "recv")[rank]
            rows.append((f"c10d::{op}", "cpu_op", start, start + 20))
            rows.append((f"gloo:{name}", "user_annotation", start + 10, 500 + start))
            inputs += [["", "", tag] if loose else ["", "", 1 - rank, tag], None]
            begins[rank, tag] = start + 10
        coded = {"concrete_inputs": fastprof.table.CodedColumn.encode(inputs)}
        tables.append(table_of_rows(rows, coded=coded))
    groups = [] if members is None else [{"name": "0", "ranks": members}]
    for rank, table in enumerate(tables):
        fastprof.ranks.write(table, tmp_path, rank=rank, world_size=2, groups=groups)
    job = fastprof.ranks.open(tmp_path)
    calls: dict[int, list[int]] = {}
    for call, start in zip(
        job.collectives.call.tolist(), job.collectives.start.tolist(), strict=True
    ):
        calls.setdefault(call, []).append(start)
    found = sorted(starts for starts in calls.values() if len(starts) == 2)
    assert found == sorted([begins[0, tag], begins[1, tag]] for tag in paired)
    left = 2 - len(paired)
    said = (
        f"sends and receives: rank 1: {left} of 2 sends and receives of gloo receive from any rank"
    )
    assert [each[: len(said)] for each in job.problems] == [said] * bool(left)


def test_a_send_without_a_receive_is_named(tmp_path: Path) -> None:
    inputs = fastprof.table.CodedColumn.encode([None, ["", "", 1, 0], None])
    send = [("c10d::send", "cpu_op", 100, 120), ("gloo:send", "user_annotation", 110, 500)]
    step = (*profiler_step(0), 0, 1000)
    sender = table_of_rows([step, *send], coded={"concrete_inputs": inputs})
    for rank, table in enumerate((sender, table_of_rows([step]))):
        fastprof.ranks.write(table, tmp_path, rank=rank, world_size=2)
    assert fastprof.ranks.open(tmp_path).problems == ["rank 1 has no collective of group 0->1"]
