# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for mutants.py: notes how long each test takes and, under coverage, which test runs each line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

import pytest

_seconds: dict[str, float] = {}
_failed: set[str] = set()


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
    began = time.perf_counter()
    yield
    _seconds[item.nodeid] = time.perf_counter() - began
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
