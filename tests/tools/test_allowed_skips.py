# SPDX-License-Identifier: Apache-2.0
"""A skip that is not listed fails a run of the tests in continuous integration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from allowed_skips import Allowed, Skip, unlisted

TESTS = Path(__file__).resolve().parents[1]
RULES = [Allowed("core", r"tests/a\.py$", "torch is not", "why")]


def test_a_rule_holds_for_its_stage_place_and_reason() -> None:
    listed = Skip("tests/a.py", "torch is not installed")
    others = [
        Skip("tests/a.py::test_one", "torch is not installed"),
        Skip("tests/b.py", "torch is not installed"),
        Skip("tests/a.py", "no compiler"),
    ]
    assert unlisted("core", [listed, *others], RULES) == others
    assert unlisted("integrations", [listed], RULES) == [listed]


@pytest.mark.parametrize("stage", [None, "core"])
def test_a_run_fails_in_ci_only(tmp_path: Path, stage: str | None) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\ndef test_one():\n    pytest.skip('no screen')\n\ndef test_two():\n    pass\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "FASTPROF_CI_STAGE"}
    environment["PYTHONPATH"] = str(TESTS / "tools")
    if stage is not None:
        environment["FASTPROF_CI_STAGE"] = stage
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == (0 if stage is None else 1), done.stdout
    assert ("test_one.py::test_one: no screen" in done.stdout) == (stage is not None)
