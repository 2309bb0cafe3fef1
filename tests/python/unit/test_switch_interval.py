# SPDX-License-Identifier: Apache-2.0
"""The interpreter's switch interval is the program's own whenever no start is in progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

import fastprof


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.25)
    yield
    after = sys.getswitchinterval()
    sys.setswitchinterval(before)
    assert after == pytest.approx(0.25)


def test_starts_and_starts_that_fail() -> None:
    with fastprof.profile() as profiler:
        assert sys.getswitchinterval() == pytest.approx(0.25)
        with pytest.raises(fastprof.errors.StateError):
            profiler.start()
    failing = fastprof.profile()
    failing.set_custom_trace_id_callback(lambda: str(1 // 0))
    with pytest.raises(ZeroDivisionError):
        failing.start()


def test_a_short_interval_of_the_program_stays() -> None:
    sys.setswitchinterval(1e-4)
    with fastprof.profile():
        pass
    assert sys.getswitchinterval() == pytest.approx(1e-4)
    sys.setswitchinterval(0.25)


def test_a_fork_during_a_start() -> None:
    """The child of a fork in the middle of a start has the program's interval."""
    children: list[int] = []

    def fork() -> str:
        if pid := os.fork():
            children.append(pid)
            return "id"
        os._exit(0 if sys.getswitchinterval() == pytest.approx(0.25) else 1)

    profiler = fastprof.profile()
    profiler.set_custom_trace_id_callback(fork)
    with profiler:
        pass
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0]
