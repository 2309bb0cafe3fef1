# SPDX-License-Identifier: Apache-2.0
"""Real jobs of gloo that shard, split or pipeline a model: the rank and the place of a planted delay are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gloo_jobs import run_job

import fastprof

pytestmark = pytest.mark.integrations
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

# Forked after the import of torch, which takes seconds.
HEAD = """
from torch.distributed.device_mesh import init_device_mesh

size, slow, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def delay(rank):
    with fastprof.record_function("planted"):
        time.sleep(0.1 if rank == slow else 0)

def layers(count):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(count)))
"""
TAIL = """
def main(rank):
    begin(rank, size, store)
    step = steps(rank)
    chosen = fastprof.schedule(wait=1, warmup=1, active=20, repeat=1)
    handler = fastprof.rank_trace_handler("ranks")
    with fastprof.profile(schedule=chosen, on_trace_ready=handler, record_shapes=True) as prof:
        for _ in range(22):
            step()
            prof.step()
    dist.barrier()
    dist.destroy_process_group()

children = []
for rank in range(size):
    children.append(os.fork())
    if children[-1] == 0:
        status = 1
        try:
            main(rank)
            status = 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            if status:
                sys.excepthook(*sys.exc_info())
            os._exit(status)
print([os.waitpid(pid, 0)[1] for pid in children])
"""
FSDP = """
from torch.distributed.fsdp import fully_shard
def steps(rank):
    model = layers(2)
    mesh = init_device_mesh("cpu", (size,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    def step():
        with fastprof.record_function("forward"):
            delay(rank)
            loss = model(torch.ones(4, 16)).sum()
        loss.backward()
        optimizer.step()
    return step
"""
TENSOR = """
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
def steps(rank):
    model = layers(2)
    mesh = init_device_mesh("cpu", (size,))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    def step():
        with fastprof.record_function("forward"):
            loss = model(torch.ones(4, 16)).sum()
        loss.backward()
        with fastprof.record_function("optimizer"):
            delay(rank)
            optimizer.step()
    return step
"""
PIPELINE = """
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
class Stage(torch.nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.rank, self.inner = rank, layers(1)
    def forward(self, value):
        delay(self.rank)
        return self.inner(value)
def steps(rank):
    stage = PipelineStage(Stage(rank), rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 2, loss_fn=lambda found, wanted: (found - wanted).sum())
    def step():
        if rank == 0:
            schedule.step(torch.ones(4, 16))
        elif rank == size - 1:
            schedule.step(target=torch.ones(4, 16))
        else:
            schedule.step()
    return step
"""
GRID = """
def steps(rank):
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "tensor"))
    data, tensor = mesh.get_group("data"), mesh.get_group("tensor")
    def step():
        value = torch.ones(16, 16)
        with fastprof.record_function("forward"):
            for _ in range(2 + rank // (size // 2)):  # the halves of the job call their group differently often
                delay(rank)
                dist.all_reduce(value @ value, group=tensor)
        with fastprof.record_function("backward"):
            dist.all_reduce(value, group=data)
        dist.all_reduce(value)
    return step
"""


def job_of(folder: Path, program: str, size: int, slow: int) -> fastprof.ranks.Job:
    assert run_job(folder, HEAD + program + TAIL, size, slow) == f"{[0] * size}\n"
    return fastprof.ranks.open(folder / "ranks")


def stage_of(job: fastprof.ranks.Job, rank: int) -> str:
    """Return the stage with the most exposed time that is charged to a rank, apart from waiting."""
    charged = np.where(job.exposed.rank == rank, job.exposed.exposed_ns, 0).sum(axis=0)[:-1]
    return ("data", "forward", "backward", "optimizer", "rest")[int(charged.argmax())]


@pytest.mark.parametrize(
    ("program", "size", "stage"),
    [
        pytest.param(FSDP, 2, "forward", id="fsdp-2", marks=pytest.mark.nightly),
        pytest.param(FSDP, 4, "forward", id="fsdp-4"),
        pytest.param(TENSOR, 2, "optimizer", id="tensor-2", marks=pytest.mark.nightly),
        pytest.param(TENSOR, 4, "optimizer", id="tensor-4"),
    ],
)
def test_the_slow_rank_of_a_sharded_model(
    tmp_path: Path, program: str, size: int, stage: str
) -> None:
    job = job_of(tmp_path, program, size, slow=1)
    assert job.problems == [] and job.ranks == list(range(size))
    assert job.stragglers[0].rank == 1 and stage_of(job, 1) == stage
    assert "planted" in dict(job.why(1)[:3])
    assert job.collectives.unmatched == 0 and (np.bincount(job.collectives.call) == size).all()
    spent: dict[tuple[int, str], int] = {}
    for step in job.complete_steps.tolist():
        graph = job.step_graph(step)
        path = graph.path()
        assert sum(each.end_ns - each.start_ns for each in path) == graph.length_ns
        for each in path:
            if each.what != "before":
                key = each.rank, each.name
                spent[key] = spent.get(key, 0) + each.end_ns - each.start_ns
    assert max(spent, key=lambda key: spent[key]) == (1, "planted")


@pytest.mark.parametrize(("size", "slow"), [pytest.param(2, 1, marks=pytest.mark.nightly), (4, 2)])
def test_the_slow_stage_of_a_pipeline(tmp_path: Path, size: int, slow: int) -> None:
    job = job_of(tmp_path, PIPELINE, size, slow)
    assert job.problems == [] and job.ranks == list(range(size))
    assert job.stragglers[0].rank == slow and "planted" in dict(job.why(slow)[:3])
    # Two micro-batches a step to the next stage and back, each pair of which is known by the inputs of c10d's ops.
    matched = job.collectives
    calls = {
        (matched.groups[g], s, r, matched.kinds[k])
        for g, s, r, k in zip(
            *(
                each.tolist()
                for each in (matched.group, matched.sequence, matched.rank, matched.kind)
            ),
            strict=True,
        )
        if matched.kinds[k] in ("send", "recv")
    }
    pairs = {(n, n + 1) for n in range(size - 1)} | {(n + 1, n) for n in range(size - 1)}
    assert {name.rpartition(" ")[2] for name, *_ in calls} == {f"{a}->{b}" for a, b in pairs}
    assert len(calls) == len(pairs) * 2 * len(job.complete_steps) * 2
    spent: dict[tuple[int, str], int] = {}  # over all steps: one alone may meet another load
    for step in job.complete_steps:
        for each in job.step_graph(int(step)).path():
            spent[each.rank, each.name] = (
                spent.get((each.rank, each.name), 0) + each.end_ns - each.start_ns
            )
    assert max(spent, key=lambda key: spent[key]) == (slow, "planted")


@pytest.mark.parametrize(("size", "slow"), [pytest.param(4, 3, marks=pytest.mark.nightly), (8, 5)])
def test_groups_have_sequences_of_their_own(tmp_path: Path, size: int, slow: int) -> None:
    """A grid of two rows: each rank is in the group of all, of its row and of its column."""
    job = job_of(tmp_path, GRID, size, slow)
    assert job.problems == []
    matched = job.collectives
    found = {
        tuple(sorted(set(matched.rank[matched.group == code].tolist())))
        for code in range(len(matched.groups))
    }
    half = size // 2
    rows = {tuple(range(half)), tuple(range(half, size))}
    columns = {(rank, rank + half) for rank in range(half)}
    assert found == rows | columns | {tuple(range(size))}
    for code in range(len(matched.groups)):
        ranks = len(set(matched.rank[matched.group == code].tolist()))
        assert set(np.bincount(matched.call)[matched.call[matched.group == code]]) == {ranks}
    assert job.stragglers[0].rank == slow and stage_of(job, slow) == "forward"
