# SPDX-License-Identifier: Apache-2.0
"""explain() by module and category, waits by what an event is, and the command on a program that it runs."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python
from trace_tables import table_of_rows

import fastprof
from fastprof.analysis import explain
from fastprof.model.columns import CodedColumn

MS = 1_000_000
Row = tuple[str, str, int, int, int]  # name, category, start, end in ms, track


def table_of(rows: list[Row], **coded: Any) -> fastprof.EventTable:
    return table_of_rows(
        [row[:4] for row in rows],
        unit_ns=MS,
        track=[row[4] for row in rows],
        tracks=[fastprof.Track(1, name="main"), fastprof.Track(2, name="writer")],
        **coded,
    )


def steps(*inner: tuple[str, str, int]) -> list[Row]:
    """Return ten steps, each of the given (name, category, ms) one after another, and 1 ms more."""
    rows: list[Row] = []
    at = 0
    for number in range(10):
        begin = at
        for name, category, ms in inner:
            rows.append((name, category, at, at + ms, 0))
            at += ms
        at += 1
        rows.append((f"ProfilerStep#{number}", "user_annotation", begin, at, 0))
    return rows


WORK = ("aten::mm", "cpu_op", 9)


def waits_of(rows: list[Row]) -> list[str]:
    return [claim.text.split(":")[0] for claim in explain(table_of(rows)).waits]


@pytest.mark.parametrize(
    ("name", "category", "wait"),
    [
        ("load data", "user_annotation", "waiting for data"),
        ("load_batch", "user_annotation", "waiting for data"),
        ("data_loading", "user_annotation", "waiting for data"),
        ("upload_data", "user_annotation", None),
        ("load data", "python_function", None),
        ("train.py(3): load_batch", "python_function", None),
        ("torch/utils/data/dataloader.py(630): __next__", "python_function", "waiting for data"),
        ("<built-in method acquire of _thread.lock object at 0x1>", "python_function", "waiting for another thread"),
        ("threading.py(589): wait", "python_function", "waiting for another thread"),
        ("my_threading.py(1): waited", "python_function", None),
        ("acquire the lock", "user_annotation", "waiting for another thread"),
        ("acquire the lock", "cpu_op", None),
        ("cudaStreamSynchronize", "cuda_runtime", "waiting for the device"),
        ("Command Buffer Full", "overhead", "waiting for room in the device's queue"),
        ("cudaLaunchKernel", "cuda_runtime", None),
        ("aten::item", "cpu_op", None),
        ("<built-in function sleep>", "python_function", "sleeping"),
        ("sleep", "user_annotation", None),
        ("<method 'recv' of '_socket.socket' objects>", "python_function", "waiting for input or output"),
        ("fetch", "task_await", "suspended in a task"),
        ("fetch", "task_lifetime", None),
        ("cudaStreamSynchronize", "another profiler's", "waiting for the device"),
    ],
)  # fmt: skip
def test_an_event_is_a_wait_by_its_category_and_name(
    name: str, category: str, wait: str | None
) -> None:
    assert waits_of(steps(WORK, (name, category, 9))) == ([] if wait is None else [wait])


def test_reading_a_value_waits_for_a_device_only_where_there_is_one() -> None:
    rows = steps(WORK, ("aten::item", "cpu_op", 9))
    assert waits_of(rows) == []
    rows.append(("cudaLaunchKernel", "cuda_runtime", 0, 1, 1))
    assert waits_of(rows) == ["waiting for the device"]


def test_a_wait_in_a_wait_counts_once() -> None:
    rows = steps(("load data", "user_annotation", 9))
    rows += [
        ("<built-in function sleep>", "python_function", a, b, 0) for _, _, a, b, _ in rows[::2]
    ]
    (wait,) = explain(table_of(rows)).waits
    assert (wait.text.split(":")[0], wait.ns) == ("waiting for data", 90 * MS)


def test_time_by_category_adds_up_to_the_steps() -> None:
    found = explain(
        table_of(steps(WORK, ("load data", "user_annotation", 5), ("f", "python_function", 3)))
    )
    assert [(c.ns // MS, c.text.split("  ")[-1]) for c in found.categories] == [
        (90, "ops of PyTorch"),
        (50, "waits"),
        (30, "Python functions"),
    ]
    assert sum(c.ns for c in found.categories) + found.where[-1].ns == found.total_ns
    assert found.where[-1].text.endswith("outside of any event")


def test_time_by_module_is_without_inner_modules() -> None:
    rows = steps(("nn.Module: Net_0", "python_function", 20))
    for _, _, a, _, _ in list(rows[::2]):
        rows += [
            ("nn.Module: Linear_0", "python_function", a + 2, a + 10, 0),
            ("aten::addmm", "cpu_op", a + 3, a + 9, 0),
            ("aten::relu", "cpu_op", a + 12, a + 15, 0),
        ]
    table = table_of(rows)
    found = explain(table)
    assert [(c.ns // MS, c.text.split("  ")[-1]) for c in found.modules] == [
        (120, "Net_0"),
        (80, "Linear_0"),
    ]
    assert {table.name(row) for row in found.modules[1].rows} == {
        "aten::addmm"
    }  # those with most of it
    assert "By module" in found.text()
    assert explain(table_of(steps(WORK))).modules == []


def test_what_stands_out_is_listed_with_its_rows() -> None:
    table = table_of(steps(WORK, ("load data", "user_annotation", 9)))
    ((text, rows),) = explain(table).findings()
    assert text.startswith("waiting for data")
    assert {table.name(row) for row in rows} == {"load data"}
    assert explain(table_of(steps(WORK))).findings() == []


PROGRAM = """
    import sys, time
    import fastprof
    for _ in range(5):
        with fastprof.record_function("step"):
            with fastprof.record_function("load data"):
                time.sleep(0.02)
    print("the program's output", sys.argv[1:])
    if sys.argv[1:] == ["--fail"]:
        sys.exit(3)
