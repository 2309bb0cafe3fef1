# SPDX-License-Identifier: Apache-2.0
"""Chrome traces as tools write them, beyond the format's description: rows of load(), lines of the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.cli.main import main


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


def spans(path: Path) -> list[tuple[str, float, float, int]]:
    """Return (name, start in us, duration in us, pid) of each row."""
    table = fastprof.load(path)
    return [
        (table.name(i), start / 1e3, duration / 1e3, table.tracks[track].pid)
        for i, (start, duration, track) in enumerate(
            zip(
                table.start_ns.tolist(),
                table.duration_ns.tolist(),
                table.column("track").tolist(),
                strict=True,
            )
        )
    ]


def write(path: Path, *events: Any, **top: Any) -> None:
    path.write_text(json.dumps({**top, "traceEvents": events}))


def test_the_empty_event_that_ends_traces_of_jax(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = {"ph": "X", "pid": 701, "tid": 1, "ts": 2987806.069, "dur": 15537.78, "name": "Pjit(f)"}
    write(trace, {**step, "args": {"step_num": "3"}}, {**step, "args": None}, {}, None)
    assert spans(trace) == [("Pjit(f)", 2987806.069, 15537.78, 701)] * 2
    assert main(["report", str(trace)]) == 0
    printed = capsys.readouterr().out
    assert "not read: event without a phase (ph) (1), event that is not an object (1)" in printed
