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


def counts(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, str]:
    """Run a command that prints a table; return the last column by the first."""
    assert main(list(command)) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    return {line[0]: line[-1] for line in lines if len(line) > 4}


def test_ranges_that_nest_in_one_of_their_name_are_counted(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def recursive(n: int) -> None:
        with fastprof.record_function("f"):
            if n:
                recursive(n - 1)

    with fastprof.profile() as live:
        recursive(4)
    outputs = [trace.with_suffix(suffix) for suffix in (".json", ".pftrace", ".fastprof")]
    for output in outputs:
        live.export(str(output)) if output.suffix != ".fastprof" else fastprof.save(live, output)
        assert counts(capsys, "report", str(output))["f"] == "5"
    assert [row.count for row in live.key_averages() if row.key == "f"] == [5]


def test_templates_that_instantiate_each_other_in_a_trace_of_clang(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clang = {"pid": 1, "tid": 1, "ph": "X", "name": "InstantiateClass"}
    write(
        trace,
        {**clang, "ts": 0, "dur": 100, "name": "ExecuteCompiler"},
        *({**clang, "ts": 10 * i, "dur": 90 - 20 * i, "args": {"detail": "A"}} for i in (1, 2, 3)),
        beginningOfTime=1700000000000000,
    )
    assert counts(capsys, "report", str(trace))["InstantiateClass"] == "3"
    folded = trace.with_suffix(".folded")
    assert main(["convert", str(trace), str(folded)]) == 0
    assert "InstantiateClass;InstantiateClass;InstantiateClass" in folded.read_text()


def test_wrappers_of_ops_are_left_out(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    op = {"pid": 1, "tid": 1, "ph": "X", "name": "aten::mm", "cat": "cpu_op"}
    write(trace, *({**op, "ts": i, "dur": 9 - 2 * i} for i in range(3)))
    assert counts(capsys, "report", str(trace))["aten::mm"] == "1"
