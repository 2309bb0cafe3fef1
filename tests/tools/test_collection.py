# SPDX-License-Identifier: Apache-2.0
"""Every test file can be collected without optional packages: it skips itself, with the reason; marks stand in it."""

from __future__ import annotations

import re
from pathlib import Path

from processes import python

ROOT = Path(__file__).resolve().parents[2]

# The packages of the extra `integrations` that tests import. None in sys.modules makes an import fail.
COLLECT = """
import sys
for name in ("torch", "jax", "lightning", "transformers", "accelerate", "mmengine", "torchtune", "torch_geometric",
             "torchao", "hta", "perfetto", "torch_tb_profiler", "tensorboard", "viztracer", "pandas", "polars",
             "pyarrow", "tqdm"):
    sys.modules[name] = None
import pytest
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "tests/python", "tests/tools"]))
"""


def test_every_file_is_collected_without_optional_packages() -> None:
    ran = python("-c", COLLECT, cwd=ROOT, check=True)
    assert "tests/python/integration/test_torch_memory.py" not in ran.stdout  # skipped as a whole
    assert "tests/python/unit/test_table.py::" in ran.stdout


def test_marks_that_steps_choose_by_stand_in_the_test_files() -> None:
    """conftest.py looks for them there before it imports a file."""
    helpers = [p for p in (ROOT / "tests").rglob("*.py") if not p.name.startswith("test_")]
    mark = re.compile(r"mark\.(integrations|compilers|nightly|packaging)\b")
    assert helpers and [p.name for p in helpers if mark.search(p.read_text("utf-8"))] == []
