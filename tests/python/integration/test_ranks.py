# SPDX-License-Identifier: Apache-2.0
"""Answers about many ranks: steps, collectives, stragglers and paths, against brute force and simulated jobs."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python
from rank_tables import COPY, GEMM, OP, REDUCE, Row, call, job_of, opened, profiler_step, table_of
from simulated_jobs import SimulatedJob

import fastprof

pytestmark = pytest.mark.integrations
pytest.importorskip("pyarrow", reason="pyarrow is not installed")


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_steps_equal_brute_force(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    rows: list[Row] = [
        (profiler_step(n), 100 * n, 100 * n + draw.randint(50, 100)) for n in range(4)
    ]
    for _ in range(draw.randint(1, 60)):
        start = draw.randint(0, 400)
        rows.append((draw.choice((GEMM, COPY, REDUCE, OP)), start, start + draw.randint(0, 40)))
    rows.append((GEMM, 1000, 1001))  # work of a device
    job = job_of(tmp_path, [table_of(rows)])
    for at, (_, start, end) in enumerate(rows[:4]):
        running = [{kind for kind, s, e in rows if s <= t < e} for t in range(start, end)]
        expected = {
            "duration_ns": end - start,
            "compute_ns": sum(GEMM in each for each in running),
            "communication_ns": sum(REDUCE in each for each in running),
            "exposed_ns": sum(REDUCE in each and GEMM not in each for each in running),
            "copies_ns": sum(COPY in each for each in running),
            "exposed_copies_ns": sum(each & {GEMM, COPY, REDUCE} == {COPY} for each in running),
            "idle_ns": sum(not each & {GEMM, COPY, REDUCE} for each in running),
        }
        assert {name: int(job.parts(name)[0, at]) for name in expected} == expected


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_steps_without_a_device_equal_brute_force(tmp_path: Path, seed: int) -> None:
    """Ops compute, but not while a call of c10d runs; gloo's work communicates, and is in no times by name."""
    draw = random.Random(seed)
    issue, gloo = ("c10d::allreduce_", "cpu_op"), ("gloo:all_reduce", "user_annotation")
    rows: list[Row] = [
        (profiler_step(n), 100 * n, 100 * n + draw.randint(50, 100)) for n in range(4)
    ]
    for _ in range(draw.randint(1, 60)):
        start = draw.randint(0, 400)
        rows.append((draw.choice((OP, issue, gloo)), start, start + draw.randint(0, 40)))
    job = job_of(tmp_path, [table_of(rows)])
    for at, (_, start, end) in enumerate(rows[:4]):
        running = [{kind for kind, s, e in rows if s <= t < e} for t in range(start, end)]
        computes = [OP in each and issue not in each for each in running]
        both = [computes[t] or gloo in each for t, each in enumerate(running)]
        expected = {
            "compute_ns": sum(computes),
            "communication_ns": sum(gloo in each for each in running),
            "exposed_ns": sum(both) - sum(computes),
            "copies_ns": 0,
            "idle_ns": end - start - sum(both),
        }
        assert {name: int(job.parts(name)[0, at]) for name in expected} == expected
    spent = dict.fromkeys((OP[0], issue[0]), 0)
    for (name, _), start, end in rows[4:]:
        if name in spent and any(low <= start < high for _, low, high in rows[:4]):
            spent[name] += end - start
    found = {name: ns.tolist() for name, ns in job.name_ns.items()}
    assert found == {name: [ns / 4] for name, ns in spent.items() if ns}


def test_steps_of_optimizers_are_steps_where_the_program_names_none(tmp_path: Path) -> None:
    """From the end of one to the end of the next; those of another optimizer do not count."""
    ours, other = ((f"Optimizer.step#{kind}.step", "user_annotation") for kind in ("SGD", "Adam"))
    rows = [(OP, 0, 10), *((ours, at, at + 5) for at in (100, 200, 320)), (other, 107, 109)]
    rows += [(GEMM, 110, 150), (GEMM, 210, 300)]
    job = job_of(tmp_path, [table_of(rows)])
    assert job.parts("duration_ns").tolist() == [[100, 120]]
    assert job.parts("compute_ns").tolist() == [[40, 90]]
    job = job_of(tmp_path / "one", [table_of(rows[:2])])  # one end makes no step
    assert job.parts("duration_ns").tolist() == [[105]]


