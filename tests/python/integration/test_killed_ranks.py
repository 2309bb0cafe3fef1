# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed while they record: each is named in every answer, and what it had recorded is read."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gloo_jobs import BEGIN, require_gloo, run_job
from processes import python
from rank_tables import OP, Row, job_of, profiler_step, table_of
from recorder_programs import command, listed

import fastprof
from fastprof.ranks.call_snapshots import last_calls
from fastprof.ranks.host_groups import RecordedCall, host_groups

pytestmark = pytest.mark.integrations
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

JOB = """
def work(rank, size, store):
    begin(rank, size, store)
    chosen = fastprof.schedule(wait=1, warmup=1, active=10, repeat=1)
    handler = fastprof.rank_trace_handler("ranks")
    with fastprof.profile(schedule=chosen, on_trace_ready=handler) as prof:
        for step in range(12):
            with fastprof.record_function("forward"):
                dist.all_reduce(torch.ones(4))
            if rank == 2 and step == 7:
                with fastprof.record_function("data"):
                    os.kill(os.getpid(), signal.SIGKILL)
            prof.step()

if __name__ == "__main__":
    import multiprocessing
    spawn = multiprocessing.get_context("spawn")
    ranks = [spawn.Process(target=work, args=(rank, 4, sys.argv[1])) for rank in range(4)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join(300)
    print([each.exitcode for each in ranks])
"""


def ranks_command(folder: Path, *options: str) -> str:
    return python("-m", "fastprof", "ranks", "ranks", *options, cwd=folder, check=True).stdout


def test_a_killed_rank_of_a_real_job(tmp_path: Path) -> None:
    assert run_job(tmp_path, JOB) == "[1, 1, -9, 1]\n"
    values = json.loads(ranks_command(tmp_path, "--as-json"))
    (killed,) = values["killed"]
    assert (killed["rank"], killed["step"], killed["alive"]) == (2, 7, False)
    assert (killed["collective"], killed["collectives"]) == ("all_reduce 0", 6)  # of steps 2 to 7
    sentence = values["problems"][0]
    assert sentence.startswith("rank 2 was killed") and "in step 7, after all_reduce 0" in sentence
    assert sentence in ranks_command(tmp_path)
    assert sentence in ranks_command(tmp_path, "--html", "ranks.html")
    job = fastprof.ranks.open(tmp_path / "ranks")
    assert job.ranks == [0, 1, 2, 3]
    durations = job.parts("duration_ns")[2].tolist()
    assert [ns >= 0 for ns in durations] == [step < 7 for step in job.steps.tolist()]
    # Steps from the killed rank's last one on are in no mean: collectives of survivors fail in them.
    means = [int(row[job.steps < 7].mean()) for row in job.parts("duration_ns")]
    table = fastprof.recover(tmp_path / "ranks" / killed["records"])
    # Each reading of killed ranks' records looks at the clock once more.
    error_ns = 2 * table.clock_error_ns + 1
    for row, mean in zip(values["ranks"], means, strict=True):
        assert abs(row["duration_ns"] - mean) <= (error_ns if row["rank"] == 2 else 0)
    assert abs(killed["last_ns"] - table.t1_ns) <= error_ns
    assert sum(table.name(row) == "forward" for row in range(len(table))) == 6
    assert list(job.collectives.rank[job.collectives.group == 0]).count(2) == 6
    with pytest.raises(fastprof.errors.FormatError, match="rank 2 was killed"):
        fastprof.ranks.open(tmp_path / "ranks", strict=True)


SEVERAL_GROUPS = """            if step == 4:
                start_ns, mine = time.time_ns(), f"ranks/calls-*-{os.getpid()}.[0-9]"
                while not any(json.load(open(each))["taken_ns"] > start_ns for each in glob.glob(mine)):
                    time.sleep(0.01)
            for _ in range(20 if step == 3 else 0):  # so that both threads of each group have calls
                dist.all_reduce(torch.ones(4))
                dist.all_reduce(torch.ones(4), group=pair)
            dist.all_reduce(torch.ones(4), group=pair)
            dist.broadcast(torch.ones(4), rank // 2 * 2, group=pair)
            with fastprof.record_function("forward"):
"""


