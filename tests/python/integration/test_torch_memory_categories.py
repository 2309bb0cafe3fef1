# SPDX-License-Identifier: Apache-2.0
"""Memory by category of training steps, compared entry by entry with PyTorch's own memory profiler."""

from __future__ import annotations

import gc
import itertools
import json
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from known_torch import torch

import fastprof
from fastprof.analysis.memory_categories import Category, category_name
from fastprof.analysis.memory_categories.origins import explain_peak
from fastprof.analysis.memory_categories.totals import category_totals, reconcile

pytestmark = pytest.mark.integrations
pytest.importorskip("torch.profiler._memory_profiler")

nn = torch.nn
Entry = tuple[str, int, str]


def perceptron() -> tuple[Any, Any]:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)), (16, 32)


def convolution() -> tuple[Any, Any]:
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(8 * 64, 10)), (4, 3, 8, 8)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, 0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
    "Adam": torch.optim.Adam,
    "foreach": lambda parameters: torch.optim.Adam(parameters, foreach=True),
}


def train(made: Callable[[], tuple[Any, Any]], optimizer: str, profile: Any, steps: int = 2) -> Any:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, shape = made()
    chosen = OPTIMIZERS[optimizer](model.parameters())
    gc.collect()
    with profile:
        for _ in range(steps):
            loss = model(torch.randn(*shape)).square().mean()
            chosen.zero_grad()
            loss.backward()
            chosen.step()
            profile.step()
    return profile


def of_torch(made: Callable[[], tuple[Any, Any]], optimizer: str) -> list[Entry]:
    cpu = [torch.profiler.ProfilerActivity.CPU]
    profile = torch.profiler.profile(
        activities=cpu, record_shapes=True, profile_memory=True, with_stack=True
    )
    memory = train(made, optimizer, profile)._memory_profile()
    found = []
    for _, action, key, size in memory.timeline:
        category = memory._categories.get(*key)
        found.append((action.name, size, "" if category is None else category.name))
    return found


