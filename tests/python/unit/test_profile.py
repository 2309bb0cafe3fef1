# SPDX-License-Identifier: Apache-2.0
"""profile(): start and stop, several profiles at once, arguments."""

from __future__ import annotations

import _thread
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from waiting_threads import run_threads

import fastprof
from fastprof import errors, record_function


def names(profile: fastprof.profile) -> list[str]:
    return [event.trace_name for event in profile.events()]


def test_start_and_stop() -> None:
    p = fastprof.profile()
    p.start()
    with record_function("x"):
        pass
    p.stop()
    p.stop()  # nothing more happens
    assert names(p) == ["x"]
    # Scripts for torch.profiler reach the autograd profiler's methods this way.
    assert [event.name for event in p.profiler.function_events] == ["x"]
    assert p.profiler.self_cpu_time_total == p.self_cpu_time_total > 0
    assert p.profiler.total_average().count == 1


def test_not_reentrant() -> None:
    p = fastprof.profile()
    with p, pytest.raises(errors.StateError, match="not reentrant"):
        p.start()
    with p, record_function("second"):
        pass
    assert names(p) == ["second"]


LISTS: list[Any] = [lambda p: p.events(), lambda p: p.function_events, lambda p: p.key_averages()]
FINISHED: list[Any] = [
    lambda p: p.event_table,
    lambda p: p.export_chrome_trace("never.json"),
    lambda p: p.export_perfetto_trace("never.pftrace"),
    lambda p: p.export_stacks("never.txt"),
]


@pytest.mark.parametrize("ask", LISTS + FINISHED)
def test_nothing_can_be_asked_before_the_start(ask: Any) -> None:
    for kind in (RuntimeError, AssertionError):  # the latter is PyTorch's
        with pytest.raises(kind, match="didn't finish running"):
            ask(fastprof.profile(with_stack=True, python_calls=False))


@pytest.mark.parametrize("ask", FINISHED)
def test_traces_are_there_when_it_has_stopped(ask: Any) -> None:
    with fastprof.profile(with_stack=True, python_calls=False) as p:
        with pytest.raises(RuntimeError, match="didn't finish running"):
            ask(p)


def test_lists_are_empty_while_it_records() -> None:
    with fastprof.profile() as p, record_function("x"):
        for ask in LISTS:
            with pytest.warns(UserWarning, match="before it is stopped") as told:
                assert len(ask(p)) == 0
            assert told[0].filename == __file__
        with pytest.warns(UserWarning, match="before it is stopped"):
            assert p.self_cpu_time_total == 0
    assert [e.name for e in p.events()] == ["x"]


def test_repr_and_str() -> None:
    p = fastprof.profile()
    assert repr(p) == str(p) == "<unfinished fastprof.profile>"
    with p, record_function("work"):
        assert "unfinished" in repr(p)
    assert "work" in repr(p) and "FunctionEvent" in repr(p)
    assert "Self CPU time total" in str(p)


def test_exceptions_of_the_block_pass_through() -> None:
    with pytest.raises(KeyError), fastprof.profile() as p, record_function("x"):
        raise KeyError("mine")
    assert names(p) == ["x"]


def test_disabled_answers_with_nothing(tmp_path: Path) -> None:
    with fastprof.profile(enabled=False) as p, record_function("x"):
        p.step()
    assert len(p.events()) == 0 and p.table() == "" and p.self_cpu_time_total == 0
    assert len(p.key_averages()) == 0
    p.export_chrome_trace(tmp_path / "t.json")
    json.loads((tmp_path / "t.json").read_text())


def test_nested_and_overlapping_profiles_each_see_everything() -> None:
    first, second, third = (fastprof.profile() for _ in range(3))
    first.start()
    with record_function("a"):
        second.start()
        with record_function("b"):
            third.start()
        first.stop()
        with record_function("c"):
            pass
        third.stop()
    second.stop()
    assert names(first) == ["a", "b"]
    assert names(second) == ["b", "c"]
    assert names(third) == ["c"]