def test_collectives_of_a_killed_rank_in_a_job_of_several_groups(tmp_path: Path) -> None:
    """torch's flight recorder, which alone knows the groups, was copied before; later collectives follow from it."""
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    require_gloo()
    if not hasattr(torch._C._distributed_c10d, "_dump_fr_trace_json"):
        pytest.skip("torch has no flight recorder for gloo")
    groups = (
        "    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]; pair = pairs[rank // 2]\n"
    )
    forward = '            with fastprof.record_function("forward"):\n'
    program = JOB.replace(forward, SEVERAL_GROUPS).replace("    chosen =", f"{groups}    chosen =")
    assert run_job(tmp_path, program) == "[1, 1, -9, 1]\n"
    job = fastprof.ranks.open(tmp_path / "ranks")
    assert [each["rank"] for each in job.killed] == [2]
    calls = job.collectives
    found = {}  # ranks of each call, by group
    for row in range(len(calls.call)):
        key = calls.groups[calls.group[row]], int(calls.sequence[row])
        found.setdefault(key, set()).add(int(calls.rank[row]))
    counts = sorted(
        (group, sum(len(ranks) > 1 for (g, _), ranks in found.items() if g == group and 2 in ranks))
        for group in {group for group, _ in found}
    )
    (copy,) = tmp_path.glob("ranks/calls-*")
    damaged = json.loads(copy.read_text())
    damaged["calls"][-1][3] = 2**70
    copy.write_text(json.dumps(damaged))
    shutil.rmtree(tmp_path / "ranks" / ".fastprof-records", ignore_errors=True)
    problems = " ".join(fastprof.ranks.open(tmp_path / "ranks").problems)
    assert f"damaged: {copy.name}: calls is" in problems and "has no collective" not in problems
    # Of steps 2 to 7: rank 2's own pair has two each, all ranks one, and 20 more in step 3; the other pair lacks it.
    assert sorted(count for _, count in counts) == [0, 26, 32]
    killed = next(each for each in job.manifests if each["rank"] == 2)
    assert [sorted(each["ranks"]) for each in killed["groups"]] == [[0, 1, 2, 3], [2, 3]]


@pytest.mark.parametrize("seed", range(20))
def test_groups_of_calls_are_right_or_unknown(seed: int) -> None:
    """Two threads run the work of each group; the last group is called seldom."""
    draw, name = random.Random(seed), "gloo:all_reduce"
    groups = draw.choices("012", (90, 90, 2), k=2000)
    numbers = [groups[: at + 1].count(group) for at, group in enumerate(groups)]
    threads = np.array([2 * int(group) + draw.randrange(2) for group in groups])
    start = np.arange(2000) * 100
    calls = [RecordedCall(100 * at - 10, name, groups[at], numbers[at]) for at in range(2000)]
    most, end = draw.choice(((1, 500), (3, 1500), (8, 1500), (64, 1500), (64, 1900)))
    kept = last_calls(calls[:end], most)
    found, sequence = host_groups([name] * 2000, start, threads, kept, 100 * end - 50)
    right = list(zip(groups, numbers, strict=True))
    pairs = zip(found, sequence.tolist(), right, strict=True)
    assert all((group, number) in (expected, ("", -1)) for group, number, expected in pairs)
    if most == 64:  # of the last group 10 or more: both threads
        assert "" not in found


DDP_JOB = """
def work(rank, size, store):
    begin(rank, size, store)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    step = 0
    while True:
        model(torch.ones(32, 64)).sum().backward()
        optimizer.step()
        step += 1
        if step == 8:
            open(f"started-{rank}-{os.getpid()}", "w").close()
        if rank == 2 and step > 8 and os.path.exists("asked"):
            with fastprof.record_function("data"):
                os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    spawn = torch.multiprocessing.get_context("spawn")
    ranks = [spawn.Process(target=work, args=(rank, 4, sys.argv[1])) for rank in range(4)]
    for each in ranks:
        each.start()
    print([each.join(300) or each.exitcode for each in ranks])
"""


