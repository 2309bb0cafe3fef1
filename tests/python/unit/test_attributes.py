# SPDX-License-Identifier: Apache-2.0
"""Attributes, experimental options and steps of a profile, as programs for PyTorch use them."""

from __future__ import annotations

import gc
import textwrap
import warnings
from typing import Any

import pytest
from processes import python

import fastprof
from fastprof import ProfilerAction, ProfilerActivity, errors
from fastprof.profiler import options as profile_options

CONFIG = fastprof._ExperimentalConfig


@pytest.fixture(autouse=True)
def warn_anew() -> None:
    profile_options._warned.clear()


def names(p: fastprof.profile) -> list[str]:
    return [e.name for e in p.events() if not e.is_python_function]


def test_what_was_given_can_be_read() -> None:
    def trace_id() -> str:
        return "mine"

    p = fastprof.profile(custom_trace_id_callback=trace_id, with_flops=True)
    assert p.activities == {ProfilerActivity.CPU} and p.activity_filters == {}
    assert (p.record_shapes, p.with_flops, p.with_stack, p.with_modules) == (
        False,
        True,
        False,
        False,
    )
    assert (p.profile_memory, p.acc_events, p.use_device) == (False, False, None)
    assert p.experimental_config is None and p.execution_trace_observer is None
    assert p.custom_trace_id_callback is trace_id and p.preset_metadata == {}
    assert p.trace_id == "" and p.get_trace_id() is None and p.profiler is None
    with p:
        assert p.profiler is p and p.trace_id == p.get_trace_id() == "mine"
    with pytest.warns(UserWarning, match="CUDA is not available"):
        p = fastprof.profile(activities=[{"CPU": ["CPU_OP"]}, ProfilerActivity.CUDA])
    assert p.activities == {ProfilerActivity.CPU, ProfilerActivity.CUDA} and p.use_device == "cuda"
    assert p.activity_filters == {ProfilerActivity.CPU: {"CPU_OP"}}


def test_what_is_set_counts_from_the_next_recording() -> None:
    p = fastprof.profile()
    p.profile_memory = True
    with p:
        p.profile_memory = False  # counts from the next recording on
        fastprof.report_memory_usage(1, 100)
    assert len(p.event_table.column("kind")) == 1
    with p:
        fastprof.report_memory_usage(1, 100)
    assert len(p.event_table.column("kind")) == 0
    p.with_stack = p.acc_events = True
    p.activity_filters = {ProfilerActivity.CPU: {"CPU_OP"}}
    with p, fastprof.record_function("left out"):
        pass
    assert names(p) == []
    p.activity_filters = {}
    with p, fastprof.record_function("kept"):
        pass
    assert names(p) == ["kept"]
    assert [bool(e.stack) for e in p.events() if e.name == "kept"] == [True]
    assert any(e.is_python_function for e in p.events())
    p.activities = {ProfilerActivity.CUDA}
    with pytest.raises(errors.UnavailableError):
        p.start()
    p.activities = {ProfilerActivity.CPU}
    p.preset_metadata["given"] = "7"
    p.preset_metadata_json("more", "[1]")
    with p:
        pass
    assert p._metadata == {"given": 7, "more": [1]}
    with pytest.raises(errors.ValueError):
        p.preset_metadata_json("wrong", "{")


@pytest.mark.parametrize("given", [[ProfilerActivity.CPU], (), {ProfilerActivity.CPU}, {"CPU": []}])
def test_activities_are_not_taken_as_enabled(given: Any) -> None:
    with pytest.raises(TypeError, match=r"profile\(activities="):
        fastprof.profile(given)


def test_steps_without_start_record() -> None:
    handled: list[list[str]] = []
    actions = [ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD_AND_SAVE]
    p = fastprof.profile(
        schedule=lambda step: actions[step % 3], on_trace_ready=lambda p: handled.append(names(p))
    )
    p.step()
    p.step()
    with fastprof.record_function("recorded"):
        pass
    with pytest.raises(errors.StateError, match="already running"):
        p.start()
    p.step()
    assert handled == [["ProfilerStep*", "recorded"]]
    p.step()
    p.step()
    p.stop()  # ends what step() began
    assert len(handled) == 2 and p.step_num == 5
    p.stop()
    for _ in range(9):
        p.step()  # after stop() it only counts
    assert len(handled) == 2 and p.step_num == 14 and p._recording is None
    never_begun = fastprof.profile()
    never_begun.step()
    never_begun.stop()
    with pytest.raises(AssertionError):
        never_begun.events()


