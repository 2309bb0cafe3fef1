# SPDX-License-Identifier: Apache-2.0
"""Real jobs of many ranks: what launchers tell a rank, shards of earlier jobs, and a slow rank of gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from gloo_jobs import BEGIN, require_gloo, run_job
from processes import python

import fastprof

pytestmark = pytest.mark.integrations
pytest.importorskip("pyarrow", reason="pyarrow is not installed")


# Prints 36 when all of the job's processes have come as far.
WAITING = """
import os, sys, time
open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
end = time.monotonic() + 300
while len(os.listdir(sys.argv[1])) < int(sys.argv[2]) and time.monotonic() < end:
    time.sleep(0.01)
print(sum(range(9)))
"""


def run_ranks(folder: Path, of_ranks: list[dict[str, str]]) -> None:
    """Run a program under `fastprof run --ranks` once for each dictionary of a launcher's variables, side by side."""
    launchers = ("RANK", "WORLD", "SLURM", "MASTER", "TORCHELASTIC", "PMIX")
    kept = {n: v for n, v in os.environ.items() if n.split("_")[0] not in launchers}
    with tempfile.TemporaryDirectory(dir=folder) as place:
        (folder / "waiting.py").write_text(WAITING)
        words = ["run", "--ranks", "ranks", "waiting.py", place, str(len(of_ranks))]
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "fastprof", *words],
                cwd=folder, env={**kept, **each}, stdout=subprocess.PIPE, text=True,
            )
            for each in of_ranks
        ]  # fmt: skip
        for each in running:
            assert each.communicate(timeout=300)[0] == "36\n" and each.returncode == 0


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (3, 8, 1, "torchrun")),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2, -1, "Open MPI")),
        ({"PMI_RANK": "5", "PMI_SIZE": "6"}, (5, 6, -1, "PMI")),
        ({"SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1"}, (9, 16, 1, "srun")),
        (
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "RANK": "7", "WORLD_SIZE": "16"},
            (7, 16, -1, "torchrun"),
        ),
        ({}, (0, 1, -1, "nothing")),
    ],
)
def test_fastprof_run_finds_its_rank(
    tmp_path: Path, variables: dict[str, str], expected: tuple[int, int, int, str]
) -> None:
    run_ranks(tmp_path, [variables])
    manifest = json.loads((tmp_path / "ranks" / f"rank-{expected[0]:05}.json").read_text())
    found = [manifest[name] for name in ("rank", "world_size", "local_rank", "found_by")]
    assert tuple(found) == expected
    assert not list(tmp_path.glob("*.json"))


def test_variables_that_name_no_rank_are_refused(tmp_path: Path) -> None:
    """Else it would be rank 0, and replace that one's shard."""
    words = ["-m", "fastprof", "run", "--ranks", "ranks", "-c", "print(1)"]
    done = python(*words, cwd=tmp_path, RANK="8", WORLD_SIZE="8")
    assert done.returncode == 2 and not done.stdout and "Count ranks from 0" in done.stderr


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        pytest.param(
            {"TORCHELASTIC_RUN_ID": "a"}, {"TORCHELASTIC_RUN_ID": "b"}, marks=pytest.mark.nightly
        ),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1"}),
        pytest.param(
            {"MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none"},
            {"MASTER_PORT": "29500"},
            marks=pytest.mark.nightly,
        ),
        ({}, {}),  # by time alone
        pytest.param({"WORLD_SIZE": "5"}, {}, marks=pytest.mark.nightly),
    ],
)
def test_shards_of_an_earlier_job_are_left_out(
    tmp_path: Path, earlier: dict[str, str], later: dict[str, str]
) -> None:
    """Rank 1 of the later job wrote nothing, so that its shard in the folder is of the earlier one."""
    for variables, ranks in ((earlier, "012"), (later, "02")):
        run_ranks(tmp_path, [{"RANK": each, "WORLD_SIZE": "3", **variables} for each in ranks])
        if variables is earlier:
            assert fastprof.ranks.open(tmp_path / "ranks").ranks == [0, 1, 2]
    job = fastprof.ranks.open(tmp_path / "ranks")
    assert job.ranks == [0, 2] and job.world_size == 3
    assert "rank 1: of an earlier job of" in job.problems[0]
    assert "rank 1 of 3 not in the folder" in job.problems
    with pytest.raises(fastprof.errors.FormatError, match="an earlier job"):
        fastprof.ranks.open(tmp_path / "ranks", strict=True)


JOB = """
def work(rank, size, store):
    begin(rank, size, store)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    chosen = fastprof.schedule(wait=1, warmup=1, active=10, repeat=1)
    handler = fastprof.rank_trace_handler("ranks")
    with fastprof.profile(schedule=chosen, on_trace_ready=handler) as prof:
        for _ in range(12):
            with fastprof.record_function("data"):
                time.sleep(0.3 if rank == 1 else 0)
            model(torch.ones(32, 64)).sum().backward()
            optimizer.step()
            prof.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    size = int(sys.argv[1])
    torch.multiprocessing.spawn(work, args=(size, sys.argv[2]), nprocs=size)
"""


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_the_slow_rank_of_a_real_job(tmp_path: Path, size: int) -> None:
    run_job(tmp_path, JOB, size)
    job = fastprof.ranks.open(tmp_path / "ranks")
    assert job.ranks == list(range(size)) and job.world_size == size and job.problems == []
    assert job.steps.tolist() == list(range(2, 12))
    assert job.stragglers[0].rank == 1 and job.stragglers[0].cost_ns > 100_000_000
    assert {name for name, _ in job.why(1)[:2]} == {"idle", "data"}
    matched = job.collectives
    assert matched.unmatched == 0 and (np.bincount(matched.call) == size).all() and len(matched)
    printed = python("-m", "fastprof", "ranks", "ranks", cwd=tmp_path, check=True).stdout
    assert "rank 1: " in printed and "problem" not in printed
    values = json.loads(
        python("-m", "fastprof", "ranks", "ranks", "--as-json", cwd=tmp_path, check=True).stdout
    )
    assert values["stragglers"][0]["rank"] == 1 and len(values["ranks"]) == size


def test_ranks_recorded_by_one_profile_are_named(tmp_path: Path) -> None:
    require_gloo()
    (tmp_path / "job.py").write_text(
        BEGIN
        + """
def work(rank, store):
    begin(rank, 2, store)
    dist.all_reduce(torch.ones(8))
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=(sys.argv[1],), nprocs=2)
"""
    )
    words = ["-m", "fastprof", "run", "--follow", "--ranks", "ranks", "job.py"]
    python(*words, tmp_path / "store", cwd=tmp_path, check=True)
    (problem,) = fastprof.ranks.open(tmp_path / "ranks").problems
    assert "2 processes ran collectives" in problem
