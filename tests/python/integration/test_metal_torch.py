# SPDX-License-Identifier: Apache-2.0
"""PyTorch's ops beside Metal work, on the double of Apple's frameworks: signposts of ops, ops that launch work."""

from __future__ import annotations

import re
from pathlib import Path

import metal_double
import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.integrations


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    metal_double.need()
    return metal_double.build_library(tmp_path_factory.mktemp("metal"))


def test_ops_are_signposts_beside_ranges(double: Path, tmp_path: Path) -> None:
    """As emit_nvtx(): of all threads, backward functions too; torch may be imported inside the block."""
    program = """
import threading
from fastprof import metal
with metal.emit_signposts():
    with record_function("before torch"):
        pass
    import torch
    take_log()
    with record_function("step"):
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
    thread = threading.Thread(target=torch.zeros, args=(2,))
    thread.start(); thread.join()
    log = take_log()
x.add(1)
print(json.dumps([log, take_log()]))
"""
    (log, silent), errors = metal_double.run(double, program, tmp_path)
    assert silent == []
    begun = re.findall(r"Intervals begin (\d+) Range: (.*)", "\n".join(log))
    ended = re.findall(r"Intervals end (\d+) Range", "\n".join(log))
    names = [name for _, name in begun]
    assert sorted(number for number, _ in begun) == sorted(ended)
    assert len(set(ended)) == len(ended)
    assert names[:2] == ["step", "aten::ones"]
    assert {"aten::mul", "aten::sum", "aten::zeros"} <= set(names)
    assert any("MulBackward0" in name for name in names)
    assert "emit_signposts" not in errors  # nothing is missing


def test_work_is_below_the_op_that_committed_it(double: Path, tmp_path: Path) -> None:
    program = """
import torch
class Work(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        commit(b"kernel")
        return x.clone()
both = [ProfilerActivity.CPU, ProfilerActivity.MPS]
with profile(activities=both) as prof:
    with record_function("step"):
        Work.apply(torch.ones(2))
kernel = next(e for e in prof.events() if str(e.device_type) == "DeviceType.MPS")
launches = [e.name for e in prof.events() if [k.name for k in e.kernels] == ["kernel"]]
print(json.dumps([kernel.name, launches]))
"""
    (name, launches), _ = metal_double.run(double, program, tmp_path)
    assert name == "kernel"
    assert launches and launches[-1] in ("Work", "step")
