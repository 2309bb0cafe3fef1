# SPDX-License-Identifier: Apache-2.0
"""Tables and folders of ranks for the tests of jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trace_tables import table_of_rows

import fastprof

GEMM, COPY = ("gemm", "kernel"), ("Memcpy DtoH", "gpu_memcpy")
REDUCE, OP = ("ncclDevKernel_AllReduce", "kernel"), ("aten::mm", "cpu_op")
Row = tuple[tuple[str, str], int, int]


def profiler_step(number: int) -> tuple[str, str]:
    return f"ProfilerStep#{number}", "user_annotation"


def table_of(
    rows: list[Row], calls: list[dict[str, Any] | None] | None = None
) -> fastprof.EventTable:
    coded = fastprof.table.CodedColumn.encode(
        [None if call is None else json.dumps(call) for call in calls or [None] * len(rows)]
    )
    on_device = [int(category in ("kernel", "gpu_memcpy")) for (_, category), _, _ in rows]
    plain = [(*kind, start, end) for kind, start, end in rows]
    return table_of_rows(plain, coded={"metadata_json": coded}, device_type=on_device)


def call(group: str, sequence: int, kind: str = "allreduce") -> dict[str, Any]:
    return {
        "Collective name": kind, "Process Group Name": group, "Seq": sequence,
        "In msg nelems": 10, "dtype": "Half",
    }  # fmt: skip


def job_of(folder: Path, tables: list[fastprof.EventTable], **more: Any) -> fastprof.ranks.Job:
    for rank, table in enumerate(tables):
        fastprof.ranks.write(table, folder, rank=rank, world_size=len(tables), **more)
    return fastprof.ranks.open(folder)


def opened(simulated: Any, folder: Path) -> fastprof.ranks.Job:
    """Return the job whose shards a SimulatedJob writes."""
    simulated.write(str(folder))
    return fastprof.ranks.open(folder)
