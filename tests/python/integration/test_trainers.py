# SPDX-License-Identifier: Apache-2.0
"""Trainers and profiler hooks of other projects, on the CPU, with fastprof in place of torch.profiler.

Each program runs twice: unchanged, and with fastprof.profile and fastprof.record_function under torch.profiler's names.
Both runs must write the hooks' files, and record the same operators and ranges.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lightning_training import fit

import fastprof

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("ignore")]  # theirs

# Modules that have imported these names from torch.profiler, or that define them.
HOLDERS = (
    "torch.profiler",
    "torch.profiler.profiler",
    "torch.autograd.profiler",
    "lightning.pytorch.profilers.pytorch",
    "torch_geometric.profile.profile",
)


@contextlib.contextmanager
def in_place(name: str) -> Any:
    """Replace torch.profiler's names by fastprof's if `name` is "fastprof"."""
    with pytest.MonkeyPatch.context() as patch:
        if name == "fastprof":
            modules = []
            for holder in HOLDERS:  # all are imported before a name is replaced
                with contextlib.suppress(ImportError):
                    modules.append(importlib.import_module(holder))
            for module in modules:
                if hasattr(module, "record_function"):
                    patch.setattr(module, "record_function", fastprof.record_function)
                if hasattr(module, "profile") and module.__name__ != "torch.autograd.profiler":
                    patch.setattr(module, "profile", fastprof.profile)
            assert torch.profiler.profile is fastprof.profile
        yield


def recorded(averages: Any) -> dict[str, int]:
    """Return operators and ranges with their numbers of calls."""
    return {
        average.key: average.count
        for average in averages
        if average.key.startswith(("aten::", "autograd::", "[pl]", "ProfilerStep", "Optimizer."))
    }


def both(program: Any, folder: Path) -> list[Any]:
    """Return what `program(folder)` returns with torch.profiler and with fastprof."""
    results = []
    for name in ("torch", "fastprof"):
        with in_place(name):
            torch.manual_seed(0)
            own = folder / name
            own.mkdir()
            results.append(program(own))
    return results


def trace_names(path: Path) -> Counter[str]:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return Counter(event.get("name") for event in json.loads(data)["traceEvents"])


# ---- accelerate -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduled", [False, True], ids=["whole", "scheduled"])
def test_accelerate_profiles(tmp_path: Path, scheduled: bool) -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    from accelerate.utils import ProfileKwargs

    def program(folder: Path) -> Any:
        ready: list[Any] = []
        accelerator = accelerate.Accelerator(
            cpu=True,
            kwargs_handlers=[
                ProfileKwargs(
                    activities=["cpu"],
                    schedule_option={"wait": 1, "warmup": 1, "active": 1, "repeat": 1}
                    if scheduled
                    else None,
                    on_trace_ready=lambda prof: ready.append(recorded(prof.key_averages())),
                    record_shapes=True,
                    profile_memory=True,
                    with_flops=True,
                    output_trace_dir=str(folder),
                )
            ],
        )
        model = torch.nn.Linear(4, 2)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        with accelerator.profile() as prof:
            for _ in range(4):
                accelerator.backward(model(torch.ones(3, 4)).sum())
                optimizer.step()
                optimizer.zero_grad()
                prof.step()
        (trace,) = folder.iterdir()
        assert trace_names(trace)["aten::linear"] == ready[0]["aten::linear"]
        return ready

    theirs, ours = both(program, tmp_path)
    assert len(ours) == 1
    assert ours == theirs


# ---- Lightning --------------------------------------------------------------------------------------------------


def test_lightnings_own_profiler(tmp_path: Path) -> None:
    pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from lightning.pytorch.profilers import PyTorchProfiler

    def program(folder: Path) -> Any:
        profiler = PyTorchProfiler(
            dirpath=str(folder), filename="report", record_shapes=True, group_by_input_shapes=True
        )
        fit(folder, profiler)
        (report,) = folder.glob("*report*.txt")
        assert "Self CPU time total" in report.read_text()
        (trace,) = folder.glob("*.json*")
        names = trace_names(trace)
        return {
            name: names[name]
            for name in names
            if name.startswith(("[pl]", "aten::", "ProfilerStep"))
        }

    theirs, ours = both(program, tmp_path)
    assert ours == theirs
    assert ours["[pl][module]torch.nn.modules.linear.Linear: linear"] > 1


def test_lightnings_own_profiler_inside_a_profile_of_fastprofs(tmp_path: Path) -> None:
    pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from lightning.pytorch.profilers import PyTorchProfiler

    with fastprof.profile(record_shapes=True) as outer:
        fit(tmp_path, PyTorchProfiler(dirpath=str(tmp_path), filename="report"))
    assert recorded(outer.key_averages())["aten::linear"] == 6
    assert list(tmp_path.glob("*report*.txt"))


# ---- MMEngine ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["table", "tensorboard"])
def test_mmengine_profiler_hook(tmp_path: Path, form: str, capsys: Any) -> None:
    mmengine = pytest.importorskip("mmengine.runner", reason="mmengine is not installed")
    from mmengine.hooks import ProfilerHook
    from mmengine.model import BaseModel

    if form == "tensorboard":
        pytest.importorskip("torch_tb_profiler", reason="torch-tb-profiler is not installed")

    class Line(BaseModel):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def forward(self, inputs: Any, mode: str = "tensor") -> Any:
            return {"loss": self.linear(inputs).square().mean()}

    def program(folder: Path) -> Any:
        hook = ProfilerHook(
            by_epoch=False,
            profile_times=4,
            schedule={"wait": 1, "warmup": 1, "active": 2},
            on_trace_ready={"type": "log_trace", "sort_by": "self_cpu_time_total"}
            if form == "table"
            else {"type": "tb_trace", "dir_name": str(folder / "tensorboard")},
            record_shapes=True,
            profile_memory=True,
            with_flops=True,
            json_trace_path=str(folder / "trace.json") if form == "table" else None,
        )
        runner = mmengine.Runner(
            model=Line(),
            work_dir=str(folder / "work"),
            train_dataloader=torch.utils.data.DataLoader(
                [{"inputs": torch.ones(3)} for _ in range(12)], batch_size=2
            ),
            train_cfg={"by_epoch": False, "max_iters": 6},
            optim_wrapper={"type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.1}},
            default_hooks={"logger": None, "checkpoint": None, "timer": None},
            custom_hooks=[hook],
            experiment_name=f"{folder.name} {form} {id(folder)}",
        )
        capsys.readouterr()
        runner.train()
        if form == "table":
            assert "aten::linear" in capsys.readouterr().out
            assert trace_names(folder / "trace.json")["aten::linear"] == 2
        else:
            (trace,) = (folder / "tensorboard").glob("*.pt.trace.json")
            assert trace_names(trace)["aten::linear"] == 2
        return recorded(hook.profiler.key_averages())

    theirs, ours = both(program, tmp_path)
    assert ours == theirs
    assert "ProfilerStep*" in ours


# ---- torchtune --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("detailed", [False, True], ids=["plain", "memory_and_stacks"])
def test_torchtune_setup_torch_profiler(tmp_path: Path, detailed: bool) -> None:
    try:
        from torchtune.training import setup_torch_profiler
    except ImportError as missing:
        pytest.skip(f"torchtune cannot be imported: {missing}")

    def program(folder: Path) -> Any:
        prof, settings = setup_torch_profiler(
            enabled=True, cpu=True, cuda=False, xpu=False, profile_memory=detailed, with_stack=detailed,
            record_shapes=True, with_flops=True, output_dir=str(folder), wait_steps=1,
            warmup_steps=1, active_steps=2, num_cycles=1,
        )  # fmt: skip
        assert settings.active_steps == 2
        linear = torch.nn.Linear(4, 2)
        with prof:
            for _ in range(5):
                linear(torch.ones(3, 4)).sum().backward()
                prof.step()
        (cycle,) = folder.iterdir()
        assert cycle.name == "iteration_4"
        (trace,) = cycle.glob("*.pt.trace.json.gz")
        assert trace_names(trace)["aten::linear"] == 2
        assert "Self CPU time total" in (cycle / "rank0_key_averages.txt").read_text()
        assert (cycle / "rank0_stacks.txt").exists() == detailed
        return recorded(prof.key_averages())

    theirs, ours = both(program, tmp_path)
    assert ours == theirs


# ---- PyTorch Geometric ------------------------------------------------------------------------------------------


def _graph_network() -> Any:
    from torch_geometric.nn import GraphConv

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = GraphConv(4, 3)
            self.second = GraphConv(3, 2)

        def forward(self, x: Any, edges: Any) -> Any:
            return self.second(self.first(x, edges).relu(), edges)

    return Net(), torch.ones(3, 4), torch.tensor([[0, 1, 2], [1, 2, 0]])


def test_geometric_torch_profile(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    geometric = pytest.importorskip("torch_geometric.profile", reason="PyG is not installed")

    def program(folder: Path) -> Any:
        monkeypatch.chdir(folder)
        network, x, edges = _graph_network()
        with geometric.torch_profile(), geometric.timeit(log=False) as timed:
            network(x, edges)
        assert timed.duration > 0
        geometric.rename_profile_file("graph", "conv")
        assert "Self CPU %" in capsys.readouterr().out
        names = trace_names(folder / "profile-graph-conv.json")
        return {name: names[name] for name in names if name.startswith("aten::")}

    theirs, ours = both(program, tmp_path)
    assert ours == theirs
    assert ours["aten::linear"] == 4


def test_geometric_layer_profiler(tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric.profile", reason="PyG is not installed")
    from torch_geometric.profile.profiler import Profiler

    def program(folder: Path) -> Any:
        network, x, edges = _graph_network()
        with Profiler(network, profile_memory=True) as prof:
            network(x, edges)
        shown, _heading, _results, layers, _numbers = prof.get_trace()
        assert "aten::linear" in shown
        return [layer for layer in layers if "aten::" in layer]

    theirs, ours = both(program, tmp_path)
    assert ours == theirs