def test_profiles_on_many_threads_at_once() -> None:
    seen: dict[int, list[str]] = {}

    def work(number: int) -> None:
        for _ in range(20):
            with fastprof.profile(all_threads=False) as p:
                with record_function(f"work {number}"):
                    pass
            seen.setdefault(number, []).extend(names(p))

    run_threads(*(threading.Thread(target=work, args=(i,)) for i in range(4)))
    assert seen == {number: [f"work {number}"] * 20 for number in range(4)}


def test_all_threads_or_only_the_own_and_what_is_propagated() -> None:
    ended = threading.Semaphore(0)

    def work(name: str) -> None:
        with record_function(name):
            pass
        ended.release()

    with fastprof.profile() as everything, fastprof.profile(all_threads=False) as own:
        work("here")
        ended.acquire()
        for target, name in ((work, "elsewhere"), (fastprof.propagate(work), "handed over")):
            _thread.start_new_thread(target, (name,))  # not followed by itself
            assert ended.acquire(timeout=60)
    assert names(everything) == ["here", "elsewhere", "handed over"]
    assert names(own) == ["here", "handed over"]


def test_propagated_functions_keep_results_errors_and_names() -> None:
    @fastprof.propagate
    def divide(a: int, b: int = 1) -> float:
        return a / b

    assert divide(6, b=3) == 2 and divide.__name__ == "divide"
    with pytest.raises(ZeroDivisionError):
        divide(1, b=0)


def test_missing_activities_are_told_each_time_and_in_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTPROF_CUPTI_LIBRARY", "")
    for _ in range(2):
        with pytest.warns(
            UserWarning, match="CUDA is not available, disabling CUDA profiling"
        ) as told:
            p = fastprof.profile(activities=["CPU", "CUDA"])
        assert told[0].filename == __file__
        assert "switched off" in p.missing["CUDA"] and "CPU" not in p.missing


def test_nothing_left_to_profile() -> None:
    with pytest.raises(errors.UnavailableError, match="none of the activities XPU"):
        fastprof.profile(activities=["XPU"])
    with pytest.raises(errors.UnavailableError, match="no activities to record"):
        fastprof.profile(use_cpu=False)
    with pytest.raises(errors.UnavailableError, match="no activities to record"):
        fastprof.profile(activities=[])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"activities": ["abacus"]}, "unknown ProfilerActivity"),
        ({"max_bytes": 65535}, "max_bytes must be at least 65536 .*65535"),
        ({"max_bytes": -1}, "max_bytes must be at least 65536 .*-1"),
        ({"max_name_bytes": 1}, "max_name_bytes must be at least 65536 .*1"),
        ({"max_bytes": "1"}, "max_bytes must be .* a whole number, not '1'"),
        ({"sample_hz": "x"}, "sample_hz must be above 0 .*'x'"),
        ({"schedule": 3}, r"schedule must be a function .*fastprof\.schedule.*3"),
        ({"on_trace_ready": 3}, "on_trace_ready must be a function of the profile.*3"),
        ({"memory_attribution": "guess"}, "innermost, interval"),
        ({"overflow": "explode"}, "'explode'.*drop_newest, overwrite_oldest"),
        ({"spill_folder": "x"}, "spill_folder has no effect without"),
        ({"python_calls": "yes"}, "python_calls must be True, False or a CallFilter"),
        ({"python_calls": 3}, "python_calls must be True, False or a CallFilter"),
        ({"counters": "cycles"}, "counters must be a list of names"),
        ({"counters": [1]}, "counters must be a list of names"),
        ({"activities": fastprof.ProfilerActivity.CPU}, "activities must be a list"),
        ({"activities": "CPU"}, "activities must be a list"),
        ({"activities": {"CPU": "cpu_op"}}, "types of CPU must be a list"),
        ({"activity_filters": 3}, "activity_filters must map activities"),
        ({"post_processing_timeout_s": "x"}, "post_processing_timeout_s must be a number"),
        ({"experimental_config": 3}, "experimental_config must be a .*_ExperimentalConfig"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.ValueError, match=message):
        fastprof.profile(**given)


