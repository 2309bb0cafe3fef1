# SPDX-License-Identifier: Apache-2.0
"""Ranks read by the workers of Ray and Dask, of which one is killed in the middle, and folders that are URLs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from processes import python
from simulated_jobs import SimulatedJob

import fastprof

# Clusters of worker processes take long to start, the longer the busier the machine: not in each run.
pytestmark = [pytest.mark.integrations, pytest.mark.nightly]
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
# The first process but the command's that imports pyarrow's reader, for a shard, kills itself.
KILL = """
import os, signal, sys

def kill(event, arguments):
    if event != "import" or arguments[0] != "pyarrow.parquet.core":
        return
    if os.environ.get("COMMAND", str(os.getpid())) == str(os.getpid()):
        return
    try:
        os.close(os.open(os.environ["KILLED"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
"""
COMMAND = """
import os, sys
os.environ.setdefault("COMMAND", str(os.getpid()))  # children have it
from fastprof.cli.main import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


def answers(folder: Path, *words: str, killing: bool = False) -> dict[str, Any]:
    """Return what `fastprof ranks --as-json` prints. killing: the first worker to read a shard is killed."""
    environment: dict[str, Path] = {}
    if killing:
        (folder / "hook").mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(KILL)
        environment = {"PYTHONPATH": folder / "hook", "KILLED": folder / "killed"}
    (folder / "command.py").write_text(COMMAND)
    words = ("command.py", "ranks", *words, "--as-json")
    done = python(*words, cwd=folder, check=True, **environment)
    values: dict[str, Any] = json.loads(done.stdout)
    assert (folder / "killed").exists() == killing
    return values


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_an_engine_gives_the_same_answers_when_a_worker_is_killed(
    tmp_path: Path, engine: str, package: str
) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    SimulatedJob(8, 20, slow={5: 1.2}).write(str(tmp_path / "ranks"))
    (tmp_path / "ranks" / "rank-00007.parquet").write_bytes(b"PAR1 no")
    alone = answers(tmp_path, "ranks")
    assert alone["ranks_read"] == 7 and alone["stragglers"][0]["rank"] == 5
    together = answers(tmp_path, f"file://{tmp_path}/ranks", "--engine", engine, killing=True)
    assert {**together, "folder": "", "problems": 0} == {**alone, "folder": "", "problems": 0}
    problems = [[each.split(":")[0] for each in of["problems"]] for of in (alone, together)]
    assert problems[0] == problems[1] == ["rank 7", "rank 7 of 8 not in the folder"]


def test_a_folder_of_traces_is_converted_by_an_engine(tmp_path: Path) -> None:
    """In a cluster that the program has, which goes on."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    simulated = SimulatedJob(3, 5)
    for rank in range(3):
        simulated.table(rank).export(tmp_path / f"rank{rank}.json")
    with distributed.Client(processes=False, dashboard_address=None) as client:
        job = fastprof.ranks.open(tmp_path, engine="dask")
        address = client.scheduler.address
        assert fastprof.ranks.open(tmp_path, engine=f"dask://{address}").ranks == [0, 1, 2]
        assert client.submit(sum, [1, 2]).result() == 3
    assert job.ranks == [0, 1, 2] and job.problems == []
    expected = fastprof.ranks.open(tmp_path).parts("compute_ns")
    assert (job.parts("compute_ns") == expected).all()


def test_ranks_in_an_object_store(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    simulated = SimulatedJob(3, 5)
    simulated.write(str(tmp_path / "ranks"))
    simulated.write("memory://bucket/ranks")
    here, there = (
        fastprof.ranks.open(each) for each in (tmp_path / "ranks", "memory://bucket/ranks")
    )
    assert there.ranks == [0, 1, 2] and there.problems == []
    assert (here.parts("idle_ns") == there.parts("idle_ns")).all()
    assert here.arrow_dataset().to_table().equals(there.arrow_dataset().to_table())
    tables = [fastprof.ranks.timeline(each, [0, 2]) for each in (here, there)]
    assert len(tables[0]) == len(tables[1]) > 0
    with fastprof.profile(on_trace_ready=fastprof.rank_trace_handler("memory://bucket/mine")):
        sum(range(9))
    assert fastprof.ranks.open("memory://bucket/mine").ranks == [0]
    with pytest.raises(fastprof.errors.IoError, match="Name the folder"):
        fastprof.ranks.open("memory://bucket/none")


def test_engines_that_cannot_be_used(tmp_path: Path) -> None:
    SimulatedJob(2, 5).write(str(tmp_path))
    with pytest.raises(fastprof.errors.ValueError, match="dask://HOST:PORT"):
        fastprof.ranks.open(tmp_path, engine="spark")
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        assert distributed is not None
        with pytest.raises(fastprof.errors.UnavailableError, match="cannot connect to the engine"):
            fastprof.ranks.open(tmp_path, engine="dask://127.0.0.1:9")
