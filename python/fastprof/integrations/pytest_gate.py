# SPDX-License-Identifier: Apache-2.0
"""Gate: `pytest --fastprof` runs chosen tests several times and fails those that became slower than the baseline.

A test is set up, called and torn down anew for each round, of which the call is timed. The first round warms up. For an
update and a failure, one more is profiled with Python calls, which says what grew. A test is slower if growth_of() says
so twice: rounds that exceed the bound are repeated once, because a neighbour of the machine may have disturbed them.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from fastprof.analysis.growth import LEAST_ROUNDS, Growth, growth_of
from fastprof.base import errors
from fastprof.base.atomic_file import check_output
from fastprof.base.formatting import counted, format_time
from fastprof.base.short_paths import shorten_paths
from fastprof.base.visible_text import shortened
from fastprof.integrations.pytest_baseline import Baseline
from fastprof.profiler.profiling import profile

__all__ = ["Gate"]

_LINE = re.compile(r"\(\d+\): ")  # of a function's name, which changes with the lines above it
_MOST_S = 10.0  # for the rounds of a test
_KEPT_NAMES = 200
_SHOWN_NAMES = 5


class _Outcome(NamedTuple):
    """What became of a test. growth: None without a baseline."""

    test: str
    median_ns: int
    growth: Growth | None
    failed: bool


class Gate:
    """The hooks of pytest; an instance is registered as a plugin."""

    def __init__(self, config: pytest.Config) -> None:
        """Raises pytest.UsageError for options that do not fit."""
        if hasattr(config, "workerinput") or config.getoption("numprocesses", None):
            raise pytest.UsageError("--fastprof measures times: run it without -n of pytest-xdist.")
        self._rounds = config.getoption("fastprof_rounds")
        _check_rounds("--fastprof-rounds ", self._rounds)
        self._max_growth = config.getoption("fastprof_max_growth")
        _check_growth("--fastprof-max-growth ", self._max_growth)
        self._root = str(config.rootpath)
        path = os.path.join(self._root, config.getoption("fastprof_baseline"))
        self._update = bool(config.getoption("fastprof_update"))
        try:
            if self._update:
                check_output(path)  # else hours of measurements could be lost
            self._baseline = Baseline(path)
        except errors.Error as error:
            text = getattr(error, "strerror", None)  # that of an OSError without its number
            raise pytest.UsageError(text or str(error)) from error
        self._all = bool(config.getoption("fastprof_all"))
        self._calls = False  # whether the next call records Python calls
        self._call_ns = 0
        self._self_ns: dict[str, int] = {}
        self._measuring = False
        self._outcomes: list[_Outcome] = []
        self._unsaved = ""  # why the baseline could not be written

    # ---- rounds --------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool | None:
        """Run a chosen test in rounds, and log the last one."""
        chosen = self._chosen(item)
        if chosen is None:
            return None
        rounds, bound = chosen
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._measuring = True
        try:
            reports = self._measured(item, rounds, bound)
        finally:
            self._measuring = False
        reports += _rest_of_teardown(item, nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Check the marks of all tests before the first is measured. Raises pytest.UsageError."""
        for item in items:
            self._chosen(item)

    def _chosen(self, item: Any) -> tuple[int, float] | None:
        """Return rounds and bound of a test that is to be measured. Raises pytest.UsageError for a wrong mark."""
        mark = item.get_closest_marker("fastprof")
        if mark is None and not self._all:
            return None
        if not isinstance(item, pytest.Function):
            return None  # may run only once, as a doctest, which loses its names then
        if mark is None:
            return self._rounds, self._max_growth
        where = f"{item.nodeid}: @pytest.mark.fastprof"
        wrong = [repr(each) for each in mark.args]
        wrong += [f"{name}=" for name in mark.kwargs if name not in ("max_growth", "rounds")]
        if wrong:
            raise pytest.UsageError(
                f"{where} has max_growth=PERCENT and rounds=N only, not {', '.join(wrong)}."
            )
        rounds = mark.kwargs.get("rounds", self._rounds)
        _check_rounds(f"{where}: rounds=", rounds)
        bound = mark.kwargs.get("max_growth", self._max_growth)
        _check_growth(f"{where}: max_growth=", bound)
        return rounds, bound

    def _measured(self, item: Any, rounds: int, bound: float) -> list[pytest.TestReport]:
        reports = self._round(item)  # warms up
        if not _passed(reports):
            return reports
        earlier = [] if self._update else self._baseline.runs(item.nodeid)
        growth = None
        for _ in range(2):
            times: list[int] = []
            gc.collect()
            end_s = time.monotonic() + _MOST_S
            while len(times) < LEAST_ROUNDS or (len(times) < rounds and time.monotonic() < end_s):
                reports = self._round(item)
                if not _passed(reports):
                    return reports
                times.append(self._call_ns)
            if not earlier:
                break
            growth = growth_of([each["rounds_ns"] for each in earlier], times)
            if growth.low <= 1 + bound / 100:
                break
        failed = growth is not None and growth.low > 1 + bound / 100
        if self._update or failed:
            self._calls = True
            try:
                recorded = self._round(item)
            finally:
                self._calls = False
            if not _passed(recorded):
                return recorded
        median_ns = sorted(times)[len(times) // 2]
        self._outcomes.append(_Outcome(item.nodeid, median_ns, growth, failed))
        if self._update:
            self._baseline.add(item.nodeid, {"rounds_ns": times, "self_ns": self._self_ns})
        if growth is not None and failed:
            call = next(each for each in reports if each.when == "call")
            call.outcome = "failed"
            before = {self._short(name): ns for name, ns in earlier[-1]["self_ns"].items()}
            call.longrepr = "\n".join(_failure(growth, bound, before, self._self_ns))
        return reports

    def _round(self, item: Any) -> list[pytest.TestReport]:
        # As pytest-rerunfailures does: fixtures are made anew. With the parent as the next item, only those of this
        # test are torn down. A method of a class has an object of its own in each round, as each test has.
        if isinstance(item.parent, pytest.Class):
            item.__dict__.pop("_instance", None)
            item.__dict__.pop("_obj", None)
        found: list[pytest.TestReport] = runtestprotocol(item, nextitem=item.parent, log=False)
        return found

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        """Time the call of a round, or profile it."""
        if not self._measuring or not self._calls:
            start_ns = time.perf_counter_ns()
            yield
            self._call_ns = time.perf_counter_ns() - start_ns
            return
        # What cannot be recorded is no matter of the test, which may turn warnings into errors.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recording = profile(python_calls=True)
            recording.start()
        yield
        with warnings.catch_warnings():  # anew: the test may have changed the filters
            warnings.simplefilter("ignore")
            recording.stop()
            events = list(recording.events())
        spent: dict[str, int] = {}
        for each in events:
            name = _LINE.sub(": ", self._short(each.name))
            spent[name] = spent.get(name, 0) + int(each.self_cpu_time_total * 1000)
        order = sorted(spent, key=lambda name: -spent[name])[:_KEPT_NAMES]
        self._self_ns = {name: spent[name] for name in order}

    def _short(self, name: str) -> str:
        # The baseline may come from another checkout, and older ones have whole paths without the line, which
        # shorten_paths() keeps, as it does those of folders with parentheses.
        return shorten_paths(name, self._root).removeprefix(self._root + os.sep)

    # ---- results -------------------------------------------------------------------------------

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the baseline; if that fails, the exit status is 1 at least."""
        if not self._update or not self._outcomes:
            return
        try:
            self._baseline.save()
        except errors.IoError as error:
            self._unsaved = os.strerror(error.errno or errno.EIO)
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print a line for each measured test."""
        out = terminalreporter
        out.section("fastprof")
        for each in sorted(
            self._outcomes, key=lambda each: -(each.growth.ratio if each.growth else 0)
        ):
            line = f"{_ms(each.median_ns):>12}  "
            if each.growth is not None:
                line += f"{100 * (each.growth.ratio - 1):+7.1f} %  at least {100 * (each.growth.low - 1):+.1f} %  "
            out.write_line(line + each.test + ("  SLOWER" if each.failed else ""))
        if self._unsaved:
            out.write_line(
                f"ERROR: cannot write {self._baseline.path}: {self._unsaved}. The measurements are lost.",
                red=True,
            )
            return
        if self._update and self._outcomes:
            out.write_line(f"{counted(len(self._outcomes), 'test')} added to {self._baseline.path}")
            return
        if not self._outcomes:
            out.write_line(
                "no test was measured: mark test functions with @pytest.mark.fastprof, or choose all by --fastprof-all"
            )
        without = sum(each.growth is None for each in self._outcomes)
        if without:
            out.write_line(
                f"{counted(without, 'test')} not compared: no baseline of this machine. Make it with --fastprof-update."
            )
            for other in self._baseline.other_machines:
                out.write_line(f"  there is one of another machine: {other}")


def _check_rounds(name: str, rounds: Any) -> None:
    if not isinstance(rounds, int) or rounds < LEAST_ROUNDS:
        raise pytest.UsageError(f"{name}{rounds!r}: at least {LEAST_ROUNDS} are needed.")


def _check_growth(name: str, bound: Any) -> None:
    # With NaN or infinity, no test would fail.
    if not isinstance(bound, (int, float)) or not 0 <= bound <= sys.float_info.max:
        raise pytest.UsageError(f"{name}{bound!r}: a number of percent is needed, 0 or more.")


def _rest_of_teardown(item: Any, nextitem: Any) -> list[pytest.TestReport]:
    """Tear down what the next test does not need, such as fixtures of the module; return the report of a failure."""
    call = pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown"
    )
    return [item.ihook.pytest_runtest_makereport(item=item, call=call)] if call.excinfo else []


def _passed(reports: list[pytest.TestReport]) -> bool:
    return all(each.passed for each in reports)


def _failure(
    growth: Growth, bound: float, before: dict[str, int], after: dict[str, int]
) -> list[str]:
    lines = [
        f"fastprof: the test takes {_ms(growth.after_ns)} instead of {_ms(growth.before_ns)}: "
        f"{100 * (growth.ratio - 1):.1f} % longer, and at least {100 * (growth.low - 1):.1f} % (99.9 % confidence); "
        f"{bound:g} % are allowed."
    ]
    grown = sorted(after, key=lambda name: before.get(name, 0) - after[name])[:_SHOWN_NAMES]
    grown = [name for name in grown if after[name] > before.get(name, 0)]
    if grown:
        lines.append("What grew, in one round with Python calls recorded:")
        lines += [
            f"{_ms(after[name] - before.get(name, 0)):>12} more  {shortened(name, 100)}"
            for name in grown
        ]
    lines.append("If this is intended, add the new times to the baseline: --fastprof-update.")
    return lines


def _ms(ns: float) -> str:
    return format_time(ns / 1000, "ms")
