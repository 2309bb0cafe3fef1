# SPDX-License-Identifier: Apache-2.0
"""Hand-made tables with every kind of row and column, for the tests of readers and writers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastprof.model.columns import CODED_COLUMNS, COLUMNS
from fastprof.model.table import CodedColumn, EventTable, KernelTable, Site, Track

T0 = 1_700_000_000_000_000_000
ODD_NAMES = [
    'quote " and \\ backslash',
    "tab\tnewline\nnul\0",
    "\U0001f600 emoji",
    "lone \ud800 surrogate",
    "x" * 2000,
    "",
]


def table_of_rows(
    rows: Sequence[tuple[str, str, int, int]],
    *,
    unit_ns: int = 1,
    tracks: Any = (),
    coded: Any = None,
    **columns: Any,
) -> EventTable:
    """Rows (name, category, start, end); columns: of other values."""
    kinds = list(dict.fromkeys((name, category) for name, category, _, _ in rows))
    columns["start_ns"] = [row[2] * unit_ns for row in rows]
    columns["end_ns"] = [row[3] * unit_ns for row in rows]
    columns["site"] = [kinds.index(row[:2]) for row in rows]
    sites = [Site(name, category=category) for name, category in kinds]
    return EventTable(columns, sites=sites, tracks=tracks, coded=coded)


def nested_table(rows: int, seed: int = 1, threads: int = 3) -> EventTable:
    """Ranges that nest properly on each thread, in begin order, with parents."""
    rng = random.Random(seed)
    start: list[int] = []
    end: list[int] = []
    parent: list[int] = []
    track: list[int] = []
    for thread in range(threads):
        stack: list[int] = []
        now = T0 + rng.randrange(1000)
        for _ in range(rows // threads):
            while stack and rng.random() < 0.4:
                now += rng.randrange(1, 700)
                end[stack.pop()] = now
            now += rng.randrange(1, 900)
            parent.append(stack[-1] if stack else -1)
            stack.append(len(start))
            start.append(now)
            end.append(0)
            track.append(thread)
        while stack:
            now += rng.randrange(1, 700)
            end[stack.pop()] = now
    names = [f"op{i}" for i in range(12)] + ODD_NAMES[:3]
    return EventTable(
        {
            "start_ns": start, "end_ns": end, "parent": parent, "track": track,
            "site": [rng.randrange(len(names)) for _ in start],
            "kind": np.zeros(len(start), np.uint8),
            "flags": np.ones(len(start), np.uint8),
        },
        sites=[Site(name, file="a.py", line=i) for i, name in enumerate(names)],
        tracks=[Track(i, 77, 1000 + i, f"worker {i}") for i in range(threads)],
        t0_ns=T0, pid=77, process_name="program", begin_ordered=True,
    )  # fmt: skip


def every_column_table(rows: int = 24) -> EventTable:
    """A table with every column, coded column, kernels, payload, strings, drops and metadata."""
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {}
    for name, spec in COLUMNS.items():
        dtype = np.dtype(spec.dtype)
        if dtype.kind == "f":
            columns[name] = rng.random(rows)
            columns[name][0] = np.nan
        elif dtype.kind == "b":
            columns[name] = rng.random(rows) < 0.5
        else:
            columns[name] = rng.integers(0, 5, rows).astype(dtype)
    columns["start_ns"] = T0 + np.arange(rows) * 1000
    columns["end_ns"] = columns["start_ns"] + 500
    columns["parent"] = np.arange(-1, rows - 1)
    columns["track"] = np.zeros(rows, np.uint32)
    columns["end_track"] = np.full(rows, -1)
    columns["kind"] = np.zeros(rows, np.uint8)
    columns["payload"] = np.arange(rows, dtype=np.uint32)
    values: dict[str, list[Any]] = {name: [f"{name} a", None, "b"] for name in CODED_COLUMNS}
    for name in (
        "stack",
        "structured_input_shapes",
        "structured_input_strides",
        "input_dtypes",
        "input_storages",
        "list_dtypes",
    ):
        values[name] = [[f"{name} a"], None, ["b"]]
    values["counters"] = [{"instructions": 3}, None, {}]
    values["event_metadata"] = [{"stream": 7}, None, {}]
    values["input_shapes"] = [[[1, 2], []], [[3]], []]
    values["concrete_inputs"] = [[1.5, float("inf"), None], ["\ud800", True], (1, (2, 3))]
    values["kwinputs"] = [{"a": 1, "$b": 2}, {3: "x"}, {"raw": b"\x00\xff"}]
    coded = {
        name: CodedColumn.encode([kept[i % len(kept)] for i in range(rows)])
        for name, kept in values.items()
    }
    return EventTable(
        columns,
        sites=[
            Site(name, "cpu_op", "f.py", "fn", 3, 0xFF00, 1, 0, i, ("n",), (0,), 1, 2)
            for i, name in enumerate(ODD_NAMES)
        ],
        tracks=[Track(9, 1, 2, "main \ud800", False)],
        coded=coded,
        kernels=KernelTable(
            np.array([1, 1, 4], np.int64), np.array([0, 1, 0], np.int32), np.array([0, 0, 1], np.int32),
            np.array([10, 20, 30], np.int64), ("k0", "k1"),
        ),
        payload_words=np.arange(rows + 8, dtype=np.uint64) << np.uint64(58),
        strings=("a", "\ud800", "c"), t0_ns=T0 - 5, t1_ns=T0 + 10**9, clock_error_ns=12, pid=4711,
        process_name="p\u00e9", dropped={"memory": 3},
        metadata={"user": [1, float("nan"), ("t",)], "n": None},
    )  # fmt: skip
