# SPDX-License-Identifier: Apache-2.0
"""Damaged shards: no answer fails, the rank is named, and answers about other ranks stay as they are."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from processes import python
from rank_tables import GEMM, REDUCE, Row, call, job_of, profiler_step, table_of

import fastprof

pytestmark = pytest.mark.integrations
arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

RANKS, STEPS, DAMAGED = 3, 3, 1
OUTSIDE = {"thread": (-1, 1 << 30), "parent": (-2, 1 << 20), "waits_for": (-3, 1 << 20)}
OUTSIDE |= dict.fromkeys(("start_ns", "duration_ns"), (-(1 << 63), (1 << 63) - 1))
JUNK: list[Any] = [None, "x", -1, 1 << 70, 0.5, True, [], {}, [[1]], {"a": "b"}, "\ud800"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a job with ops in ops, launches, recorded waits and collectives."""
    tables = []
    for rank in range(RANKS):
        rows: list[Row] = []
        calls: list[dict[str, Any] | None] = []
        for step in range(STEPS):
            at, number = 1000 * step, 10 * step + 1
            many: list[tuple[Row, dict[str, Any] | None]] = [
                ((profiler_step(step), at, at + 900), None),
                ((("aten::mm", "cpu_op"), at + 10, at + 200), None),
                ((("aten::add", "cpu_op"), at + 20, at + 100), None),
                ((("cudaLaunchKernel", "cuda_runtime"), at + 30, at + 40), {"correlation": number}),
                ((GEMM, at + 50, at + 300 + 20 * rank), {"correlation": number}),
                ((REDUCE, at + 330 + 20 * rank, at + 400), call("dp", step)),
                ((("Event Sync", "cuda_sync"), at + 410, at + 420), {"correlation": number + 1}),
                ((("cudaEventSynchronize", "cuda_runtime"), at + 410, at + 500), {"correlation": number + 1}),
            ]  # fmt: skip
            rows += [row for row, _ in many]
            calls += [arguments for _, arguments in many]
        tables.append(table_of(rows, calls))
    folder = tmp_path_factory.mktemp("sound") / "ranks"
    job = job_of(folder, tables)
    assert job.problems == [] and job.step_graph(1).path()
    for path in folder.glob("*.json"):
        clock = {key: {"realtime_ns": 1, "monotonic_ns": 1} for key in ("start", "end")}
        path.write_text(json.dumps({**json.loads(path.read_text()), "clock": clock}))
    return folder


def of_type(kind: Any, value: Any) -> Callable[[Any, random.Random], Any]:
    """Return a damage: the column has another type."""
    return lambda column, _: arrow.array([value] * len(column), kind)


def outside(name: str) -> Callable[[Any, random.Random], Any]:
    """Return a damage: one number is outside of what the column can have."""

    def damage(column: Any, draw: random.Random) -> Any:
        values = column.to_pylist()
        values[draw.randrange(len(values))] = draw.choice(OUTSIDE[name])
        return arrow.array(values, column.type)

    return damage


def circle(column: Any, draw: random.Random) -> Any:
    """Return parents of which some enclose themselves."""
    values = column.to_pylist()
    chosen = draw.sample(range(len(values)), draw.randint(1, 5))
    for at, row in enumerate(chosen):
        values[row] = chosen[at - 1]
    return arrow.array(values, column.type)


def empty(column: Any, draw: random.Random) -> Any:
    """Return a column with nulls."""
    values = column.to_pylist()
    values[draw.randrange(len(values))] = None
    return arrow.array(values, column.type)


TYPES = (
    *((arrow.string(), "7"), (arrow.float64(), 0.5), (arrow.bool_(), True), (arrow.uint64(), 7)),
    *((arrow.date32(), 7), (arrow.list_(arrow.int64()), [1, 2])),
    (arrow.struct([("a", arrow.int64())]), {"a": 1}),
)
READ = [name for name in fastprof.ranks.COLUMNS if name != "rank"]  # which only other tools read
NEEDED = [name for name in READ if name not in ("sequence", "size_bytes", "waits_for")]
CASES = [(name, f"as {kind}", of_type(kind, value)) for name in READ for kind, value in TYPES]
CASES += [(name, "outside", outside(name)) for name in OUTSIDE]
CASES += [(name, "null", empty) for name in NEEDED if name not in ("collective", "group")]
CASES += [("parent", "circle", circle), ("", "rows", lambda table, _: table.slice(2))]
CASES += [(name, "absent", lambda table, _: table) for name in NEEDED]


def names_damage(folder: Path, tmp_path: Path, good: fastprof.ranks.Job) -> list[str]:
    """Return the problems of a folder after all answers, which are the good ones for ranks without damage."""
    job = fastprof.ranks.open(folder)
    assert len(job.stragglers) + len(job.exposed.rank) + len(job.waiting_ns) >= 0
    fastprof.ranks.export_html(job, tmp_path / "r.html")
    fastprof.ranks.timeline(job).export(tmp_path / "r.json")
    for rank in set(job.ranks) - {DAMAGED}:
        for part in ("duration_ns", "compute_ns", "exposed_ns"):
            own, known = (each.parts(part)[each.ranks.index(rank)] for each in (job, good))
            assert sorted(own[own >= 0]) == sorted(known)
    for step in job.steps.tolist() if job.clocks else ():
        job.critical_path(step)
    return job.problems


