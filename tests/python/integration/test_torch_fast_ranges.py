# SPDX-License-Identifier: Apache-2.0
"""Ranges of PyTorch's _RecordFunctionFast, which torch.compile and Triton make."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from known_torch import torch
from unfollowed import run_unfollowed

import fastprof
from fastprof import _core

pytestmark = pytest.mark.integrations

FastRange = torch._C._profiler._RecordFunctionFast


def test_an_object_made_before_serves_every_profile() -> None:
    reused = FastRange("reused")
    entries = FastRange.__enter__, FastRange.__exit__
    for _ in range(2):
        with fastprof.profile() as outer, fastprof.profile() as inner:
            with reused, FastRange("inside"):
                torch.ones(1)
            with reused:
                pass
        for p in (outer, inner):
            events = p.events()
            assert [e.name for e in events if e.cpu_parent is None] == ["reused", "reused"]
            assert "inside" in {e.cpu_parent.name for e in events if e.name == "aten::ones"}
    assert (FastRange.__enter__, FastRange.__exit__) == entries  # everything is restored


# with_stack begins ranges on another path.
@pytest.mark.parametrize("option", ["record_shapes", "profile_memory", "with_stack", "all_threads"])
def test_scope_and_keywords(option: str) -> None:
    with fastprof.profile(**{option: True}) as p:
        with FastRange(
            "op", [], {"grid": 3, "ratio": 0.5, "name": "n", "on": True, "list": [1, 2]}
        ):
            pass
        with FastRange("mine", [], {"scope": "user_scope"}):
            pass
    op, mine = (e for e in p.events() if e.name != "[memory]" and not e.is_python_function)
    assert (op.name, op.scope, mine.name, mine.scope) == ("op", 0, "mine", 7)
    assert op.kwinputs == {"grid": 3, "ratio": 0.5, "name": "n", "on": True, "list": [1, 2]}
    assert not op.is_user_annotation and mine.is_user_annotation


def test_beside_torch_profiler_each_is_seen_once() -> None:
    with torch.profiler.profile():  # of 2.8: the first one imports Dynamo, which runs ops
        pass
    with fastprof.profile() as p, torch.profiler.profile() as q:
        with FastRange("both"):
            pass
    assert [e.name for e in p.events()] == [e.name for e in q.events()] == ["both"]


def test_an_exception_ends_it_and_passes() -> None:
    with fastprof.profile() as p:
        with pytest.raises(KeyError):
            with FastRange("failing"):
                raise KeyError("x")
        FastRange("left open").__enter__()
    assert [e.name for e in p.events()] == ["failing", "left open"]
    assert p.event_table.unfinished == 1


def test_entered_here_left_on_another_thread() -> None:
    with fastprof.profile() as p:
        crossing = FastRange("crossing")
        crossing.__enter__()
        thread = threading.Thread(target=crossing.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
    (event,) = p.events()
    assert event.is_async and p.event_table.unfinished == 0


def test_only_what_the_profile_covers() -> None:
    def on_another() -> None:
        with FastRange("elsewhere"):
            pass

    with fastprof.profile(all_threads=False) as p:
        run_unfollowed(on_another)
        with FastRange("here"):
            pass
    assert [e.name for e in p.events()] == ["here"]


def test_the_flag_that_compiled_code_asks_is_shown_and_put_back() -> None:
    autograd_profiler = torch.autograd.profiler
    assert not autograd_profiler._is_profiler_enabled
    with fastprof.profile():
        with fastprof.profile():
            assert autograd_profiler._is_profiler_enabled
        assert autograd_profiler._is_profiler_enabled
    assert not autograd_profiler._is_profiler_enabled
    with torch.profiler.profile():
        with fastprof.profile():
            pass
        assert autograd_profiler._is_profiler_enabled


def test_another_type_is_refused_unchanged() -> None:
    class Other:
        def __init__(self, *arguments: Any) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *error: object) -> None: ...

    before = dict(vars(Other))
    assert (
        "the layout of _RecordFunctionFast in this torch is unknown"
        in _core.torch_observe_fast_ranges(Other)
    )
    assert "is not a type" in _core.torch_observe_fast_ranges(3)
    assert dict(vars(Other)) == before


@pytest.mark.parametrize("late", [False, True])
def test_threads_that_report_memory_only_from_within_a_range(late: bool) -> None:
    """torch's __exit__ asserts that what it made at __enter__ is there, if the thread has a profiler's state."""
    inside, go, left = threading.Event(), threading.Event(), []

    def work() -> None:
        with FastRange("range"):
            inside.set()
            go.wait()
            torch.ones(2)
        left.append(True)

    thread = threading.Thread(target=work)
    if late:
        thread.start()
        inside.wait()
    with fastprof.profile(profile_memory=True) as p:
        if not late:
            thread.start()
        go.set()
        thread.join()
    assert left and any(e.name == "aten::ones" for e in p.events())


def test_left_after_the_profile_and_entered_in_the_next() -> None:
    reused = FastRange("reused")
    p = fastprof.profile(profile_memory=True)
    p.start()
    torch.ones(1)  # torch's state of this thread is fastprof's reporter of memory
    reused.__enter__()
    p.stop()
    reused.__exit__(None, None, None)
    with fastprof.profile(profile_memory=True) as p, reused:
        torch.ones(1)
    assert "reused" in {e.name for e in p.events()}
