# SPDX-License-Identifier: Apache-2.0
"""Databases of nvprof and Nsight Systems: rows, links and kernels, and files that are not what they should be."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from profiler_databases import write_nsys, write_nvprof

import fastprof
from fastprof import errors
from fastprof.model.table import EventKind

NAMES = ["outer", "inner", "gemm", "relu", "here"]


@pytest.fixture
def nvprof(tmp_path: Path) -> Path:
    return write_nvprof(
        tmp_path / "a.nvvp",
        NAMES,
        markers=[(1, 1000, 1), (2, 2000, 2), (2, 5000, 0), (1, 9000, 0), (3, 4000, 5)],
        runtime=[(211, 3000, 3500, 11), (13, 6000, 6100, 12), (211, 9500, 9600, 13), (20, 3600, 3700, 14)],
        kernels=[(4000, 4700, 11, 3), (6500, 6600, 12, 4), (9700, 9999, 13, 4), (1, 2, 14, 4)],
    )  # fmt: skip


def test_ranges_of_nvprof_have_the_kernels_launched_inside(nvprof: Path) -> None:
    events = fastprof.load_nvprof(nvprof)
    assert [(e.name, e.id, e.thread, e.node_id) for e in events] == [
        ("outer", 1, 0, 0),
        ("inner", 2, 0, 0),
    ]
    outer, inner = events
    assert outer.time_range.elapsed_us() == 8.0
    assert [(k.name, k.duration) for k in outer.kernels] == [("gemm", 0.7), ("relu", 0.1)]
    assert [(k.name, k.duration) for k in inner.kernels] == [("gemm", 0.7)]
    assert inner.cpu_parent is outer
    assert outer.device_time_total == pytest.approx(0.8)
    assert outer.self_device_time_total == pytest.approx(0.1)
    average = {a.key: a for a in events.key_averages()}
    assert average["outer"].self_device_time_total == pytest.approx(0.1)


def brute_force(markers: Any, runtime: Any, kernels: Any) -> dict[int, list[tuple[int, int]]]:
    begin = {m[0]: m[1] for m in markers if m[2]}
    end = {m[0]: m[1] for m in markers if not m[2]}
    return {
        number: sorted(
            (k[0], k[1])
            for _, start, stop, correlation in runtime
            if begin[number] < start and stop < end[number]
            for k in kernels
            if k[2] == correlation
        )
        for number in begin
    }


@pytest.mark.parametrize("seed", range(6))
def test_any_interleaving_equals_the_join(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    markers: list[tuple[int, int, int]] = []
    for number in range(1, 40):
        first, second = sorted(rng.sample(range(300), 2))
        markers += [(number, first, rng.randint(1, 3)), (number, second, 0)]
    rng.shuffle(markers)
    runtime = []
    for correlation in range(1, 60):
        start = rng.randrange(300)
        runtime.append((rng.choice((211, 13)), start, start + rng.randrange(4), correlation))
    kernels = [(t, t + rng.randrange(9), rng.randint(1, 70), 3) for t in range(80)]
    path = write_nvprof(tmp_path / "r.nvvp", NAMES, markers, runtime, kernels)
    expected = brute_force(markers, runtime, kernels)
    events = fastprof.load_nvprof(path)
    assert len(events) == 39
    for event in events:
        found = sorted(k.duration for k in event.kernels)
        assert found == pytest.approx(sorted((e - b) / 1000 for b, e in expected[event.id]))


def test_malformed_files_of_nvprof_name_the_place(tmp_path: Path, nvprof: Path) -> None:
    empty: list[Any] = []
    twice = write_nvprof(tmp_path / "twice", NAMES, [(1, 1, 1), (1, 2, 1), (1, 3, 0)], empty, empty)
    with pytest.raises(errors.FormatError, match="marker 1 begins twice"):
        fastprof.load_nvprof(twice)
    pair = write_nvprof(
        tmp_path / "pair", NAMES, [(1, 1, 1), (1, 90, 0)], [(211, 2, 3, 5), (211, 4, 5, 5)], empty
    )
    with pytest.raises(errors.FormatError, match=r"marker 1 contains two launches .* id 5"):
        fastprof.load_nvprof(pair)
    connection = sqlite3.connect(nvprof)
    connection.execute(
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 'soon' WHERE correlationId = 12"
    )
    connection.commit()
    connection.close()
    for read in (fastprof.load_nvprof, fastprof.load):
        with pytest.raises(
            errors.FormatError,
            match="'start' of the table CUPTI_ACTIVITY_KIND_RUNTIME, found 'soon'",
        ):
            read(nvprof)
    cut = tmp_path / "cut"
    cut.write_bytes(nvprof.read_bytes()[:5000])
    with pytest.raises(errors.FormatError, match="SQLite"):
        fastprof.load_nvprof(cut)
    text = tmp_path / "x.json"
    text.write_text("[]")
    with pytest.raises(errors.FormatError, match="not an SQLite database"):
        fastprof.load_nvprof(text)
    with pytest.raises(errors.IoError):
        fastprof.load_nsys(tmp_path / "absent")
    other = tmp_path / "other"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t(x)")
    connection.commit()
    connection.close()
    with pytest.raises(errors.FormatError, match="nsys export"):
        fastprof.load(other)


def test_damaged_bytes_never_do_worse_than_a_clear_error(tmp_path: Path, nvprof: Path) -> None:
    good = nvprof.read_bytes()
    rng = random.Random(5)
    path = tmp_path / "damaged"
    for _ in range(150):
        data = bytearray(good)
        for _ in range(rng.randint(1, 40)):
            data[rng.randrange(100, len(data))] = rng.randrange(256)
        path.write_bytes(data)
        for read in (fastprof.load, fastprof.load_nvprof):
            with contextlib.suppress(errors.FormatError):
                read(path)


THREAD = 7 << 24 | 8
T0 = 1_700_000_000_000_000_000


def test_an_export_of_nsight_systems(tmp_path: Path) -> None:
    strings = ["step", "cudaLaunchKernel_v7000", "gemm<float>", "gemm", "cudaMemcpyAsync", "poll"]
    path = write_nsys(
        tmp_path / "r.sqlite",
        strings,
        TARGET_INFO_SESSION_START_TIME=[(T0, "then")],
        NVTX_EVENTS=[
            (100, 900, 59, None, None, THREAD, 0, 0),
            (150, None, 60, 5, "open", THREAD, None, 0),
            (160, None, 34, None, "mark", THREAD, None, 0),
            (0, None, 33, None, "category", THREAD, None, 0),
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            (200, 250, THREAD, 1, 1, 0),
            (300, 350, THREAD, 2, 4, 0),
            (1000, 1010, THREAD, 3, 1, 0),
        ],
        CUPTI_ACTIVITY_KIND_KERNEL=[
            (400, 500, 0, 1, 7, 1, 7 << 24, 2, 3, 64),
            (1100, 1200, 0, 1, 9, 3, 7 << 24, 2, 3, 64),
        ],
        CUPTI_ACTIVITY_KIND_MEMCPY=[(520, 560, 0, 7, 2, 7 << 24, 4096, 1)],
        OSRT_API=[(10, 20, THREAD, 1, 5, 0)],
    )
    table = fastprof.load(path)
    assert table.t0_ns == T0 and table.pid == 7
    names = [table.names[n] for n in table.name_id]
    row = {name: names.index(name) for name in names}
    assert table.start_ns[row["step"]] == T0 + 100
    assert table.end_ns[row["open"]] == T0 + 1200  # open when the session ended
    assert table.metadata["skipped_events"] == {"NVTX name or payload record": 1}
    assert table.kernels is not None
    launched = [
        (names[r], table.names[n], d)
        for r, n, d in zip(
            table.kernels.row, table.kernels.name, table.kernels.duration_ns, strict=True
        )
    ]
    assert sorted(launched) == [
        ("cudaLaunchKernel_v7000", "gemm<float>", 100),
        ("step", "Memcpy HtoD", 40),
        ("step", "gemm<float>", 100),
    ]
    assert table.coded["metadata_json"][row["Memcpy HtoD"]] == '{"bytes": 4096}'
    events = fastprof.EventList.from_table(table, use_device="cuda")
    step = next(e for e in events if e.name == "step")
    assert step.device_time_total == pytest.approx(0.14)
    assert len(fastprof.load_nsys(path)) == len(table)
    zipped = tmp_path / "r.sqlite.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert len(fastprof.load(zipped)) == len(table)
    with pytest.raises(errors.FormatError, match="max_memory_bytes"):
        fastprof.load(path, max_memory_bytes=100)


def with_tables(path: Path, strings: list[str], *statements: str) -> Path:
    """Write an export whose tables have the columns that statements give them, as other versions do."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT)")
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(strings))
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