@pytest.mark.parametrize("name", [*READ, ""])
def test_a_damaged_column(tmp_path: Path, sound: Path, name: str) -> None:
    """Also in shards without a checksum, as earlier versions wrote them, and in columns that one answer reads."""
    draw, good = random.Random(name), fastprof.ranks.open(sound)
    for _, what, damage in (case for case in CASES if case[0] == name):
        folder = shutil.copytree(sound, tmp_path / "ranks", dirs_exist_ok=True)
        path = folder / f"rank-{DAMAGED:05}.parquet"
        table = parquet.read_table(path)
        if what == "absent":
            table = table.drop_columns([name])
        elif not name:
            table = damage(table, draw)
        else:
            at = table.column_names.index(name)
            table = table.set_column(at, name, damage(table[name], draw))
        parquet.write_table(table, path)
        said = f"rank {DAMAGED}: {path}: not a readable shard: "
        if what == "rows":
            assert any(each.startswith(said) for each in fastprof.ranks.open(folder).problems)
        manifest = path.with_suffix(".json")
        described = {**json.loads(manifest.read_text()), "crc32": None}
        manifest.write_text(json.dumps(described))
        problems = names_damage(folder, tmp_path, good)
        assert any(each.startswith(said) for each in problems), (what, problems)
    done = python("-m", "fastprof", "ranks", "ranks", "--strict", cwd=tmp_path)
    assert done.returncode and f"{path.name}: not a readable shard: " in done.stderr


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_of_a_shard_are_named(tmp_path: Path, sound: Path, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(15):
        folder = shutil.copytree(sound, tmp_path / "ranks", dirs_exist_ok=True)
        path = folder / f"rank-{DAMAGED:05}.parquet"
        data = bytearray(path.read_bytes())
        for _ in range(draw.choice((1, 1, 3))):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data[: draw.choice((len(data), len(data), draw.randrange(len(data))))])
        job = fastprof.ranks.open(folder)
        assert job.ranks == [0, 2] and f"rank {DAMAGED}: {path}: not a readable" in job.problems[0]
        with pytest.raises(fastprof.errors.FormatError, match="not a readable shard"):
            fastprof.ranks.open(folder, strict=True)


def members(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every member of a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from members(value[key])


@pytest.mark.parametrize("seed", range(3))
def test_a_manifest_of_other_values(tmp_path: Path, sound: Path, seed: int) -> None:
    """Wrong types are named; with other values of the right type, answers may differ, but none fails."""
    draw, good = random.Random(seed), fastprof.ranks.open(sound)
    for _ in range(15):
        folder = shutil.copytree(sound, tmp_path / "ranks", dirs_exist_ok=True)
        path = folder / f"rank-{DAMAGED:05}.json"
        described = json.loads(path.read_text())
        inside, key = draw.choice([each for each in members(described) if each[1] != "format"])
        inside[key] = draw.choice(JUNK)
        path.write_text(json.dumps(described))
        with suppress(fastprof.errors.Error):
            names_damage(folder, tmp_path, good)


KILLED = {"last_ns": 0, "alive": False, "step": 5, "collective": "x", "collectives": 3}
KILLED |= {"collective_ended": True, "collective_start_ns": 0}
ABSENT = [{"killed": {k: v for k, v in KILLED.items() if k != name}} for name in KILLED]
HUGE: list[dict[str, Any]] = [{"world_size": (1 << 24) - 1}, {"clock_error_ns": (1 << 62) - 1}]


@pytest.mark.parametrize("wrong", [*ABSENT, *HUGE, {"shard": ""}], ids=str)
def test_a_manifest_that_lacks_a_member(tmp_path: Path, sound: Path, wrong: Any) -> None:
    """Of an entry of a killed rank, or whose value is far outside of what is possible: the manifest is named."""
    folder = shutil.copytree(sound, tmp_path / "ranks")
    path = folder / f"rank-{DAMAGED:05}.json"
    described = {**json.loads(path.read_text()), "records": "records-1", "killed": KILLED}
    path.write_text(json.dumps(described))
    assert fastprof.ranks.open(folder).ranks == [0, 1, 2]
    path.write_text(json.dumps({**described, **wrong}))
    said = f"{path.name}: a damaged manifest ({next(iter(wrong))} is "
    assert names_damage(folder, tmp_path, fastprof.ranks.open(sound))[0].startswith(said)


def test_manifests_whose_shards_are_gone(tmp_path: Path, sound: Path) -> None:
    folder = shutil.copytree(sound, tmp_path / "ranks", ignore=shutil.ignore_patterns("*.parquet"))
    said = "; ".join(f"rank {n}: rank-{n:05}.parquet is missing: left out" for n in range(RANKS))
    with pytest.raises(fastprof.errors.FormatError, match=f"no rank can be read: {said}. Record"):
        fastprof.ranks.open(folder)
    assert len(list(folder.iterdir())) == RANKS