def test_flight_recorders_of_a_job_with_a_killed_rank(folder: Path, tmp_path: Path) -> None:
    """The parent ends orderly, which once removed what the killed rank had left."""
    require_gloo()
    (tmp_path / "job.py").write_text(BEGIN + DDP_JOB)
    words = [sys.executable, "job.py", str(tmp_path / "store")]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as job:
        while len(marks := list(tmp_path.glob("started-*"))) < 4:
            assert job.poll() is None
            time.sleep(0.05)
        rank_of = {int(mark.name.split("-")[2]): int(mark.name.split("-")[1]) for mark in marks}
        assert {row["pid"] for row in listed() if row["state"] == "recording"} == {
            *rank_of,
            job.pid,
        }
        (tmp_path / "asked").touch()
        assert job.communicate(timeout=300)[0] == "[1, 1, -9, 1]\n"
    (left,) = folder.glob("*.records")
    assert rank_of[int(left.name.split("-")[0])] == 2
    table = fastprof.recover(left)
    names = {table.name(row) for row in range(len(table))}
    assert {"data", "ProfilerStep#8"} <= names and table.unfinished == 2
    dumps = {
        rank_of[int(path.name.split("-")[1])]: path for path in tmp_path.glob("*-exception.flight")
    }
    assert sorted(dumps) == [0, 1, 3]
    for path in dumps.values():
        text = command("report", path)
        assert "exception: RuntimeError: " in text and "in SpawnProcess-" in text


def test_a_collective_of_gloo_is_named_by_step_and_place(tmp_path: Path) -> None:
    reduce = ("gloo:all_reduce", "user_annotation")
    tables = [
        table_of([
            *((profiler_step(step), 1000 * step, 1000 * step + 900) for step in (7, 8)),
            *((reduce, start, start + 50) for start in starts),
        ])
        for starts in ([7100, 7200, 8100], [7100, 8100])
    ]  # fmt: skip
    job = job_of(tmp_path, tables)
    assert job.problems == ["all_reduce 1 of step 7 of the group: without rank 1"]


def test_what_survivors_do_after_a_kill_is_no_reason_to_be_slow(tmp_path: Path) -> None:
    """Rank 0's op takes 100 longer in the steps that all ranks have; later it saves a checkpoint."""
    tables = []
    for rank in range(3):
        rows: list[Row] = []
        for step in range(1, 3 if rank == 1 else 5):
            rows += [(profiler_step(step), 1000 * step, 1000 * step + 900)]
            rows += [(OP, 1000 * step, 1000 * step + (300 if rank == 0 else 200))]
            if step > 2 and rank == 0:
                rows += [(("save", "cpu_op"), 1000 * step + 400, 1000 * step + 800)]
        tables.append(table_of(rows))
    job_of(tmp_path, tables)
    path = tmp_path / "rank-00001.json"
    end = {"last_ns": 2900, "step": 2, "collective": "", "alive": False, "collectives": 0}
    end |= {"collective_ended": False, "collective_start_ns": 0}
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "records": "records-1", "killed": end})
    )
    job = fastprof.ranks.open(tmp_path)
    assert job.complete_steps.tolist() == [1, 2]
    assert job.why(0) == [("aten::mm", 100)] and job.why(2) == []


PROGRAM = """
import os, signal, sys, time, fastprof
open("started-" + os.environ["RANK"], "w").close()
while not all(os.path.exists(f"started-{rank}") for rank in sys.argv[2].split()):
    time.sleep(0.01)
for step in range(5):
    with fastprof.record_function(f"ProfilerStep#{step}"):
        with fastprof.record_function("work"):
            time.sleep(0.001)
        if step == 3 and os.environ["RANK"] == "1":
            exec(sys.argv[1])
"""


def started(folder: Path, rank: int, end: str, ranks: str, **more: Any) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    words = ["-m", "fastprof", "run", "--ranks", "ranks", "program.py", end, ranks]
    return subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment, text=True, **more
    )


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"])
def test_a_rank_of_fastprof_run_that_ends_at_once(tmp_path: Path, end: str) -> None:
    """Beside a rank that finishes, which leaves no records."""
    running = [started(tmp_path, rank, end, "0 1") for rank in (0, 1)]
    for each in running:
        each.wait(300)
    job = fastprof.ranks.open(tmp_path / "ranks")
    assert job.ranks == [0, 1] and job.world_size == 2
    assert [(each["rank"], each["step"], each["alive"]) for each in job.killed] == [(1, 3, False)]
    assert (job.parts("duration_ns") >= 0).tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert len(list((tmp_path / "ranks").glob("records-*"))) == 1


