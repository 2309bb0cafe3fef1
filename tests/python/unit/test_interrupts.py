# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C anywhere in start(), step(), stop() and the with block: no session stays active and no result is lost."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import textwrap
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from interrupts import run_interrupted
from processes import python

import fastprof
from fastprof import ProfilerAction, _core
from fastprof.adapters import import_watch
from fastprof.adapters.torch import ops as torch_ops
from fastprof.profiler import followed_process, gc_events, open_profiles, recording
from fastprof.profiler.result import Result

GC = fastprof._ExperimentalConfig(record_python_gc_info=True)
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stacks and collections": {"with_stack": True, "experimental_config": GC},
    "one thread": {"all_threads": False},
}


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[_core.Session]]:
    """Every native session that profiles create. At the end of the test none runs, and nothing else is active."""
    made: list[_core.Session] = []
    # An exception between the end of a with block and the call of __exit__ leaves a lock taken. Real signals never
    # arrive there, but the interrupts of these tests do: so the tests use locks of their own.
    for module in (torch_ops, import_watch):
        monkeypatch.setattr(module, "_lock", threading.RLock())

    def session(**options: Any) -> _core.Session:
        made.append(_core.Session(**options))
        return made[-1]

    native = types.SimpleNamespace(**{**vars(_core), "Session": session})
    monkeypatch.setattr(recording, "_core", native)
    yield made
    assert nothing_is_on(made)


def nothing_is_on(sessions: list[_core.Session]) -> bool:
    return (
        not any(session.running for session in sessions)
        and not torch_ops._live
        and torch_ops._watch is None
        and not open_profiles._open
        and not gc_events._live
        and gc_events._collecting not in gc.callbacks
        and sys.getprofile() is None
    )


def every_place(
    prepare: Callable[[], Any], work: Callable[[Any], Any], check: Callable[[Any], None]
) -> int:
    """Call prepare(), interrupt work() at the first possible place, call check(); repeat for each later place.

    work() first runs once without an interrupt: an interrupted import would leave a file open.
    """
    subject = prepare()
    work(subject)
    check(subject)
    at = 0
    while True:
        subject = prepare()
        interrupted = run_interrupted(functools.partial(work, subject), at)
        check(subject)
        if not interrupted:
            return at
        at += 1


def names(p: fastprof.profile) -> list[str]:
    return [e.name for e in p.events() if e.name != "Python GC" and not e.is_python_function]


def started(**options: Any) -> fastprof.profile:
    """Return a running profile that has recorded a range."""
    p = fastprof.profile(**options)
    p.start()
    with fastprof.record_function("work"):
        pass
    return p


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_second_stop_finishes_the_first(
    options: dict[str, Any], sessions: list[_core.Session]
) -> None:
    handled: list[Result] = []

    def running() -> fastprof.profile:
        handled.clear()
        return started(on_trace_ready=lambda p: handled.append(p._results[-1]), **options)

    def check(p: fastprof.profile) -> None:
        p.stop()
        assert handled == p._results and names(p) == ["work"]
        assert nothing_is_on(sessions)
        sessions.clear()

    assert every_place(running, lambda p: p.stop(), check) > 50


# An interrupt between open() and its `with` leaves the file to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupted_export_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "work.csv.gz"
    with fastprof.profile() as p, fastprof.record_function("work"):
        pass
    table = p.event_table

    def check(_: None) -> None:
        assert set(os.listdir(tmp_path)) <= {path.name}

    assert (
        every_place(lambda: path.unlink(missing_ok=True), lambda _: table.export(path), check) > 50
    )


# An interrupt between open() and its `with` leaves the file to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_followed_children_leave_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sessions: list[_core.Session]
) -> None:
    """Of an interrupted start or stop, neither the folder, the environment nor the following of processes stays."""
    monkeypatch.setattr("fastprof.record.shard_folder._shared_memory", lambda: str(tmp_path))
    before = dict(os.environ)

    def check(p: fastprof.profile) -> None:
        p.stop()
        assert list(tmp_path.iterdir()) == [] and dict(os.environ) == before
        assert not followed_process.is_followed()
        sessions.clear()

    def running() -> fastprof.profile:
        p = fastprof.profile(follow_children=True)
        p.start()
        return p

    assert every_place(running, lambda p: p.stop(), check) > 100
    new = functools.partial(fastprof.profile, follow_children=True)
    assert every_place(new, lambda p: p.start(), check) > 100


def test_the_end_of_a_block(sessions: list[_core.Session]) -> None:
    not_stopped = 0

    def running() -> fastprof.profile:
        p = fastprof.profile()
        p.__enter__()
        with fastprof.record_function("work"):
            pass
        return p

    def check(p: fastprof.profile) -> None:
        nonlocal not_stopped
        not_stopped += any(session.running for session in sessions)
        p.stop()
        assert names(p) == ["work"]
        sessions.clear()

    assert every_place(running, lambda p: p.__exit__(None, None, None), check) > 50
    assert not_stopped <= 8  # interrupted before it had begun, or while it dealt with that


