# SPDX-License-Identifier: Apache-2.0
"""Jobs of gloo for tests of ranks: how their programs begin, and how they are run."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import python

# begin(): what each rank does first; one thread, because the ranks share the CPUs.
BEGIN = """
import glob, json, os, signal, sys, time, warnings
warnings.simplefilter("ignore")
import torch
import torch.distributed as dist
import fastprof

def begin(rank, size, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)
"""


def require_gloo() -> None:
    """Skip the test without torch or gloo."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("needs gloo")


def run_job(folder: Path, program: str, *arguments: object) -> str:
    """Run a program, which follows BEGIN, in a folder; its last argument is the store. Return its output."""
    require_gloo()
    (folder / "job.py").write_text(BEGIN + program)
    return python("job.py", *arguments, folder / "store", cwd=folder, check=True).stdout