def test_steps_without_start_are_finished_at_exit() -> None:
    code = """
        import fastprof
        p = fastprof.profile(schedule=lambda step: fastprof.ProfilerAction(min(step, 2)),
                             on_trace_ready=lambda p: print([e.name for e in p.events()]))
        for _ in range(3):
            p.step()
    """
    done = python("-c", textwrap.dedent(code))
    assert done.stdout == "['ProfilerStep*', 'ProfilerStep*']\n", done.stderr


def test_garbage_collections() -> None:
    config = CONFIG(record_python_gc_info=True)
    with fastprof.profile(experimental_config=config) as p:
        with fastprof.profile(experimental_config=config):
            gc.collect()
        gc.collect(0)
    assert names(p) == ["Python GC", "Python GC"] and not p.missing
    with fastprof.profile() as p:
        gc.collect()
    assert names(p) == []


def test_a_finalizer_runs_inside_its_collection() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.myself = self

        def __del__(self) -> None:
            with fastprof.record_function("finalizer"):
                pass

    with fastprof.profile(experimental_config=CONFIG(record_python_gc_info=True)) as p:
        Cycle()
        gc.collect()
    (finalizer,) = (e for e in p.events() if e.name == "finalizer")
    around = finalizer.cpu_parent
    assert around is not None and around.name == "Python GC"
    assert around.kwinputs == {"generation": 2}
    assert around.time_range.end < p.event_table.t1_ns / 1000  # ended with the collection


def test_traces_only() -> None:
    with fastprof.profile(experimental_config=CONFIG(trace_only=True)) as p:
        with fastprof.record_function("x"):
            pass
    for ask in (p.events, p.key_averages, p.table):
        with pytest.raises(RuntimeError, match="trace_only"):
            ask()
    assert len(p.event_table.column("kind")) == 1
    with pytest.warns(UserWarning, match="trace_only has no effect together with with_stack"):
        p = fastprof.profile(experimental_config=CONFIG(trace_only=True), with_stack=True)
    with p, fastprof.record_function("x"):
        pass
    assert names(p) == ["x"]


def test_all_threads_of_the_config() -> None:
    for config, all_threads, expected in (
        (CONFIG(profile_all_threads=False), None, False),
        (CONFIG(profile_all_threads=True), None, True),
        (CONFIG(), None, True),
        (CONFIG(profile_all_threads=False), True, True),
        (CONFIG(profile_all_threads=True), False, False),
    ):
        p = fastprof.profile(experimental_config=config, all_threads=all_threads)
        assert p._options.all_threads is expected


@pytest.mark.parametrize(
    "field",
    [
        "profiler_measure_per_kernel",
        "enable_cuda_sync_events",
        "adjust_profiler_step",
        "disable_external_correlation",
        "adjust_timestamps",
        "custom_profiler_config",
        "profiler_metrics",
    ],
)
def test_no_option_is_ignored_silently(field: str) -> None:
    value = {"custom_profiler_config": "x", "profiler_metrics": ["x"]}.get(field, True)
    with pytest.warns(UserWarning, match=field) as told:
        p = fastprof.profile(experimental_config=CONFIG(**{field: value}))  # type: ignore[arg-type]
    assert field in p.missing and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert field in fastprof.profile(experimental_config=p.experimental_config).missing


def test_post_processing_timeout() -> None:
    with pytest.warns(UserWarning, match="post_processing_timeout_s has no effect"):
        p = fastprof.profile(post_processing_timeout_s=0.0)
    assert "post_processing_timeout_s" in p.missing
    with pytest.raises(ValueError, match="at least 0"):
        fastprof.profile(post_processing_timeout_s=-1)


def test_subinterpreters_are_refused() -> None:
    code = """
        import sys
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
            make = [interpreters.create, lambda: interpreters.create("legacy")]
        else:
            import _xxsubinterpreters as interpreters
            make = [interpreters.create, lambda: interpreters.create(isolated=False)]
        code = f"import sys; sys.path[:] = {sys.path!r}\\n" + '''
        try:
            from fastprof import _core
        except ImportError as error:
            print(error)
        '''.replace("\\n        ", "\\n")
        for each in make:
            interpreters.run_string(each(), code)
        from fastprof import _core
        interpreters.run_string(make[1](), code)
        print(_core.thread_id() > 0)
    """
    done = python("-c", textwrap.dedent(code))
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and lines[3] == "True", done.stdout + done.stderr
    assert all("subinterpreter" in line for line in lines[:3]), lines
