# SPDX-License-Identifier: Apache-2.0
"""What a profile itself takes is in its outputs: CPU time to start, to stop, and of fastprof's threads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from processes import thread_names

import fastprof
from fastprof.cli.main import main
from fastprof.model.own_cost import own_use_text

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc")


def test_start_and_stop_are_within_the_cpu_time_of_the_thread() -> None:
    began_ns = time.thread_time_ns()
    with fastprof.profile() as prof:
        pass
    took_ns = time.thread_time_ns() - began_ns
    own = prof.event_table.metadata["own_use"]
    assert own["start_cpu_ns"] > 0 and own["stop_cpu_ns"] > 0
    assert own["start_cpu_ns"] + own["stop_cpu_ns"] <= took_ns


@needs_proc
def test_threads_count_for_the_profile_that_had_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fastprof.profile(sample_hz=1000) as sampled:
        while "fastprof-sample" not in thread_names():
            time.sleep(0.001)  # it gives itself the name, so it has run
    with fastprof.profile() as other:
        pass
    metadata = sampled.event_table.metadata
    of_sampler = metadata["own_use"]["threads_cpu_ns"]["fastprof-sample"]
    assert 0 < of_sampler <= metadata["sampling"]["sampler_cpu_ns"] + 50_000_000
    assert "fastprof-sample" not in other.event_table.metadata["own_use"]["threads_cpu_ns"]
    text = own_use_text(metadata)
    assert text.startswith("start ") and ", stop " in text and ", fastprof-sample " in text
    for name in ("a.json", "a.fastprof", "a.pftrace"):
        sampled.export(tmp_path / name)
        assert main(["report", str(tmp_path / name)]) == 0
        assert f"CPU time of fastprof itself: {text}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "damaged", [None, 5, {"start_cpu_ns": "x", "threads_cpu_ns": []}, {"threads_cpu_ns": {"a": -1}}]
)
def test_damaged_metadata_says_nothing(damaged: object) -> None:
    assert own_use_text({"own_use": damaged}) == ""
