# SPDX-License-Identifier: Apache-2.0
"""A training by Lightning's Trainer under FastprofProfiler."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lightning_training import fit

import fastprof

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore"),  # theirs
]

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
lightning: Any = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")


def test_report_and_trace(tmp_path: Path) -> None:
    from fastprof.integrations.lightning import FastprofProfiler

    profiler = FastprofProfiler(dirpath=tmp_path, filename="report", row_limit=-1)
    fit(tmp_path, profiler)
    (written,) = tmp_path.glob("fit-report*.txt")
    report = written.read_text()
    assert "# of Calls" in report and "run_training_batch" in report
    (trace,) = tmp_path.glob("*.pt.trace.json")
    names = Counter(e["name"] for e in json.loads(trace.read_text())["traceEvents"])
    assert names["run_training_batch"] == 6
    assert names["aten::square"] == 6
    events = profiler.profile_object.events()
    assert not profiler.profile_object.event_table.unfinished
    (strategy_step, *_) = [e for e in events if e.name.endswith(".training_step")]
    assert strategy_step.cpu_parent is not None


def test_schedule(tmp_path: Path) -> None:
    from fastprof.integrations.lightning import FastprofProfiler

    profiler = FastprofProfiler(
        dirpath=tmp_path, schedule=fastprof.schedule(wait=1, warmup=1, active=2, repeat=1)
    )
    fit(tmp_path, profiler)
    counts = Counter(e.trace_name for e in profiler.profile_object.events())
    assert counts["ProfilerStep#2"] == counts["ProfilerStep#3"] == 1
    assert counts["aten::square"] == 2
