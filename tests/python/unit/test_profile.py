# SPDX-License-Identifier: Apache-2.0
"""profile(): start and stop, arguments, schedules, memory and stacks."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

import fastprof
from fastprof import ProfilerAction, errors, record_function, schedule


def names(profile: fastprof.profile) -> list[str]:
    return [event.trace_name for event in profile.events()]


# ---- life ------------------------------------------------------------------------------------------


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


LISTS: list[Any] = [
    lambda p: p.events(),
    lambda p: p.function_events,
    lambda p: p.key_averages(),
]
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

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {number: [f"work {number}"] * 20 for number in range(4)}


def test_all_threads_or_only_the_own_and_what_is_propagated() -> None:
    def work(name: str) -> None:
        with record_function(name):
            pass

    with fastprof.profile() as everything, fastprof.profile(all_threads=False) as own:
        work("here")
        for target, name in ((work, "elsewhere"), (fastprof.propagate(work), "handed over")):
            thread = threading.Thread(target=target, args=(name,))
            thread.start()
            thread.join()
    assert names(everything) == ["here", "elsewhere", "handed over"]
    assert names(own) == ["here", "handed over"]


def test_propagated_functions_keep_results_errors_and_names() -> None:
    @fastprof.propagate
    def divide(a: int, b: int = 1) -> float:
        return a / b

    assert divide(6, b=3) == 2 and divide.__name__ == "divide"
    with pytest.raises(ZeroDivisionError):
        divide(1, b=0)


# ---- arguments -------------------------------------------------------------------------------------


def test_missing_activities_are_told_each_time_and_in_missing() -> None:
    for _ in range(2):
        with pytest.warns(
            UserWarning, match="CUDA is not available, disabling CUDA profiling"
        ) as told:
            p = fastprof.profile(activities=["CPU", "CUDA"])
        assert told[0].filename == __file__
        assert "no CUDA backend" in p.missing["CUDA"] and "CPU" not in p.missing


def test_nothing_left_to_profile() -> None:
    with pytest.raises(errors.UnavailableError, match="none of the activities XPU"):
        fastprof.profile(activities=["XPU"])
    with pytest.raises(errors.UnavailableError, match="no activities to record"):
        fastprof.profile(use_cpu=False)
    with pytest.raises(errors.UnavailableError, match="no activities to record"):
        fastprof.profile(activities=[])


def test_wrong_arguments() -> None:
    with pytest.raises(errors.ValueError, match="drop_newest, overwrite_oldest"):
        fastprof.profile(overflow="explode")
    with pytest.raises(errors.ValueError, match="at least 65536"):
        fastprof.profile(max_bytes=100)
    with pytest.raises(errors.ValueError, match="innermost, interval"):
        fastprof.profile(memory_attribution="guess")
    with pytest.raises(errors.ValueError, match="unknown ProfilerActivity"):
        fastprof.profile(activities=["abacus"])
    with pytest.raises(TypeError):
        fastprof.profile(no_such_argument=1)  # type: ignore[call-arg]


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
    with fastprof.profile(activities=[{"CPU": ["cpu_instant_event"]}]) as p:
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
        for i in range(20_000):
            with record_function("old" if i < 10_000 else "new"):
                pass
    assert set(names(p)) == {"new"}
    assert p.event_table.dropped["overwritten"] > 0


# ---- schedules -------------------------------------------------------------------------------------


def run_steps(p: fastprof.profile, count: int) -> None:
    for step in range(count):
        with record_function(f"step {step}"):
            pass
        p.step()


def test_schedule_records_its_active_steps() -> None:
    ready: list[list[str]] = []
    with fastprof.profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda p: ready.append(names(p)),
    ) as p:
        run_steps(p, 10)
    assert ready == [
        ["ProfilerStep#2", "step 2", "ProfilerStep#3", "step 3"],
        ["ProfilerStep#6", "step 6", "ProfilerStep#7", "step 7"],
    ]
    assert p.step_num == 10
    assert p.key_averages()[0].key == "ProfilerStep*"


def test_accumulated_events() -> None:
    for accumulate, cycles in ((False, (1,)), (True, (0, 1))):
        with fastprof.profile(
            schedule=schedule(wait=0, warmup=1, active=1), acc_events=accumulate
        ) as p:
            run_steps(p, 4)
        found = names(p)
        expected = [n for c in cycles for n in (f"ProfilerStep#{2 * c + 1}", f"step {2 * c + 1}")]
        assert found == expected, accumulate
        assert p.key_averages()[0].count == len(cycles)


def test_step_without_schedule_makes_no_ranges() -> None:
    with fastprof.profile() as p:
        run_steps(p, 2)
    assert names(p) == ["step 0", "step 1"]
    assert p.step_num == 2


def test_incorrect_schedules_warn() -> None:
    actions = [ProfilerAction.WARMUP, ProfilerAction.NONE]
    p = fastprof.profile(schedule=lambda step: actions[min(step, 1)])
    with p, pytest.warns(UserWarning, match="WARMUP followed by NONE"):
        p.step()
    recording = [ProfilerAction.RECORD, ProfilerAction.WARMUP]
    p = fastprof.profile(schedule=lambda step: recording[min(step, 1)])
    with p, pytest.warns(UserWarning, match="RECORD followed by WARMUP"):
        p.step()


def test_a_refused_action_changes_nothing() -> None:
    actions: list[Any] = [ProfilerAction.RECORD, "nonsense", ProfilerAction.RECORD]
    p = fastprof.profile(schedule=lambda step: actions[step])
    with p:
        with pytest.raises(errors.ValueError, match="must return a ProfilerAction"):
            p.step()
        assert p.step_num == 0 and p.current_action is ProfilerAction.RECORD
    with pytest.raises(errors.ValueError):
        fastprof.profile(schedule=lambda step: ProfilerAction.DEVICE_STOPPED)


def test_stop_during_warmup_is_empty_and_record_calls_the_handler() -> None:
    called: list[int] = []
    p = fastprof.profile(
        schedule=schedule(wait=0, warmup=2, active=1), on_trace_ready=lambda p: called.append(1)
    )
    with p, record_function("x"):
        pass
    assert len(p.events()) == 0 and called == []
    with fastprof.profile(on_trace_ready=lambda p: called.append(len(p.events()))):
        with record_function("x"):
            pass
    assert called == [1]


def test_handler_failure_reaches_the_caller_but_not_over_the_blocks_error() -> None:
    def fail(p: fastprof.profile) -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"), fastprof.profile(on_trace_ready=fail):
        pass
    with pytest.warns(UserWarning, match="could not be finished") as told:
        with pytest.raises(KeyError), fastprof.profile(on_trace_ready=fail):
            raise KeyError("mine")
    assert told[0].filename == __file__


def test_step_numbers_go_on_over_stop_and_start() -> None:
    p = fastprof.profile(schedule=lambda step: ProfilerAction.RECORD)
    for _ in range(2):
        p.start()
        p.step()
        p.stop()
    assert p.step_num == 2


def test_execution_trace_observer_is_started_and_stopped() -> None:
    calls: list[str] = []

    class Observer:
        def start(self) -> None:
            calls.append("start")

        def stop(self) -> None:
            calls.append("stop")

    with fastprof.profile(execution_trace_observer=Observer()):
        assert calls == ["start"]
    assert calls == ["start", "stop"]


def test_toggling_collection() -> None:
    with fastprof.profile() as p:
        for name, change in (("a", None), ("b", False), ("c", True)):
            if change is not None:
                p.toggle_collection_dynamic(change, [fastprof.ProfilerActivity.CPU])
            with record_function(name):
                pass
    assert names(p) == ["a", "c"]
    with pytest.raises(errors.StateError, match="while the profile records"):
        p.toggle_collection_dynamic(False, ["CPU"])


# ---- memory and stacks -----------------------------------------------------------------------------


def test_memory_is_attributed_and_reconciles() -> None:
    def elsewhere() -> None:
        with record_function("elsewhere"):
            fastprof.report_memory_usage(9, 1000)

    with fastprof.profile(profile_memory=True) as p:
        with record_function("outer"):
            fastprof.report_memory_usage(1, 100)
            with record_function("inner"):
                fastprof.report_memory_usage(2, 30)
                fastprof.report_memory_usage(2, -10)
                fastprof.report_memory_usage(3, 512, device_type="cuda", device_index=1)
                thread = threading.Thread(target=elsewhere)
                thread.start()
                thread.join()
        fastprof.report_memory_usage(4, 7)
        fastprof.report_out_of_memory(1 << 40)
    events = {event.name: event for event in p.events()}
    assert events["outer"].cpu_memory_usage == 120
    assert events["outer"].self_cpu_memory_usage == 100
    assert events["inner"].cpu_memory_usage == 20
    assert events["inner"].device_memory_usage == 512
    assert events["elsewhere"].cpu_memory_usage == 1000
    assert events["[memory]"].cpu_memory_usage == 7
    assert "[OutOfMemory]" in events
    assert sum(e.self_cpu_memory_usage for e in p.events()) == 100 + 30 - 10 + 1000 + 7
    assert "CPU Mem" in p.table()


def test_memory_by_interval_is_pytorchs_rule() -> None:
    started, done = threading.Event(), threading.Event()

    def elsewhere() -> None:
        with record_function("elsewhere"):
            started.set()
            done.wait()

    with fastprof.profile(profile_memory=True, memory_attribution="interval") as p:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        started.wait()
        with record_function("here"):
            fastprof.report_memory_usage(1, 100)
        done.set()
        thread.join()
    usage = {event.name: event.cpu_memory_usage for event in p.events()}
    assert usage == {"elsewhere": 100, "here": 100}


def test_memory_is_left_out_unless_asked_for() -> None:
    with fastprof.profile() as p, record_function("x"):
        fastprof.report_memory_usage(1, 100)
    assert len(p.event_table) == 1 and "CPU Mem" not in p.table()


def leaf() -> None:
    with record_function("leaf"):
        pass


def test_stacks_are_those_of_the_begin(tmp_path: Path) -> None:
    import traceback

    with fastprof.profile(with_stack=True, python_calls=False) as p:
        for _ in range(3):
            leaf()
        with record_function("here"):
            frames = traceback.extract_stack()
    leaves, here = p.events()[:3], p.events()[3]
    assert here.stack[0].startswith(f"{__file__}(") and here.stack[0].endswith(
        "test_stacks_are_those_of_the_begin"
    )
    expected = [f"{f.filename}({f.lineno}): {f.name}" for f in reversed(frames)]
    assert here.stack[1:] == expected[1 : len(here.stack)]  # the innermost is on another line
    assert int(here.stack[0].split("(")[1].split(")")[0]) == frames[-1].lineno - 1  # type: ignore[operator]
    for event in leaves:
        assert event.stack[0].endswith("): leaf")
        assert event.stack[1:] == leaves[0].stack[1:]
    table = p.key_averages(group_by_stack_n=2).table()
    assert "Source Location" in table and "leaf" in table
    p.export_stacks(tmp_path / "stacks.txt")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert all(line.rsplit(" ", 1)[1].isdigit() for line in lines)


def test_stacks_of_decorated_functions_begin_at_their_caller() -> None:
    def plain() -> None: ...

    def steps() -> Iterator[int]:
        yield 1

    async def work() -> None: ...

    async def items() -> AsyncIterator[int]:
        yield 1

    async def take(decorated: Any) -> None:
        async for _ in decorated():
            pass

    with fastprof.profile(with_stack=True, python_calls=False) as p:
        record_function("x")(plain)()
        list(record_function("x")(steps)())
        asyncio.run(record_function("x")(work)())
        asyncio.run(take(record_function("x")(items)))
    stacks = [event.stack for event in p.events()]
    assert len(stacks) > 4
    assert [frame for stack in stacks for frame in stack if "wrapper" in frame] == []
    assert stacks[0][0].endswith("test_stacks_of_decorated_functions_begin_at_their_caller")


def test_stacks_keep_frames_of_a_file_that_is_only_named_like_ours() -> None:
    for name in ("fastprof/ranges.py", "fastprof/record/ranges.py"):
        space: dict[str, Any] = {"record_function": record_function}
        code = "def mine():\n  with record_function('x'): pass\n"
        exec(compile(code, f"/their/{name}", "exec"), space)
        with fastprof.profile(with_stack=True, python_calls=False) as p:
            space["mine"]()
        assert p.events()[0].stack[0] == f"/their/{name}(2): mine"


def test_stacks_only_when_asked_for() -> None:
    with (
        fastprof.profile(with_stack=True, python_calls=False) as with_stacks,
        fastprof.profile() as without,
    ):
        leaf()
    assert with_stacks.events()[0].stack and not without.events()[0].stack
    with pytest.raises(errors.StateError, match="with_stack=True"):
        without.export_stacks("never.txt")


def test_traces_of_a_profile_have_no_stacks_that_another_asked_for(tmp_path: Path) -> None:
    with (
        fastprof.profile(with_stack=True, python_calls=False) as with_stacks,
        fastprof.profile() as without,
    ):
        leaf()
    for p, told in ((with_stacks, True), (without, False)):
        path = tmp_path / f"{told}.json"
        p.export_chrome_trace(path)
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]
        assert any("Call stack" in event.get("args", {}) for event in events) == told


def test_deep_recursion_and_code_that_is_gone() -> None:
    with fastprof.profile(with_stack=True, python_calls=False) as p:
        for i in range(50):
            space: dict[str, Any] = {"record_function": record_function}
            code = f"def made_{i}(n):\n  if n: return made_{i}(n - 1)\n  with record_function('x'): pass\n"
            exec(compile(code, f"<made {i}>", "exec"), space)
            space[f"made_{i}"](200)
            del space
    stacks = [event.stack for event in p.events()]
    assert [stack[0] for stack in stacks] == [f"<made {i}>(3): made_{i}" for i in range(50)]
    assert {len(stack) for stack in stacks} == {128}


def test_arrays_outlive_the_profile() -> None:
    with fastprof.profile() as p, record_function("x"):
        pass
    start = p.event_table.start_ns
    assert not start.flags.owndata and not start.flags.writeable
    value = int(start[0])
    del p
    for _ in range(3):
        with fastprof.profile():
            pass
    assert int(start[0]) == value


def test_in_a_forked_child_the_parents_profile_is_over_and_empty() -> None:
    code = """
        import os, fastprof
        p = fastprof.profile()
        p.start()
        with fastprof.record_function("parent"):
            child = os.fork()
            if child == 0:
                p.stop()
                os._exit(10 + len(p.events()))
            status = os.waitpid(child, 0)[1]
        p.stop()
        print(os.waitstatus_to_exitcode(status), [event.name for event in p.events()])
    """
    assert run_python(code) == "10 ['parent']\n"
