# SPDX-License-Identifier: Apache-2.0
"""Every test file can be collected without optional packages: it skips itself, with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    ran = subprocess.run(
        [sys.executable, "-c", COLLECT], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "tests/python/integration/test_torch_memory.py" not in ran.stdout  # skipped as a whole
    assert "tests/python/unit/test_table.py::" in ran.stdout
