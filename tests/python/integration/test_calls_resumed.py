# SPDX-License-Identifier: Apache-2.0
"""Another profile function comes and goes while calls are recorded: the interval is named, and recording goes on."""

from __future__ import annotations

import cProfile
import sys
import threading
import warnings
from collections.abc import Callable

import pytest

import fastprof

# sys.monitoring serves several tools at once.
REPLACED = sys.version_info < (3, 12)


def leaf() -> None:
    pass


def work() -> None:
    for _ in range(100):
        leaf()


def other_function() -> None:
    sys.setprofile(lambda *event: None)
    work()
    sys.setprofile(None)


def other_profiler() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    work()
    profiler.disable()


def count(profiler: fastprof.profile, name: str) -> int:
    events = profiler.events()
    return sum(e.is_python_function and e.name.endswith(name) for e in events)


@pytest.mark.parametrize("other", [other_function, other_profiler])
@pytest.mark.parametrize("on_thread", [False, True])
def test_calls_before_and_after(other: Callable[[], None], on_thread: bool) -> None:
    def program() -> None:
        work()
        other()
        work()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # once a process
        with fastprof.profile(python_calls=True) as profiler:
            if on_thread:
                thread = threading.Thread(target=program)
                thread.start()
                thread.join()
            else:
                program()
    assert sys.getprofile() is None
    assert count(profiler, ": leaf") == (200 if REPLACED else 300)
    assert count(profiler, ": program") == 1
    (call,) = [e for e in profiler.events() if e.name.endswith(": program")]
    works = [e for e in profiler.events() if e.name.endswith(": work")]
    assert len(works) == (2 if REPLACED else 3)
    assert all(e.cpu_parent is not None and e.cpu_parent.name == call.name for e in works[::2])
    assert call.time_range.end >= works[-1].time_range.end
    if REPLACED:
        assert " to " in profiler.missing["python_calls"]
    else:
        assert profiler.missing == {}


def test_the_end_of_no_profile_function_is_no_gap() -> None:
    with fastprof.profile(python_calls=True) as profiler:
        work()
        sys.setprofile(None)
        work()
    assert count(profiler, ": leaf") == 200 and profiler.missing == {}


@pytest.mark.skipif(not REPLACED, reason="several tools at once")
def test_every_profile_that_lost_calls_says_so() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fastprof.profile(python_calls=True) as outer:
            with fastprof.profile(python_calls=True) as inner:
                sys.setprofile(lambda *event: None)
                work()
            sys.setprofile(None)
            work()
    assert " s on" in inner.missing["python_calls"] and " to " in outer.missing["python_calls"]
    assert count(inner, ": leaf") == 0 and count(outer, ": leaf") == 100