def accumulate(profile: Any) -> Any:
    """Profile backward passes of accumulated gradients: no optimizer step is in the window."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, shape = perceptron()
    with profile:
        for _ in range(2):
            model(torch.randn(*shape)).square().mean().backward()
    return profile


def test_parameters_are_known_without_an_optimizers_step() -> None:
    theirs = accumulate(
        torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True)
    )._memory_profile()
    wanted = [
        (action.name, size, getattr(theirs._categories.get(*key), "name", None))
        for _, action, key, size in theirs.timeline
    ]
    profile = accumulate(fastprof.profile(record_shapes=True, profile_memory=True))
    for one in (profile, pickle.loads(pickle.dumps(profile))):
        memory = one.memory_profile()
        found = [
            (
                e.action.name,
                e.size_bytes,
                getattr(memory.category(e.storage, e.version), "name", None),
            )
            for e in memory.timeline
        ]
        assert sorted(found, key=str) == sorted(wanted, key=str)
    kept = {size for _, size, category in found if category == "PARAMETER"}
    assert kept == {8192, 256, 2048, 32}


@pytest.mark.parametrize("made", [perceptron, convolution])
@pytest.mark.parametrize("optimizer", ["SGD", "momentum", "Adam"])
def test_each_entry_is_as_in_pytorchs_profiler(
    made: Callable[[], tuple[Any, Any]], optimizer: str
) -> None:
    wanted = of_torch(made, optimizer)
    profile = train(made, optimizer, fastprof.profile(record_shapes=True, profile_memory=True))
    memory = profile.memory_profile()
    found = []
    scratch = 0
    for entry, (action, _, theirs) in zip(memory.timeline, wanted, strict=True):
        category = memory.category(entry.storage, entry.version)
        name = "" if category is None else category.name
        # PyTorch takes what Adam computes with for activations of parameters. Elsewhere, its
        # temporaries are ours.
        if category is Category.TEMPORARY and theirs != name and action != "PREEXISTING":
            assert optimizer == "Adam"
            scratch += 1
            name = theirs
        found.append((entry.action.name, entry.size_bytes, name))
    before = sum(action == "PREEXISTING" for action, _, _ in wanted)  # in no order
    assert sorted(found[:before]) == sorted(wanted[:before])
    assert found[before:] == wanted[before:]
    parameters = len(list(made()[0].parameters()))
    # Two results a parameter and step, made and freed; one of them is divided in place, too.
    assert scratch == (2 * parameters * 5 if optimizer == "Adam" else 0)
    present = {name for _, _, name in found}
    assert {"INPUT", "PARAMETER", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL"} <= present
    assert ("OPTIMIZER_STATE" in present) == (optimizer != "SGD")


def test_lists_of_tensors_carry_their_storages() -> None:
    profile = train(
        perceptron, "foreach", fastprof.profile(record_shapes=True, profile_memory=True), 3
    )
    memory = profile.memory_profile()
    state = [
        s.size_bytes
        for s in memory.storages
        if memory.category(s.index, 0) is Category.OPTIMIZER_STATE
    ]
    weights = [
        s.size_bytes for s in memory.storages if memory.category(s.index, 0) is Category.PARAMETER
    ]
    assert sorted(weights) == sorted(4 * p.numel() for p in perceptron()[0].parameters())
    # exp_avg and exp_avg_sq of each parameter, and its count of steps.
    assert sorted(state) == sorted([*weights, *weights, *[4] * len(weights)])


def test_files_peak_and_sums(tmp_path: Path) -> None:
    profile = train(
        perceptron,
        "Adam",
        fastprof.profile(record_shapes=True, profile_memory=True, with_stack=True),
        3,
    )
    memory = profile.memory_profile()
    (totals,) = category_totals(memory)
    (sums,) = reconcile(memory)
    assert sums.in_use_at_begin + sums.allocated - sums.freed == sums.in_use_at_end
    assert sums.in_use_at_end == int(totals.total[-1])
    parts = explain_peak(memory, "cpu")
    assert sum(part.size_bytes for part in parts) == int(totals.total.max())
    assert any("test_torch_memory_categories" in frame for p in parts for frame in p.origin.stack)
    assert profile.memory_leaks(1) == []
    profile.export_memory_timeline(tmp_path / "m.json", "cpu")
    times, sizes = json.loads((tmp_path / "m.json").read_text())
    assert len(times) == len(sizes) and {len(row) for row in sizes} == {9}
    profile.export_memory_timeline(tmp_path / "m.html", "cpu:0")
    page = (tmp_path / "m.html").read_text()
    assert category_name(Category.OPTIMIZER_STATE) in page and "aten::zeros_like" in page


def test_without_shapes_there_are_only_totals(tmp_path: Path) -> None:
    profile = train(perceptron, "SGD", fastprof.profile(profile_memory=True))
    with pytest.raises(fastprof.errors.ValueError, match="record_shapes=True"):
        profile.memory_profile()
    profile.export_memory_timeline(tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text())["unit"] == "bytes"


def test_the_snapshot_is_one_that_pytorchs_viewer_reads(tmp_path: Path) -> None:
    from torch.cuda import _memory_viz as viewer

    options: dict[str, Any] = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    profile = train(perceptron, "momentum", fastprof.profile(**options))
    profile.export_memory_snapshot(tmp_path / "m.pickle")
    snapshot = pickle.loads((tmp_path / "m.pickle").read_bytes())
    (sums,) = reconcile(profile.memory_profile())
    (events,) = snapshot["device_traces"]
    assert sum(e["size"] for e in events if e["action"] == "alloc") == sums.allocated
    assert sum(e["size"] for e in events if e["action"] == "free_completed") == sums.freed
    assert sum(s["allocated_size"] for s in snapshot["segments"]) == sums.in_use_at_end
    names = {frame["name"] for event in events for frame in event["frames"]}
    assert "aten::empty_strided [optimizer state]" in names and "train" in names
    assert f"{len(events)} entries" in viewer.trace(snapshot)
    assert viewer.segsum(snapshot).startswith("Summary of segments")


def test_a_snapshot_while_training_runs_has_categories_of_what_is_in_use() -> None:
    torch.manual_seed(0)
    model, shape = perceptron()
    chosen = torch.optim.Adam(model.parameters())
    pictures: list[Any] = []
    former = signal.signal(signal.SIGUSR1, lambda *_: pictures.append(profile.memory_snapshot()))
    try:
        with fastprof.profile(record_shapes=True, profile_memory=True, with_stack=True) as profile:
            for _ in range(2):
                loss = model(torch.randn(*shape)).square().mean()
                chosen.zero_grad()
                loss.backward()
                chosen.step()
                os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, former)
    after = profile.memory_snapshot()
    assert len(pictures) == 2
    for picture in pictures:
        names = [segment["frames"][0]["name"] for segment in picture["segments"]]
        for category in ("parameter", "gradient", "optimizer state"):
            assert any(f"[{category}]" in name for name in names), names
    # Each is a beginning of the next.
    assert len(pictures[0]["device_traces"][0]) < len(pictures[1]["device_traces"][0])
    traces = [[e["addr"] for e in one["device_traces"][0]] for one in (*pictures, after)]
    for shorter, longer in itertools.pairwise(traces):
        assert 0 < len(shorter) <= len(longer)
        assert longer[: len(shorter)] == shorter


def test_memory_of_python_beside_pytorchs_changes_no_category() -> None:
    def entries(**more: bool) -> list[Entry]:
        profile = train(
            perceptron, "Adam", fastprof.profile(record_shapes=True, profile_memory=True, **more)
        )
        memory = profile.memory_profile()
        return [
            (e.action.name, e.size_bytes, category_name(memory.category(e.storage, e.version)))
            for e in memory.timeline
        ]

    assert entries(python_memory=True) == entries()


def test_the_report_of_a_training_has_categories_and_sums(tmp_path: Path) -> None:
    profile = train(perceptron, "Adam", fastprof.profile(record_shapes=True, profile_memory=True))
    report = profile.memory_report()
    (device,) = report.devices
    totals = category_totals(profile.memory_profile())[0]
    assert device.peak_bytes == int(totals.total.max()) == sum(device.categories.values())
    assert device.sums.difference_bytes == 0
    assert sum(part.size_bytes for part in device.parts) <= device.peak_bytes
    assert "parameter" in report.text()
    (claim,) = fastprof.analysis.explain(profile).memory
    assert claim.size_bytes == device.peak_bytes
    assert "%" in claim.text
    profile.export_html(tmp_path / "report.html")