"""


def explain_live(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    return python("-m", "fastprof", "explain", *words, cwd=folder, NO_COLOR="1")


def test_the_command_runs_a_program_and_explains_it(tmp_path: Path) -> None:
    done = explain_live(tmp_path, "--live", "--step", "step", "program.py", "--live", "x")
    assert done.stdout == "the program's output ['--live', 'x']\n"
    assert done.returncode == 0
    assert done.stderr.startswith("5 steps, median ")
    assert "waiting for data" in done.stderr
    assert "Load data ahead" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_the_command_passes_the_exit_code_on_and_writes_json(tmp_path: Path) -> None:
    done = explain_live(
        tmp_path, "--live", "--as-json", "--explanation", "why.json", "--no-calls",
        "--exact-python-memory", "program.py", "--fail",
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    found = json.loads((tmp_path / "why.json").read_text())
    assert found["waits"][0]["text"].startswith("waiting for data")
    devices = {claim["text"].split()[2] for claim in found["memory"]}
    assert "python:object:" in devices <= {"python:mem:", "python:object:", "python:raw:"}
    assert not any("sleep" in claim["text"] for claim in found["where"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no file to explain"),
        (["--live"], "no program to run"),
        (["--profile-memory", "--no-calls", "t.json"], "--calls, --profile-memory: of a recording"),
        (["--live", "--step", "none such", "program.py"], "no range is named 'none such'"),
        (["--explanation", "missing/why.txt", "--live", "program.py"], "does not exist"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path: Path, words: list[str], message: str) -> None:
    done = explain_live(tmp_path, *words)
    assert message in done.stderr
    assert done.returncode == 2
    assert ("Where the time went" in done.stderr) == ("--step" in words)  # the run is not lost


def test_time_by_module_of_torchscript() -> None:
    """Modules are recorded with the ops then; what is in none is a share of its own, if anything is in one."""
    rows = steps(("aten::mm", "cpu_op", 6), ("aten::relu", "cpu_op", 3), ("backward", "cpu_op", 2))
    hierarchy = {"aten::mm": "top.Linear", "aten::relu": "top.ReLU"}
    texts = [hierarchy.get(name) for name, *_ in rows]
    codes = CodedColumn.encode(texts)
    found = explain(table_of(rows, coded={"module_hierarchy": codes}))
    assert [(c.ns // MS, c.text.split("  ")[-1].strip()) for c in found.modules] == [
        (60, "top.Linear"), (30, "top.ReLU"), (20, "outside of any module"),
    ]  # fmt: skip
    nothing = CodedColumn(np.full(len(rows), -1, np.int32), ())
    assert explain(table_of(rows, coded={"module_hierarchy": nothing})).modules == []
