# SPDX-License-Identifier: Apache-2.0
"""SimulatedJob of benchmarks/ranks: a job of many ranks with known answers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

_PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "ranks" / "simulated_job.py"
_spec = importlib.util.spec_from_file_location("simulated_job", _PATH)
assert _spec is not None and _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
SimulatedJob: Any = _module.SimulatedJob