KERNELS = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, deviceId INT, streamId INT, correlationId INT"


def test_kernels_of_nsight_systems_have_their_launch_parameters(tmp_path: Path) -> None:
    """Kineto's names; what a version does not tell is left out, and shared memory is the sum of both kinds."""
    whole = with_tables(
        tmp_path / "whole.sqlite",
        ["gemm"],
        f"{KERNELS}, shortName INT, gridX INT, gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT,"
        " registersPerThread INT, staticSharedMemory INT, dynamicSharedMemory INT)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 1, 7, 1, 0, 2, 3, 4, 32, 8, 1, 40, 100, 24)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, 40, 1, 7, 2, 0, 5, 3, 4, 32, 8, 1, 40, 0, 0)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (50, 60, 1, 7, 3, 0, 2, 3, 4, 32, 8, 1, 40, 100, 24)",
    )
    table = fastprof.load(whole)
    args = [json.loads(text) for text in table.coded["metadata_json"]]
    first = {
        "grid": [2, 3, 4], "block": [32, 8, 1], "registers per thread": 40, "shared memory": 124,
    }  # fmt: skip
    assert args == [first, {**first, "grid": [5, 3, 4], "shared memory": 0}, first]
    assert table.column("device_index").tolist() == [1, 1, 1]
    old = with_tables(
        tmp_path / "old.sqlite",
        ["gemm"],
        f"{KERNELS}, mangledName INT, gridX INT, gridY INT, registersPerThread INT, staticSharedMemory INT)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 7, 1, 0, 2, 3, 40, 100)",
    )
    table = fastprof.load(old)
    assert table.name(0) == "gemm"
    assert json.loads(table.coded["metadata_json"][0]) == {"registers per thread": 40}
    bare = with_tables(
        tmp_path / "bare.sqlite",
        ["gemm"],
        f"{KERNELS}, demangledName INT, shortName INT)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 7, 1, 0, 0)",
    )
    assert "metadata_json" not in fastprof.load(bare).coded