def test_results_of_an_interrupted_stop_without_a_second(sessions: list[_core.Session]) -> None:
    def check(p: fastprof.profile) -> None:
        if p._stopping:
            assert names(p) == ["work"]
        p.stop()
        sessions.clear()

    every_place(started, lambda p: p.stop(), check)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_an_interrupted_start_leaves_nothing_on(
    options: dict[str, Any], sessions: list[_core.Session]
) -> None:
    still_on = 0

    def made() -> fastprof.profile:
        return fastprof.profile(**options)

    def check(p: fastprof.profile) -> None:
        nonlocal still_on
        if not p._running or p._stopping:
            still_on += not nothing_is_on(sessions)
        p.stop()
        assert nothing_is_on(sessions)
        p.start()
        with fastprof.record_function("again"):
            pass
        p.stop()
        assert names(p) == ["again"]
        sessions.clear()

    assert every_place(made, lambda p: p.start(), check) > 30
    assert still_on == 0


STEPS = [ProfilerAction.RECORD_AND_SAVE, ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE]


@pytest.mark.parametrize("following", [0, 1, 2])
def test_step(following: int, sessions: list[_core.Session]) -> None:
    """From RECORD_AND_SAVE to each action; then the program stops, or goes on."""
    actions = [ProfilerAction.RECORD_AND_SAVE, *STEPS[following:], ProfilerAction.NONE]
    handled: list[Result] = []
    goes_on = False

    def running() -> fastprof.profile:
        handled.clear()
        p = fastprof.profile(
            schedule=lambda step: actions[min(step, len(actions) - 1)],
            on_trace_ready=lambda p: handled.append(p._results[-1]),
        )
        p.start()
        with fastprof.record_function("first"):
            pass
        return p

    def check(p: fastprof.profile) -> None:
        nonlocal goes_on
        goes_on = not goes_on
        if goes_on:
            for _ in range(5):
                p.step()
            assert p.current_action is ProfilerAction.NONE
        p.stop()
        # The handler got the events from before the interrupt, once.
        lists = [[event.name for event in result.events] for result in handled]
        assert ["first" in each for each in lists].count(True) == 1, lists
        assert all(names(p))
        assert nothing_is_on(sessions)
        sessions.clear()

    assert every_place(running, lambda p: p.step(), check) > 90


def test_an_exception_of_the_handler_in_a_step_loses_no_later_cycle() -> None:
    handled: list[list[str]] = []

    def handler(p: fastprof.profile) -> None:
        handled.append(names(p))
        if len(handled) == 1:
            p.export_chrome_trace("/nowhere/at/all.json")

    p = fastprof.profile(
        schedule=lambda step: ProfilerAction.RECORD_AND_SAVE, on_trace_ready=handler
    )
    with p:
        with fastprof.record_function("first"):
            pass
        with pytest.raises(fastprof.errors.IoError):
            p.step()
        with fastprof.record_function("second"):
            pass
        p.step()
    assert [[n for n in each if n[0] != "P"] for each in handled] == [["first"], ["second"], []]


def test_an_interrupt_inside_the_handler_is_not_followed_by_a_second_call() -> None:
    calls: list[int] = []

    def handler(p: fastprof.profile) -> None:
        calls.append(len(p.events()))
        raise KeyboardInterrupt

    p = fastprof.profile(on_trace_ready=handler)
    with pytest.raises(KeyboardInterrupt), p, fastprof.record_function("work"):
        pass
    p.stop()
    assert calls == [1] and names(p) == ["work"] and not open_profiles._open


def test_a_step_of_stop_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    p = started()
    with monkeypatch.context() as patch:

        def fail() -> None:
            raise MemoryError

        patch.setattr(threading, "enumerate", fail)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # once a process
            p.stop()
    assert names(p) == ["work"] and "MemoryError" in p.missing["names"]


def test_real_interrupts(tmp_path: Path) -> None:
    """SIGINT from a thread, at times spread over the end of a profile of many events."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import os, signal, sys, threading, time
        import fastprof
        kept = interrupted = 0
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for turn in range(60):
            p = fastprof.profile(with_stack=True)
            go = threading.Event()
            def shoot():
                go.wait()
                time.sleep(turn * 1e-4)
                os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=shoot)
            thread.start()
            try:
                try:
                    with p:
                        for _ in range(5000):
                            with fastprof.record_function("work"):
                                pass
                        go.set()
                    time.sleep(60)  # until the interrupt
                except KeyboardInterrupt:
                    interrupted += 1
                p.stop()
                rows = p.key_averages()
                kept += [(row.key, row.count) for row in rows] == [("work", 5000)]
            except KeyboardInterrupt:
                raise SystemExit("a second interrupt")
            thread.join()
        print(kept, interrupted, fastprof.profiler.open_profiles._open)
        """)
    )
    done = python(program)
    assert done.stdout.strip() == "60 60 {}", done.stdout + done.stderr


def test_an_interrupt_that_ends_the_program_loses_no_trace(tmp_path: Path) -> None:
    code = """
        import os, signal, fastprof
        signal.signal(signal.SIGINT, signal.default_int_handler)
        p = fastprof.profile(on_trace_ready=lambda p: p.export_chrome_trace("trace.json"))
        end = p._end
        def interrupted_end():
            p._end = end
            os.kill(os.getpid(), signal.SIGINT)
            end()
        p._end = interrupted_end
        with p, fastprof.record_function("work"):
            pass
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(code))
    done = python("program.py", cwd=tmp_path)
    # If modules are imported at exit, CPython forgets the interrupt and exits with status 1.
    assert done.returncode in (-signal.SIGINT, 1) and "KeyboardInterrupt" in done.stderr
    assert [site.name for site in fastprof.load(tmp_path / "trace.json").sites] == ["work"]
