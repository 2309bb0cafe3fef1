# SPDX-License-Identifier: Apache-2.0
"""load() of a trace by torch.profiler gives the events that torch.profiler itself reports."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import fastprof

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.integrations


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, Path]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.nn.Sequential(
            torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 5)
        )
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with torch.profiler.profile(record_shapes=True, profile_memory=True) as profile:
            for _ in range(4):
                with torch.profiler.record_function("step"):
                    loss = model(torch.randn(16, 20)).sum()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        path = tmp_path_factory.mktemp("torch") / "trace.json.gz"
        profile.export_chrome_trace(str(path))
    return profile, path


@pytest.mark.parametrize("by_shape", [False, True])
def test_averages_are_torchs_own(profiled: tuple[object, Path], by_shape: bool) -> None:
    profile, path = profiled
    expected = {
        (e.key, str(e.input_shapes)): e
        for e in profile.key_averages(group_by_input_shape=by_shape)  # type: ignore[attr-defined]
    }
    events = fastprof.load(path).events()
    found = {
        (e.key, str(e.input_shapes)): e for e in events.key_averages(group_by_input_shape=by_shape)
    }
    if not by_shape:  # versions of torch differ in which is "" and which is []
        assert found.keys() == expected.keys()
    for key in found.keys() & expected.keys():
        ours, theirs = found[key], expected[key]
        assert ours.count == theirs.count
        assert ours.self_cpu_time_total == pytest.approx(theirs.self_cpu_time_total, abs=0.01)
        assert ours.cpu_time_total == pytest.approx(theirs.cpu_time_total, abs=0.01)
    assert len(found.keys() & expected.keys()) >= 20


def test_memory_of_a_torch_trace(profiled: tuple[object, Path]) -> None:
    from fastprof.exporters.memory_timeline import memory_timeline

    (cpu,) = memory_timeline(fastprof.load(profiled[1]))
    assert cpu.device == "cpu:0" and len(cpu.bytes) > 50
    assert (cpu.bytes > 0).any() and (cpu.bytes < 0).any()
