# SPDX-License-Identifier: Apache-2.0
"""A step of a test run ends with a line of its times and with the exit status of its command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

STEP = Path(__file__).with_name("step.py")
BUSY = "import time\nwhile time.process_time() < 1.1: pass\n"


@pytest.mark.parametrize(
    ("code", "status", "outcome"),
    [
        (BUSY, 0, "ok"),
        (BUSY + "raise SystemExit(3)", 3, r"FAILED \(3\)"),
        (BUSY + "import os; os.abort()", 134, r"FAILED \(134\)"),
    ],
)
def test_a_step_ends_with_its_times_and_status(code: str, status: int, outcome: str) -> None:
    command = [sys.executable, STEP, "one", "--of", "1/2", "--", sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == status
    first, last = result.stdout.splitlines()
    assert first == "---- one (step 1/2)"
    assert re.fullmatch(rf"step one: \d+ s, [1-9]\d* s CPU, {outcome}", last)
