# SPDX-License-Identifier: Apache-2.0
"""GPU work of whole programs, replayed through the double of libcupti and compared with the trace, event by event.

The traces are made up in the structure of Kineto's. With FASTPROF_GPU_TRACES=folder, every trace in it is replayed,
too: see tests/tools/gpu_scripts.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cuda_double import ROOT, run
from gpu_scripts import REPLAY, Event, expected, made_trace, read_trace, sample_traces, script_of
from needs import NEEDS_CUPTI_HEADERS

pytestmark = [pytest.mark.integrations, NEEDS_CUPTI_HEADERS]


def replay(double: Path, events: list[Event], folder: Path, wanted: Any = None) -> int:
    """Replay a trace, check every event (against `wanted`), and return how many there were."""
    wanted = wanted or expected(events)
    (folder / "script.json").write_text(json.dumps(script_of(events)))
    seen = run(double, REPLAY, folder, PYTHONPATH=str(ROOT / "tests" / "tools"))
    assert seen["found"].keys() == wanted.keys()
    for stream, rows in wanted.items():
        found = seen["found"][stream]
        assert [(c, n, b, r) for c, n, _, b, r in found] == [(c, n, b, r) for c, n, _, b, r in rows]
        # The double counts in ticks, whose rate is measured.
        assert [ns for _, _, ns, _, _ in found] == pytest.approx(
            [ns for _, _, ns, _, _ in rows], rel=0.01, abs=2
        )
    assert {k: seen[k] for k in ("dropped", "without_arrow", "before_call", "elsewhere")} == {
        "dropped": 0, "without_arrow": 0, "before_call": 0, "elsewhere": 0,
    }  # fmt: skip
    return sum(map(len, wanted.values()))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_made_trace(double: Path, tmp_path: Path, seed: int) -> None:
    assert replay(double, made_trace(seed), tmp_path) > 200


def test_real_traces(double: Path, tmp_path: Path) -> None:
    """The beginning of each trace that launches something by the calls that the double has."""
    for path in sample_traces():
        events = read_trace(path)[:20000]
        if expected(events):
            folder = tmp_path / path.name
            folder.mkdir()
            print(path.name, replay(double, events, folder), "events of devices")


def test_the_comparison_notices_a_difference(double: Path, tmp_path: Path) -> None:
    """Another name of a range, and a kernel that takes longer."""
    events = made_trace(3, steps=1)
    launching = {row[-1] for rows in expected(events).values() for row in rows}
    renamed = [{**e, "name": "other"} if e["name"] in launching else e for e in events]
    longer = [{**e, "dur": e["dur"] + 50} if e["cat"] == "kernel" else e for e in events]
    for changed in (renamed, longer):
        with pytest.raises(AssertionError):
            replay(double, changed, tmp_path, wanted=expected(events))