def test_collectives_are_matched_by_group_and_sequence(tmp_path: Path) -> None:
    """Two groups whose calls interleave differently; rank 2 is in one of them only."""
    orders = ([("a", 1), ("b", 7), ("a", 2)], [("b", 7), ("a", 1), ("a", 2)], [("b", 7)])
    tables = []
    for rank, order in enumerate(orders):
        rows = [(REDUCE, 100 * n, 100 * n + 50 - 10 * rank) for n in range(len(order))]
        tables.append(table_of(rows, [call(*each) for each in order]))
    matched = job_of(tmp_path, tables).collectives
    found = {
        (matched.groups[group], sequence, rank): (wait, size)
        for group, sequence, rank, wait, size in zip(
            matched.group.tolist(), matched.sequence.tolist(), matched.rank.tolist(),
            matched.wait_ns.tolist(), matched.size_bytes.tolist(), strict=True,
        )
    }  # fmt: skip
    assert found == {
        ("a", 1, 0): (10, 20), ("a", 1, 1): (0, 20), ("a", 2, 0): (10, 20), ("a", 2, 1): (0, 20),
        ("b", 7, 0): (20, 20), ("b", 7, 1): (10, 20), ("b", 7, 2): (0, 20),
    }  # fmt: skip


def test_bandwidths_are_those_of_nccl_tests(tmp_path: Path) -> None:
    """4 ranks contribute 20 bytes to a call of 100 ns, for which three of them wait: S and the factor of the bus."""
    table = {
        "all_reduce": (20, 1.5), "all_gather": (80, 0.75), "reduce_scatter": (20, 0.75),
        "all_to_all": (20, 0.75), "broadcast": (20, 1), "reduce": (20, 1), "barrier": (None, None),
    }  # fmt: skip
    calls: list[dict[str, Any] | None] = [call(kind, 1, kind) for kind in table]
    for rank in range(4):
        rows: list[Row] = [(REDUCE, 2000 * n + 9 * rank, 2000 * n + 127) for n in range(len(calls))]
        fastprof.ranks.write(table_of(rows, calls), tmp_path / "r", rank=rank, world_size=4)
    done = python("-m", "fastprof", "ranks", "r", "--as-json", cwd=tmp_path, check=True)
    found = json.loads(done.stdout)["collectives"]
    assert {each["kind"] for each in found} == set(table)
    for each in found:
        size, factor = table[each["kind"]]
        assert each["least_ns"] == 100 and each["ranks"] == 4
        algorithm, bus = each["algorithm_bytes_per_s"], each["bus_bytes_per_s"]
        assert algorithm == (size and size * 1e7)
        assert bus == (size and factor and size * factor * 1e7)


def test_missing_and_mismatched_participants_are_named(tmp_path: Path) -> None:
    def rank(calls: list[dict[str, Any]]) -> fastprof.EventTable:
        return table_of([(REDUCE, 100 * n, 100 * n + 9) for n in range(len(calls))], calls)

    whole = [call("dp", n) for n in range(1, 6)]
    job = job_of(
        tmp_path,
        [
            rank(whole),
            rank([*whole[:2], *whole[3:]]),
            rank([call("dp", 1), call("dp", 2, "broadcast"), *whole[2:]]),
            rank(whole[:4]),
        ],
    )
    text = "\n".join(job.problems)
    assert "all_reduce 3 of group dp: without rank 1" in text
    assert "1 collective of group dp differ between ranks, the first is number 2" in text
    assert "rank 3 ended earlier than the rest of group dp, the first after collective 4" in text


