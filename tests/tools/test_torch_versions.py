# SPDX-License-Identifier: Apache-2.0
"""The rows that torch_versions.py writes about test results, and their place in the report."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch_versions

REPORT = """# Versions
| torch | run on | Python | layout | bare | tests |
|---|---|---|---|---|---|
| 2.15.0+cu132 | a day | 3 | equal | ops | all: 3 passed |
| 2.9.1 | a day | 3 | equal | ops | not run |

Text.
"""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "torch_versions.md"
    path.write_text(REPORT)
    monkeypatch.setattr(torch_versions, "REPORT", path)
    return path


def held(version: str) -> torch_versions.Held:
    return torch_versions.Held(version, "today", "3", "equal", "ops", "some")


def test_a_row_is_replaced_whatever_the_build_and_new_ones_are_sorted_in(report: Path) -> None:
    torch_versions.write(held("2.9.1+cu128"))
    torch_versions.write(held("2.10.0"))
    lines = report.read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines if line.startswith("| 2")] == [
        "| 2.15.0+cu132",
        "| 2.10.0",
        "| 2.9.1+cu128",
    ]
    assert lines[3] == REPORT.splitlines()[3] and lines[-1] == "Text."


def test_a_row_is_found_by_the_version_without_its_build(report: Path) -> None:
    assert torch_versions.row_of("2.15.0").tests == "all: 3 passed"
    with pytest.raises(SystemExit, match=r"no row of torch 2\.6\.0"):
        torch_versions.row_of("2.6.0")


def test_what_was_run_is_told_with_what_failed_and_what_was_run_again() -> None:
    file = "tests/python/integration/test_torch_ops.py"
    outcomes = {
        f"{file}::test_a": ["failed", "passed"],
        f"{file}::test_b[x::y]": ["failed"],
        f"{file}::test_c": ["skipped"],
    }
    assert torch_versions._counts(outcomes) == (
        "of ops: 1 passed, 1 skipped, 1 failed: test_b[x::y]; 1 of them run again alone, after a change"
    )
    everything = {
        f"{path.relative_to(torch_versions.ROOT)}::test": ["passed"]
        for path in torch_versions.TESTS
    }
    assert torch_versions._counts(everything) == f"all: {len(everything)} passed, 0 skipped"


def test_what_passed_earlier_is_added() -> None:
    row = "of tracers, import_torch: 5 passed, 2 skipped; 1 of them run again alone, after a change"
    earlier = torch_versions.earlier_of(row)
    assert torch_versions._counts({}, earlier) == row
    now = {
        f"{path.relative_to(torch_versions.ROOT)}::test": ["passed"]
        for path in torch_versions.TESTS
        if path.name not in ("test_torch_tracers.py", "test_import_torch.py")
    }
    assert torch_versions._counts(now, earlier) == (
        f"all: {len(now) + 5} passed, 2 skipped; 1 of them run again alone, after a change"
    )


@pytest.mark.parametrize(
    "row",
    [
        "of tracers: 5 passed, 2 skipped, 1 failed: test_a",
        "of no_such_file: 5 passed, 2 skipped",
        "all: 5 passed, 2 skipped",
    ],
)
def test_a_row_to_add_to_is_of_some_files_without_failures(row: str) -> None:
    with pytest.raises(SystemExit, match="not the row"):
        torch_versions.earlier_of(row)


def test_a_file_of_tests_that_does_not_end_is_killed_with_what_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch_versions, "_TEST_LIMIT_S", 1)
    assert not torch_versions._ran_to_its_end(["sh", "-c", "sleep 60 | sleep 60"], {**os.environ})
    assert torch_versions._ran_to_its_end(["true"], {**os.environ})


def test_outcomes_are_named_as_pytest_takes_them(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(
        '<testsuites><testsuite><testcase classname="tests.python.test_x" name="test_a[1]"/>'
        '<testcase classname="tests.python.test_x.TestGroup" name="test_b"><failure/></testcase>'
        '<testcase classname="tests.python.test_x" name="test_c"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    assert torch_versions._outcomes(tmp_path / "report.xml") == {
        "tests/python/test_x.py::test_a[1]": "passed",
        "tests/python/test_x.py::TestGroup::test_b": "failed",
        "tests/python/test_x.py::test_c": "skipped",
    }