def test_damaged_facts_of_records_are_named(tmp_path: Path) -> None:
    started(tmp_path, 1, "os._exit(0)", "1").wait(300)
    (records,) = (tmp_path / "ranks").glob("records-*")
    whole = records.read_bytes()
    for good, bad in (
        (b'"groups": []', b'"groups": {}'),
        (b'"local_rank": -1', b'"local_rank": []'),
        (b'"world_size": 2', b'"world_size": 0'),
    ):
        assert whole.count(good) == 1
        records.write_bytes(whole.replace(good, bad))
        with pytest.raises(
            fastprof.errors.FormatError, match=r"records-.*(world_size|groups|rank)"
        ):
            fastprof.ranks.open(tmp_path / "ranks")
    records.write_bytes(whole)
    assert fastprof.ranks.open(tmp_path / "ranks").killed[0]["rank"] == 1


def test_a_rank_that_still_runs(tmp_path: Path) -> None:
    process = started(
        tmp_path, 1, "print(1, flush=True); time.sleep(600)", "1", stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        with process.stdout as printed:
            assert printed.readline() == "1\n"
        job = fastprof.ranks.open(tmp_path / "ranks")
        assert job.killed[0]["alive"] and job.killed[0]["step"] == 3
        assert job.problems[0].startswith("rank 1 has not finished")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(300)
    job = fastprof.ranks.open(tmp_path / "ranks")  # it wrote its shard at SIGTERM
    assert job.killed == [] and job.ranks == [1]
    assert not list((tmp_path / "ranks").glob("records-*"))


@pytest.mark.parametrize("program", ["def", "import sys; sys.exit('usage')"])
def test_a_program_that_does_not_start_leaves_no_records(tmp_path: Path, program: str) -> None:
    python("-m", "fastprof", "run", "--ranks", "ranks", "-c", program, cwd=tmp_path)
    assert not list(tmp_path.glob("ranks/records-*"))


def test_recording_goes_on_where_records_cannot_be_kept(tmp_path: Path) -> None:
    """Another profile has the process's backing file; and programs that ask for a spill file or a file of their own."""
    handler = fastprof.rank_trace_handler(tmp_path / "ranks")
    with fastprof.profile(backing_file=tmp_path / "first"):
        prof = fastprof.profile(on_trace_ready=handler)
        with pytest.warns(UserWarning, match="its records are lost"):
            prof.start()
        with fastprof.record_function("work"):
            pass
        prof.stop()
    assert "its records are lost" in prof.missing["backing_file"]
    for more in ({"overflow": "spill"}, {"backing_file": tmp_path / "own"}):
        with fastprof.profile(on_trace_ready=handler, **more):  # type: ignore[arg-type]
            assert not list(tmp_path.glob("ranks/records-*"))
    assert len(list(tmp_path.glob("ranks/*.json"))) == 3
    with fastprof.profile(on_trace_ready=handler):
        assert len(list(tmp_path.glob("ranks/records-*"))) == 1
    assert not list(tmp_path.glob("ranks/records-*"))
    (tmp_path / "ranks" / "records-torn").write_bytes(b"fastprof\2")
    assert any("records-torn" in each for each in fastprof.ranks.open(tmp_path / "ranks").problems)


def test_a_later_recording_of_a_process_without_a_launcher(tmp_path: Path) -> None:
    """The part that it had finished says which rank it was; a handler is found by its type, not by any attribute."""
    code = """
import os, signal, unittest.mock
import fastprof
called = unittest.mock.MagicMock()
with fastprof.profile(on_trace_ready=called):
    pass
assert called.call_count == 1
cycles = fastprof.schedule(wait=1, warmup=1, active=2, repeat=2)
handler = fastprof.rank_trace_handler("ranks")
with fastprof.profile(schedule=cycles, on_trace_ready=handler) as prof:
    for step in range(8):
        with fastprof.profile(backing_file="own") as inner, fastprof.record_function("forward"):
            pass
        assert ("rank_trace_handler" in inner.missing.get("backing_file", "")) == (step % 4 > 1)
        if step == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        prof.step()
"""
    assert python("-W", "ignore", "-c", code, cwd=tmp_path).returncode == -signal.SIGKILL
    killed = json.loads(ranks_command(tmp_path, "--as-json"))["killed"]
    assert [(each["rank"], each["step"]) for each in killed] == [(0, 7)]
