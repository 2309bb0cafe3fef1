# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for mutants.py: records the CPU time of each test and, under coverage, the tests of each line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

_seconds: dict[str, float] = {}
_failed: set[str] = set()


def _cpu_s() -> float:
    """CPU time of this process and of those it has waited for: what other programs do does not change it."""
    return sum(os.times()[:4])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    try:
        from coverage import Coverage
    except ImportError:
        current = None
    else:
        current = Coverage.current()
    if current is not None:
        current.switch_context(item.nodeid)
    began = _cpu_s()
    yield
    _seconds[item.nodeid] = _cpu_s() - began
    if current is not None:
        current.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    path = os.environ.get("MUTANTS_TESTS")
    if path:
        with open(path, "w") as file:
            json.dump({"seconds": _seconds, "failed": sorted(_failed)}, file)