@pytest.mark.filterwarnings("ignore:CUDA is not available")
@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"use_cuda": True}, {"CPU", "CUDA"}),
        ({"use_device": "cuda"}, {"CPU", "CUDA"}),
        ({"use_device": "CUDA:1"}, {"CPU", "CUDA"}),
        ({"use_device": "cpu"}, {"CPU"}),
        ({"activities": ["CPU", "CUDA"], "use_cuda": False}, {"CPU"}),
    ],
)
def test_devices_by_other_arguments_than_activities(given: dict[str, Any], asked: set[str]) -> None:
    assert {activity.name for activity in fastprof.profile(**given).activities} == asked


def test_an_observer_without_methods_is_reported() -> None:
    with pytest.warns(UserWarning, match="no methods start"):
        p = fastprof.profile(execution_trace_observer=object())
    assert "execution_trace_observer" in p.missing


@pytest.mark.integrations
def test_arguments_of_pytorchs_profilers_are_accepted() -> None:
    """All parameters of both profilers, found by introspection."""
    import inspect

    torch_profiler = pytest.importorskip("torch.profiler")
    autograd_profiler = pytest.importorskip("torch.autograd.profiler")
    ours = inspect.signature(fastprof.profile).parameters
    for theirs in (torch_profiler.profile, autograd_profiler.profile):
        assert set(inspect.signature(theirs).parameters) <= set(ours)
    with fastprof.profile(
        activities=[torch_profiler.ProfilerActivity.CPU],
        schedule=torch_profiler.schedule(wait=0, warmup=1, active=1),
    ) as p:
        p.step()
        with record_function("x"):
            pass
    assert names(p) == ["ProfilerStep#1", "x"]


@pytest.mark.integrations
def test_methods_of_pytorchs_profilers_exist() -> None:
    torch_profiler = pytest.importorskip("torch.profiler")
    autograd_profiler = pytest.importorskip("torch.autograd.profiler")
    for theirs in (torch_profiler.profile, autograd_profiler.profile):
        wanted = {n for n in vars(theirs) if not n.startswith("_")} - {"default_trace_id", "config"}
        assert wanted - set(dir(fastprof.profile)) == set()


def test_activity_filter_leaves_ranges_out() -> None:
    chosen = {"CPU": ["cpu_instant_event"]}
    for options in ({"activities": [chosen]}, {"activities": chosen}, {"activity_filters": chosen}):
        with fastprof.profile(**options) as p:
            with record_function("x"):
                fastprof.mark("m")
        table = p.event_table
        assert [table.name(row) for row in range(len(table))] == ["m"]


def test_bounded_memory_counts_what_it_drops() -> None:
    with fastprof.profile(max_bytes=65536) as p:
        for _ in range(10_000):
            with record_function("x"):
                pass
    assert 0 < len(p.events()) < 10_000
    assert len(p.events()) + sum(p.event_table.dropped.values()) == 10_000
    assert "Dropped events" in p.key_averages().table()


def test_overwriting_keeps_the_newest() -> None:
    with fastprof.profile(max_bytes=1 << 18, overflow="overwrite_oldest") as p:
        # 20,000 new ranges of 24 bytes exceed the bound, wherever in a chunk the thread begins.
        for i in range(40_000):
            with record_function("old" if i < 20_000 else "new"):
                pass
    assert set(names(p)) == {"new"}
    assert p.event_table.dropped["overwritten"] > 0


def test_threads_may_stop_a_profile_at_the_same_time() -> None:
    for _ in range(200):
        handled: list[Any] = []
        p = fastprof.profile(on_trace_ready=handled.append)
        p.start()
        with record_function("x"):
            pass
        together = threading.Barrier(2)

        def stopped(p: Any = p, together: Any = together) -> list[str]:
            together.wait()
            p.stop()
            return names(p)

        with ThreadPoolExecutor(2) as pool:
            found = [pool.submit(stopped) for _ in range(2)]
        assert [each.result() for each in found] == [["x"], ["x"]] and handled == [p]