def test_missing_short_and_damaged_ranks_are_named(tmp_path: Path) -> None:
    def write(rank: int, steps: int) -> None:
        rows = [(profiler_step(n), 9 * n, 9 * n + 9) for n in range(steps)]
        fastprof.ranks.write(table_of(rows), tmp_path, rank=rank, world_size=7)

    for rank, steps in enumerate((3, 3, 2, 3, 3)):
        write(rank, steps)
    (tmp_path / "rank-00001.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "rank-00003.json").write_text('{"format": "fastprof rank 1", "shard": 3}')
    (tmp_path / "rank-00004.parquet").unlink()
    (tmp_path / "rank-00005.parquet").write_bytes(b"")
    job = fastprof.ranks.open(tmp_path)
    assert job.ranks == [0, 2]
    for part in (
        "rank 1: ", "rank-00003.json: a damaged manifest", "rank 4: rank-00004.parquet is missing",
        "rank-00005.parquet: without a manifest", "rank 2 is short: 2 steps of 3",
        "ranks 1, 3-6 of 7 not in the folder",
    ):  # fmt: skip
        assert any(part in each for each in job.problems), (part, job.problems)
    with pytest.raises(fastprof.errors.FormatError, match="is short"):
        fastprof.ranks.open(tmp_path, strict=True)
    for path in tmp_path.glob("*.parquet"):
        path.write_bytes(b"PAR1 no")
    with pytest.raises(fastprof.errors.FormatError, match=r"no rank can be read: .*rank 0: "):
        fastprof.ranks.open(tmp_path)
    with pytest.raises(fastprof.errors.FormatError, match="rank_trace_handler"):
        fastprof.ranks.open(tmp_path / "..")


@pytest.mark.parametrize(("ranks", "trials"), [(8, 6), (64, 2), (256, 1)])
def test_a_rank_of_five_percent_is_found(tmp_path: Path, ranks: int, trials: int) -> None:
    for trial in range(trials):
        slow = (7 * trial + 3) % ranks
        job = SimulatedJob(ranks, kernels=6, segments=2, seed=trial, slow={slow: 1.05})
        found = opened(job, tmp_path / str(trial)).stragglers
        assert [each.rank for each in found] == [slow]
        assert found[0].own_ns / found[0].median_ns == pytest.approx(1.05, abs=0.01)


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_the_cost_of_a_straggler_is_what_steps_gain_without_it(tmp_path: Path, ranks: int) -> None:
    slow, usual = (SimulatedJob(ranks, kernels=6, slow=each) for each in ({1: 1.2}, {}))
    (found,) = opened(slow, tmp_path).stragglers
    gain = float((slow.end - slow.begin).mean() - (usual.end - usual.begin).mean())
    assert found.rank == 1 and found.cost_ns == pytest.approx(gain, rel=0.1)


def test_ranks_without_a_straggler(tmp_path: Path) -> None:
    for trial in range(8):
        SimulatedJob(8, kernels=6, seed=trial).write(str(tmp_path / str(trial)))
        assert fastprof.ranks.open(tmp_path / str(trial)).stragglers == []


@pytest.mark.parametrize("stage", ["data", "forward", "backward", "optimizer"])
def test_the_stage_and_rank_of_a_planted_delay(tmp_path: Path, stage: str) -> None:
    """The stage with the most exposed time beyond the usual, and its rank; the stages add up to the step."""
    slow = opened(
        SimulatedJob(6, 20, kernels=6, delays={(4, stage): 20_000_000}), tmp_path / "slow"
    )
    usual = opened(SimulatedJob(6, 20, kernels=6), tmp_path / "usual")
    growth = slow.exposed.exposed_ns.sum(axis=0) - usual.exposed.exposed_ns.sum(axis=0)
    at = ["data", "forward", "backward", "optimizer", "rest"].index(stage)
    assert int(np.argmax(growth)) == at
    assert (slow.exposed.rank[:, at] == 4).mean() > 0.9
    longest = slow.parts("duration_ns").max(axis=0)
    assert (slow.exposed.exposed_ns.sum(axis=1) == longest).all()


@pytest.mark.parametrize("seed", range(12))
def test_the_critical_path_is_the_longest_by_brute_force(tmp_path: Path, seed: int) -> None:
    """Random collectives of random groups of three ranks; all paths of own work and transfers are tried."""
    draw = random.Random(seed)
    now, rows, calls = [0] * 3, [[], [], []], [[], [], []]  # type: ignore[var-annotated]
    # The longest way to now of each rank, with the ns of it by rank; transfers are rank -1.
    longest = [{0: 0, 1: 0, 2: 0, -1: 0} for _ in range(3)]
    for number in range(12):
        group = draw.choice(([0, 1, 2], [0, 1], [1, 2], [0, 2]))
        group = [0, 1, 2] if number % 3 == 0 else group  # clocks need four in common
        for rank in group:
            work = draw.randint(1000, 90_000)
            rows[rank].append([now[rank] + work, 0])
            longest[rank] = {**longest[rank], rank: longest[rank][rank] + work}
            now[rank] += work
        last = max(group, key=lambda rank: now[rank])
        leave, way = now[last] + 500, longest[last]
        for rank in group:
            rows[rank][-1][1] = leave
            calls[rank].append(call("-".join(map(str, group)), number))
            longest[rank] = {**way, -1: way[-1] + 500}
            now[rank] = leave
    tables = []
    for rank in range(3):
        work = draw.randint(1000, 90_000)
        now[rank] += work
        longest[rank] = {**longest[rank], rank: longest[rank][rank] + work}
    for rank in range(3):
        step: Row = (profiler_step(0), 0, now[rank])
        tables.append(
            table_of([step, *((REDUCE, *each) for each in rows[rank])], [None, *calls[rank]])
        )
    job = job_of(tmp_path, tables)
    assert job.uncalibrated == []
    path = job.critical_path(0)
    found = {0: 0, 1: 0, 2: 0, -1: 0}
    for piece in path:
        found[-1 if piece.collective else piece.rank] += piece.end_ns - piece.start_ns
    last = max(range(3), key=lambda rank: now[rank])
    assert found == longest[last] and sum(found.values()) == now[last]
    assert all(a.end_ns == b.start_ns for a, b in itertools.pairwise(path))


def test_the_critical_path_of_a_job_adds_up_to_its_steps(tmp_path: Path) -> None:
    simulated = SimulatedJob(
        5, 20, kernels=6, slow={3: 1.5}, offset_ns=np.array([0, 7, -3, 5, 1]) * 10**8
    )
    job = opened(simulated, tmp_path)
    for step in range(20):
        path = job.critical_path(step)
        last = int(simulated.end[:, step].argmax())
        length = simulated.end[last, step] - simulated.begin[path[0].rank, step]
        assert path[-1].rank == last
        total = sum(each.end_ns - each.start_ns for each in path)
        assert total == pytest.approx(length, rel=1e-3)
        own = sum(e.end_ns - e.start_ns for e in path if e.rank == 3 and not e.collective)
        assert own > 0.8 * total


def test_traces_whose_converted_shards_were_deleted_are_converted_again(tmp_path: Path) -> None:
    for rank in range(2):
        table_of([(profiler_step(0), 0, 100), (GEMM, 10, 20 + rank)]).export(
            tmp_path / f"rank{rank}.json"
        )
    parts = fastprof.ranks.open(tmp_path).parts("compute_ns").tolist()
    assert parts == [[10], [11]]
    for path in (tmp_path / ".fastprof-ranks").glob("*.parquet"):
        path.unlink()
    again = fastprof.ranks.open(tmp_path)
    assert again.parts("compute_ns").tolist() == parts and again.problems == []


def test_profiles_of_one_host_have_one_clock(tmp_path: Path) -> None:
    code = """
import sys, fastprof
with fastprof.profile() as prof, fastprof.record_function("ProfilerStep#0"):
    pass
fastprof.ranks.write(prof, "r", rank=int(sys.argv[1]), world_size=2)
"""
    for rank in range(2):
        python("-c", code, rank, cwd=tmp_path, check=True)
    job = fastprof.ranks.open(tmp_path / "r")
    assert job.problems == [] and job.clocks[1].how == "host"


def test_collectives_before_the_first_step_are_of_none(tmp_path: Path) -> None:
    reduce = ("gloo:all_reduce", "user_annotation")
    rows = [(reduce, 1, 2), (profiler_step(0), 10, 20), (reduce, 12, 13)]
    job = job_of(tmp_path, [table_of(rows), table_of(rows[1:])])
    assert job.problems == [] and job.collectives.unmatched == 0 and len(job.collectives) == 2
