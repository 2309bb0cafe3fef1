# SPDX-License-Identifier: Apache-2.0
"""What all tests share. In continuous integration, an unlisted skip fails the run (tests/tools/allowed_skips.py)."""

from __future__ import annotations

import os
import re
import signal
import stat
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from allowed_skips import Skip, unlisted
from hypothesis import HealthCheck, settings

STAGE = "FASTPROF_CI_STAGE"

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

_skips: list[Skip] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file that as a whole has a mark which `-m` excludes, or has nowhere one that it asks for."""
    asked = str(config.getoption("markexpr")).split(" and ")
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    if not all(re.fullmatch(r"(not )?\w+", part) for part in asked):
        return None  # more than marks joined by `and`
    text = collection_path.read_text(encoding="utf-8")
    whole = re.search(r"^pytestmark = (\[[^]]*\]|.*)", text, re.MULTILINE)
    of_all = f"{whole[0]} " if whole else ""
    for part in asked:
        mark = part.removeprefix("not ")
        found = re.search(rf"\bmark\.{mark}\b", text if mark == part else of_all)
        if (found is not None) != (mark == part):
            return True
    return None


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        _skips.append(Skip(report.nodeid, report.longrepr[2].removeprefix("Skipped: ")))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def _unlisted_in_ci() -> list[Skip]:
    stage = os.environ.get(STAGE)
    return [] if stage is None else unlisted(stage, _skips)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _unlisted_in_ci():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = _unlisted_in_ci()
    if found:
        terminalreporter.section("skipped, and not listed in tests/tools/allowed_skips.py")
        for skip in found:
            terminalreporter.line(f"{skip.place}: {skip.reason}")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Put /dev/null back if it is gone, with a warning: without it, every later test that starts a program fails."""
    with suppress(OSError):
        if stat.S_ISCHR(os.stat(os.devnull).st_mode):
            return
    with suppress(OSError):  # only root may
        Path(os.devnull).unlink(missing_ok=True)
        os.mknod(os.devnull, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.chmod(os.devnull, 0o666)
    warnings.warn(f"{os.devnull} was gone after {item.nodeid}", stacklevel=1)


@pytest.fixture
def sigint() -> Iterator[None]:
    """Programs begun here take Ctrl-C, also where the tests themselves were begun in the background, without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
