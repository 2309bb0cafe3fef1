# SPDX-License-Identifier: Apache-2.0
"""Ends of a profile in which something fails: the records are kept, and the other parts still happen."""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

import pytest
from processes import run_python

import fastprof


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
def test_no_memory_for_the_events() -> None:
    """stop() raises; once there is memory, it returns every event. The step after it is recorded, too."""
    output = run_python(
        """
        import resource, fastprof, fastprof.decode.consolidate
        p = fastprof.profile(with_stack=True, python_calls=False)
        p.start()
        for _ in range(200000):
            with fastprof.record_function("r"): pass
        with open("/proc/self/statm") as f: size = int(f.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20), resource.RLIM_INFINITY))
        try:
            p.stop()
        except MemoryError as error:
            assert "call stop() again" in str(error), error
        else:
            raise AssertionError("there was memory")
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        with fastprof.record_function("afterwards"): pass
        p.stop()
        table = p.event_table
        print(len(table), table.dropped, p.missing, {e.name for e in p.events()})
        with fastprof.profile() as q:
            with fastprof.record_function("next"): pass
        print([e.name for e in q.events()])
        """
    )
    assert output == "200000 {} {} {'r'}\n['next']\n"


class Nameless(threading.Thread):
    name = property(lambda self: 1 / 0, lambda self, value: None)  # type: ignore[assignment]


def test_a_thread_without_a_name() -> None:
    over = threading.Event()
    thread = Nameless(target=over.wait)
    thread.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # once a process
            with fastprof.profile() as p, fastprof.record_function("r"):
                pass
    finally:
        over.set()
        thread.join()
    assert [e.name for e in p.events()] == ["r"]
    assert "ZeroDivisionError" in p.missing["names"]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_handler_that_leaves(kind: type[BaseException]) -> None:
    """A program that catches what on_trace_ready raises has a trace of every cycle."""
    names: list[list[str]] = []

    def ready(profiler: Any) -> None:
        names.append([e.name for e in profiler.events() if e.name.startswith("step")])
        raise kind

    profiler = fastprof.profile(
        schedule=fastprof.schedule(wait=0, warmup=1, active=1), on_trace_ready=ready
    )
    profiler.start()
    for number in range(8):
        with fastprof.record_function(f"step {number}"):
            pass
        try:
            profiler.step()
        except kind:
            continue
    profiler.stop()
    assert names == [["step 1"], ["step 3"], ["step 5"], ["step 7"]]


def test_exit_with_a_handler_that_leaves() -> None:
    """SystemExit of one profile's handler at the interpreter's exit does not keep the other from ending."""
    output = run_python(
        """
        import fastprof
        def leave(profiler): raise SystemExit
        first = fastprof.profile(on_trace_ready=lambda p: print(len(p.events())))
        second = fastprof.profile(on_trace_ready=leave)
        first.start(); second.start()
        with fastprof.record_function("r"): pass
        """
    )
    assert output == "1\n"


def test_a_process_without_a_name() -> None:
    """A followed process whose object has no readable name is recorded all the same."""
    output = run_python(
        """
        import multiprocessing, fastprof
        context = multiprocessing.get_context("fork")
        class Nameless(context.Process):
            name = property(lambda self: 1 / 0, lambda self, value: None)
        def work():
            with fastprof.record_function("c"): pass
        with fastprof.profile(follow_children=True) as p:
            process = Nameless(target=work)
            process.start()
            process.join()
        print([e.name for e in p.events() if e.name == "c"], p.missing)
        """
    )
    assert output == "['c'] {}\n"