def test_ranges_of_several_processes_and_texts(tmp_path: Path) -> None:
    """A process number for the whole only if there is one; a text in the row comes before one by number."""
    other = 9 << 24 | 10
    path = write_nsys(
        tmp_path / "r.sqlite",
        ["by number"],
        NVTX_EVENTS=[
            (100, 900, 59, None, "own", THREAD, 0, 0),
            (200, 300, 59, None, None, other, 0, 0),
            (400, 500, 60, None, None, other, None, 0),
            (450, 450, 34, None, "mark", THREAD, None, 0),
            (460, 700, 34, None, "long mark", THREAD, None, 0),
        ],
        OSRT_API=[(10, 20, THREAD, 1, 0, 0)],
    )
    table = fastprof.load(path)
    assert table.pid == 0
    tracks = [table.tracks[int(row)] for row in table.column("track")]
    rows = {
        (table.name(i), tracks[i].pid, tracks[i].tid, EventKind(int(table.column("kind")[i])).name)
        for i in range(len(table))
    }
    assert rows == {
        ("own", 7, 8, "RANGE"),
        ("by number", 9, 10, "RANGE"),
        ("", 9, 10, "ASYNC_RANGE"),
        ("mark", 7, 8, "MARK"),
        ("long mark", 7, 8, "MARK"),
        ("by number", 7, 8, "RANGE"),  # the call of the OS runtime, without a correlation
    }
    names = [table.name(i) for i in range(len(table))]
    assert table.end_ns[names.index("long mark")] == 460
    assert table.kernels is None


def test_an_export_without_events_or_of_another_program(tmp_path: Path) -> None:
    other = with_tables(tmp_path / "other.sqlite", ["a"])
    with pytest.raises(errors.FormatError, match="nsys export --type sqlite"):
        fastprof.load_nsys(other)
    backwards = write_nsys(tmp_path / "b.sqlite", ["f"], OSRT_API=[(20, 10, THREAD, 1, 0, 0)])
    with pytest.raises(
        errors.FormatError, match=r"b\.sqlite: .*'os_runtime' ends before it begins"
    ):
        fastprof.load(backwards)
