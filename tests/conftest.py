# SPDX-License-Identifier: Apache-2.0
"""In continuous integration, a skip that tests/tools/allowed_skips.py does not list fails the run."""

from __future__ import annotations

import os

import pytest
from allowed_skips import Skip, unlisted

STAGE = "FASTPROF_CI_STAGE"

_skips: list[Skip] = []


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        _skips.append(Skip(report.nodeid, report.longrepr[2].removeprefix("Skipped: ")))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if unlisted(os.environ.get(STAGE, ""), _skips) and STAGE in os.environ:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if STAGE not in os.environ:
        return
    found = unlisted(os.environ[STAGE], _skips)
    if found:
        terminalreporter.section("skipped, and not listed in tests/tools/allowed_skips.py")
        for skip in found:
            terminalreporter.line(f"{skip.place}: {skip.reason}")
