# SPDX-License-Identifier: Apache-2.0
"""`make gpu-check` without a GPU: it says why it cannot run, and checks the double of libcupti in its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compilers import ROOT
from needs import NEEDS_CUPTI_HEADERS
from processes import python

pytest.importorskip("torch")

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]


def gpu_check(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python(ROOT / "tests" / "gpu" / "session.py", "--out", folder, **environment)


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU")
def test_without_a_gpu_it_says_why(tmp_path: Path) -> None:
    done = gpu_check(tmp_path)
    assert done.returncode == 2 and not list(tmp_path.iterdir())
    assert "there is nothing to check here: PyTorch" in done.stderr and "CUDA" in done.stderr


def test_all_checks_pass_on_the_double(double: Path, tmp_path: Path) -> None:
    done = gpu_check(tmp_path, FASTPROF_CUPTI_LIBRARY=str(double), FASTPROF_GPU_CHECK_DOUBLE="1")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "gpu-double-of-libcupti.json").read_text())
    checks = document["checks"]
    assert document["faults"] == 0
    assert checks["kernels"]["facts"]["kernels"].keys() == {
        "gemm(float*, float*, int)",
        "relu(float*)",
    }
    assert checks["cycles"]["facts"]["kernels_by_profile"] == {"2": 100}
    assert "another tool" in checks["conflict"]["facts"]["missing"]
    of_torch = {n for n, c in checks.items() if "no torch.profiler" in c.get("skipped", "")}
    assert {"torch_profiler", "torch_then_ours"} <= of_torch
    assert all("skipped" not in checks[name] for name in ("stamps", "other_client_inside"))


def test_faults_are_found(double: Path, tmp_path: Path) -> None:
    """A libcupti that refuses us, and one that loses records."""
    made = {"FASTPROF_CUPTI_LIBRARY": str(double), "FASTPROF_GPU_CHECK_DOUBLE": "1"}
    checks = ("kernels", "streams", "graphs", "cycles")
    words = ("--only", "facts", *checks)
    done = gpu_check(tmp_path, *words, **made, FAKE_CUPTI_FAIL="cuptiActivityFlushAll=999")
    assert done.returncode == 1
    results = json.loads((tmp_path / "gpu-double-of-libcupti.json").read_text())["checks"]
    assert set(checks) <= {name for name, check in results.items() if check["faults"]}


def test_kernels_are_compared_by_name_count_and_time() -> None:
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    try:
        from session import compare_kernels
    finally:
        sys.path.pop(0)
    ours = {
        "kernels": {"gemm": [50, 1000.0, 20.0], "relu": [50, 500.0, 10.0], "only": [1, 1.0, 1.0]}
    }
    theirs = {
        "kernels": {"gemm": [50, 1100.0, 22.0], "relu": [50, 600.0, 12.0], "add": [2, 3.0, 1.5]}
    }
    differences = "\n".join(compare_kernels(ours, theirs))
    assert "relu: 10.0 us, torch.profiler says 12.0" in differences and "gemm" not in differences
    assert "only: 1 times, torch.profiler says 0" in differences
    assert "add: 0 times, torch.profiler says 2" in differences
