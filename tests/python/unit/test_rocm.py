# SPDX-License-Identifier: Apache-2.0
"""What is said where PyTorch is built for HIP, and CUDA means AMD's GPUs."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import fastprof
from fastprof import ProfilerActivity
from fastprof.cli import checks
from fastprof.record import rocm


@pytest.fixture
def torch_for_hip(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyTorch built for HIP has been imported, and AMD's driver is not here."""
    monkeypatch.setattr(rocm, "_DRIVER_FILE", "/none")
    torch = ModuleType("torch")
    torch.version = SimpleNamespace(hip="7.0.2", cuda=None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_a_torch_for_hip_is_no_machine_without_cuda(torch_for_hip: None) -> None:
    with pytest.raises(fastprof.errors.UnavailableError) as raised:
        fastprof.profile(activities=[ProfilerActivity.CUDA])
    assert "built for HIP 7.0.2" in str(raised.value) and "/dev/kfd" in str(raised.value)
    assert "NVIDIA" not in str(raised.value)
    (found,) = (found for found in checks._gpus() if found.topic == "CUDA")
    assert found.ok is False and "HIP 7.0.2" in found.text
