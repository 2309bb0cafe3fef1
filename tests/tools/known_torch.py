# SPDX-License-Identifier: Apache-2.0
"""The torch whose layouts fastprof's table lists; where it is not installed, test modules that import this are skipped.

Import it before anything that needs torch: the skip takes place at the import.
"""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["CPU", "VERSION", "one_thread", "torch"]

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

VERSION = str(torch.__version__)
if not VERSION.startswith("2.13."):
    pytest.skip(f"torch {VERSION} is not in the table of layouts", allow_module_level=True)

# What torch.profiler is asked to record.
CPU = [torch.profiler.ProfilerActivity.CPU]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """For every test of a module that imports it: no op hands parts of its work to threads of torch."""
    torch.set_num_threads(1)
