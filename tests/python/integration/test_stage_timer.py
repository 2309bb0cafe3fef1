# SPDX-License-Identifier: Apache-2.0
"""The always-on signal: a delay planted in any stage of any rank of a real job of gloo is found, 24 of 24."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gloo_jobs import run_job

import fastprof

JOB = """
SIZE, EVERY, TRIALS = 3, 5, 24
STAGES = ("data", "forward", "backward", "optimizer")

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.seconds)
        return grad, None

def work(rank, store):
    begin(rank, SIZE, store)
    net = torch.nn.Linear(8, 8)
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    found = []
    def keep(report):
        found.append(([list(each) for each in report.suspects], report.exposed_ns, report.first_step))
    timer = fastprof.stages.StageTimer(every=EVERY, model=model, moved=0, report=keep)
    for step in range(EVERY * TRIALS):
        trial = step // EVERY
        slow = 0.12 if rank == trial % SIZE else 0
        stage = STAGES[trial % len(STAGES)]
        time.sleep(slow * (stage == "data"))
        timer.enter("forward")
        time.sleep(slow * (stage == "forward"))
        loss = Slow.apply(model(torch.ones(4, 8)), slow * (stage == "backward")).sum()
        timer.enter("backward")
        loss.backward()
        timer.enter("optimizer")
        time.sleep(slow * (stage == "optimizer"))
        optimizer.step()
        timer.step()
    timer.close()
    if rank == 0:
        json.dump(found, open("found.json", "w"))
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=(sys.argv[1],), nprocs=SIZE)
"""


@pytest.mark.integrations
def test_planted_delays_of_a_real_job_are_found(tmp_path: Path) -> None:
    run_job(tmp_path, JOB)
    found = json.loads((tmp_path / "found.json").read_text())
    assert [first for _, _, first in found] == [5 * trial for trial in range(24)]
    stages = ("data", "forward", "backward", "optimizer")
    for trial, (suspects, _, _) in enumerate(found):
        first_two = [tuple(each[:2]) for each in suspects[:2]]
        assert (stages[trial % 4], trial % 3) in first_two, (trial, suspects)


def test_stages_of_one_process_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    reports: list[fastprof.stages.StageReport] = []
    timer = fastprof.stages.StageTimer(every=4, stages=("a", "b"), moved=0, report=reports.append)
    for _ in range(10):
        timer.enter("b")
        timer.step()
    timer.close()
    assert [(each.first_step, each.steps) for each in reports[:1]] == [(0, 4)]
    assert timer.last is not None and timer.last.first_step == 4
    assert sum(timer.last.share.values()) == pytest.approx(1)
    fastprof_lines = fastprof.stages.StageTimer(every=1, stages=("a", "b"))
    fastprof_lines.step()
    assert "fastprof: steps 0 to 0: " in capsys.readouterr().err


def test_invalid_stages() -> None:
    for call in (
        lambda: fastprof.stages.StageTimer(every=0),
        lambda: fastprof.stages.StageTimer(stages=("a", "a")),
        lambda: fastprof.stages.StageTimer().enter("fowrard"),
    ):
        with pytest.raises(fastprof.errors.ValueError, match=r"Use|needs"):
            call()
