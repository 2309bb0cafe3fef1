# SPDX-License-Identifier: Apache-2.0
"""Tasks together with the other things that a profile does."""

from __future__ import annotations

import asyncio
import cProfile
import os
import pstats
import signal
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from processes import python
from task_trees import check_tasks, ranges_by_track, rows_of

import fastprof
from fastprof import record_function

# CPython 3.15 warns of them, and counts the thread that readies memory (fastprof-fault).
FORKS_BESIDE_THREADS = pytest.mark.filterwarnings(
    *(["ignore:This process .* is multi-threaded"] if sys.version_info >= (3, 15) else [])
)


async def work(name: str, steps: int = 3) -> None:
    for step in range(steps):
        with record_function(f"{name}{step}"):
            await asyncio.sleep(0)


async def both(steps: int = 3) -> None:
    await asyncio.gather(
        asyncio.create_task(work("a", steps), name="A"),
        asyncio.create_task(work("b", steps), name="B"),
    )


def check_turns(table: Any, steps: int = 3) -> None:
    found = ranges_by_track(table)
    for name in "ab":
        assert found[name.upper()] == [f"{name}{step}" for step in range(steps)]


def test_calls_nest_by_task_and_count_as_cprofile_does() -> None:
    async def inner() -> None:
        await asyncio.sleep(0)

    async def outer(name: str) -> None:
        with record_function(name):
            await inner()
            helper()

    def helper() -> int:
        return len("x")

    async def main() -> None:
        await asyncio.gather(
            asyncio.create_task(outer("a"), name="A"), asyncio.create_task(outer("b"), name="B")
        )

    with fastprof.profile(python_calls=True, all_threads=False) as profile:
        asyncio.run(main())
    check_tasks(profile)
    table = profile.event_table
    tracks = {track.id: track.name for track in table.tracks}
    for event in profile.events():
        name = event.name
        if "helper" in name or ": inner" in name or ": outer" in name:
            assert tracks[event.thread] in ("A", "B")
        if "helper" in name:  # the call of outer() was resumed, and the range is open across that
            parents = [event.cpu_parent.name]
            assert any(": outer" in p or p in "ab" for p in parents)
        if "run_until_complete" in name or "_run_once" in name:
            assert tracks[event.thread] == threading.current_thread().name
    reference = cProfile.Profile()
    reference.runcall(asyncio.run, main())
    own = {f.function: (f.calls, f.primitive_calls) for f in profile.python_calls().functions}
    expected = pstats.Stats(reference).stats  # type: ignore[attr-defined]
    for (_, _, function), (primitive, calls, *_rest) in expected.items():
        if function in ("helper", "inner", "outer", "main", "_run"):
            assert own[function] == (calls, primitive), function
    # A step of a task is called by the loop: no time is counted twice.
    (run,) = [f for f in profile.python_calls().functions if f.function == "_run_once"]
    assert 0 <= run.own_ns <= run.cumulative_ns


def test_a_schedule_steps_inside_a_task() -> None:
    async def main() -> None:
        background = asyncio.create_task(work("b", 40), name="B")
        for step in range(4):
            with record_function(f"step {step}"):
                await asyncio.sleep(0)
            profile.step()
            await asyncio.sleep(0)
        await background

    tables: list[Any] = []
    with fastprof.profile(
        schedule=fastprof.schedule(wait=1, warmup=1, active=1, repeat=2),
        on_trace_ready=lambda p: tables.append(p.event_table),
    ) as profile:
        asyncio.run(main())
    for table in tables:
        found = ranges_by_track(table)
        assert len([paths for name, paths in found.items() if "main" in name]) == 1
        assert all(path.startswith("b") for path in found.get("B", []))
    assert len(tables) >= 1


def test_stop_within_a_task_that_another_started() -> None:
    async def stopper() -> None:
        with record_function("before"):
            await asyncio.sleep(0)
        profile.stop()
        with record_function("after"):
            await asyncio.sleep(0)

    async def main() -> None:
        profile.start()
        await asyncio.create_task(stopper(), name="S")

    profile = fastprof.profile()
    asyncio.run(main())
    check_tasks(profile)
    assert ranges_by_track(profile.event_table)["S"] == ["before"]


@pytest.mark.parametrize("overflow", ["spill", "overwrite_oldest", "drop_newest"])
def test_bounded_memory(overflow: str) -> None:
    steps = 8000
    with fastprof.profile(overflow=overflow, max_bytes=4 * 65536) as profile:
        asyncio.run(both(steps))
    check_turns_partly(profile.event_table)
    # A busy machine may not write in time.
    if overflow == "spill" and not profile.event_table.dropped:
        check_turns(profile.event_table, steps)
    listed = sum(len(paths) for paths in ranges_by_track(profile.event_table).values())
    assert listed + sum(profile.event_table.dropped.values()) == 2 * steps


def check_turns_partly(table: Any) -> None:
    for track, paths in ranges_by_track(table).items():
        assert all(path.startswith(track.lower()) and "/" not in path for path in paths)


def test_a_backing_file_is_recovered_with_its_tasks(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with fastprof.profile(backing_file=path) as profile:
        asyncio.run(both())
        table = fastprof.recover(path)
    check_turns(table)
    check_turns(profile.event_table)
    assert rows_of(table, "task_await")


@FORKS_BESIDE_THREADS
def test_a_followed_child_has_tasks() -> None:
    with fastprof.profile(follow_children=True) as profile:
        asyncio.run(both())
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(both(2))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
    table = profile.event_table
    tasks = [track for track in table.tracks if track.thread_id >= 0]
    assert sorted(t.name for t in tasks if t.pid == pid and len(t.name) == 1) == ["A", "B"]
    assert sorted(t.name for t in tasks if t.pid != pid and len(t.name) == 1) == ["A", "B"]
    ids = {track.id: track for track in table.tracks}
    assert len(ids) == len(table.tracks)
    for track in tasks:
        assert ids[track.thread_id].pid == track.pid and ids[track.thread_id].thread_id < 0
    tracks = table.column("track")
    of_child = [
        table.name(row) for row in range(len(table)) if table.tracks[int(tracks[row])].pid == pid
    ]
    assert {"a0", "a1", "b0", "b1"} <= set(of_child)


@FORKS_BESIDE_THREADS
def test_a_fork_inside_a_task() -> None:
    async def main() -> None:
        with record_function("around"):
            await asyncio.sleep(0)
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    with fastprof.profile() as inner, record_function("child"):
                        pass
                    (paths,) = ranges_by_track(inner.event_table).values()
                    code = 0 if paths == ["child"] else 2
                finally:
                    os._exit(code)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            await asyncio.sleep(0)

    statuses: list[int] = []
    with fastprof.profile() as profile:
        asyncio.run(main())
    check_tasks(profile)
    assert statuses == [0]
    assert list(ranges_by_track(profile.event_table).values()) == [["around"]]


def test_a_keyboard_interrupt_during_the_loop(request: pytest.FixtureRequest) -> None:
    async def main() -> None:
        with record_function("interrupted"):
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(10_000):
                await asyncio.sleep(0)

    # Python leaves the signal alone where it was ignored, as in a job that a shell runs in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with fastprof.profile() as profile:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
        with record_function("after"):
            pass
        asyncio.run(both())
    check_tasks(profile)
    found = ranges_by_track(profile.event_table)
    assert found[threading.current_thread().name] == ["after"]
    assert ["interrupted"] in found.values()
    check_turns(profile.event_table)


def test_propagated_functions_in_tasks() -> None:
    async def main() -> None:
        function = fastprof.propagate(lambda: record_function("propagated").__enter__())
        await asyncio.to_thread(function)
        with record_function("main"):
            await asyncio.sleep(0)

    with fastprof.profile(all_threads=False) as profile:
        asyncio.run(main())
    assert sorted(e.name for e in profile.events()) == ["main", "propagated"]


def test_futures_and_async_ranges() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        with record_function("until the future") as range_:
            following = range_._call_end_callbacks_on_future(future)
            with record_function("inside"):
                pass
        asyncio.get_running_loop().call_soon(future.set_result, 1)
        assert await following == 1

    with fastprof.profile() as profile:
        asyncio.run(main())
    check_tasks(profile)
    (paths,) = [p for name, p in ranges_by_track(profile.event_table).items() if "main" in name]
    assert paths == ["until the future", "until the future/inside"]


def test_marks_counters_flows_and_memory_are_the_tasks() -> None:
    async def main() -> None:
        fastprof.mark("mark")
        fastprof.counter("counter", 1)
        with record_function("allocates"):
            await asyncio.sleep(0)
            fastprof.report_memory_usage(0x1000, 640, 640, 1024)

    with fastprof.profile(profile_memory=True) as profile:
        asyncio.run(main())
    table = profile.event_table
    tracks = table.column("track")
    for row in range(len(table)):
        if table.name(row) in ("mark", "counter", "allocates"):
            assert "main" in table.tracks[int(tracks[row])].name
    (event,) = [e for e in profile.events() if e.name == "allocates"]
    assert event.cpu_memory_usage == 640


@pytest.mark.integrations
def test_ops_of_torch_in_tasks() -> None:
    torch = pytest.importorskip("torch")

    async def train(name: str) -> None:
        x = torch.ones(2, 2, requires_grad=True)
        with record_function(name):
            y = (x * 2).sum()
            await asyncio.sleep(0)
            y.backward()

    async def main() -> None:
        await asyncio.gather(
            asyncio.create_task(train("a"), name="A"), asyncio.create_task(train("b"), name="B")
        )

    with fastprof.profile(with_stack=True, python_calls=False) as profile:
        asyncio.run(main())
    check_tasks(profile)
    found = ranges_by_track(profile.event_table)
    for name in "ab":
        assert f"{name}/aten::mul" in found[name.upper()]
        assert f"{name}/aten::sum" in found[name.upper()]
    from fastprof.views.forward_backward import forward_backward_flows

    flows = forward_backward_flows(profile.event_table)
    assert flows is not None and int(flows.start.sum()) == 4  # mul and sum of each task


def run_program(source: str, *options: str) -> str:
    done = python(*options, "-c", textwrap.dedent(source), check=True)
    return done.stdout


def test_asyncio_imported_during_the_profile_and_never_by_it() -> None:
    out = run_program(
        """
        import sys
        import fastprof
        with fastprof.profile() as plain, fastprof.record_function("plain"):
            pass
        assert "asyncio" not in sys.modules and "trio" not in sys.modules
        with fastprof.profile() as profile:
            import asyncio
            async def work(name):
                with fastprof.record_function(name):
                    await asyncio.sleep(0)
            async def main():
                await asyncio.gather(work("a"), work("b"))
            asyncio.run(main())
        print(len([t for t in profile.event_table.tracks if t.name.startswith("work")]))
        """
    )
    assert out.split() == ["2"]


def test_debug_modes() -> None:
    run_program(
        """
        import asyncio, gc
        import fastprof
        gc.set_threshold(1)
        async def work(n):
            for _ in range(n):
                with fastprof.record_function("r"):
                    await asyncio.sleep(0)
        async def main():
            await asyncio.gather(*(work(n) for n in range(20)))
        for _ in range(3):
            with fastprof.profile(python_calls=True) as profile:
                asyncio.run(main(), debug=True)
            assert sum(e.name == "r" for e in profile.events()) == 190
        """,
        "-X",
        "dev",
    )


@pytest.mark.integrations
def test_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def outer() -> None:
        with fastprof.profile() as inner:
            profiles.append(inner)
            await asyncio.sleep(0.005)
            await both()

    profiles: list[Any] = []
    with fastprof.profile() as profile:
        loop = uvloop.new_event_loop()
        loop.run_until_complete(both())
        loop.run_until_complete(outer())
        loop.close()
    profiles.append(profile)
    for one in profiles:
        check_tasks(one)
    check_turns(profiles[0].event_table)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with CPython 3.12")
def test_eager_tasks() -> None:
    async def at_once() -> None:
        with record_function("at once"):
            pass

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        with record_function("main"):
            first = asyncio.create_task(at_once(), name="E")
            assert first.done()
            await both()
            with pytest.raises(TypeError):
                asyncio.Task(None, loop=loop, eager_start=True)  # type: ignore[call-arg, arg-type]

    with fastprof.profile() as profile:
        asyncio.run(main())
    check_tasks(profile)
    found = ranges_by_track(profile.event_table)
    # asyncio names a task that a factory makes only when it has returned: this one has ended by then.
    (eager,) = [name for name in found if "at_once" in name or name == "E"]
    assert found[eager] == ["at once"]
    check_turns(profile.event_table)
    assert ["main"] in found.values()
    assert all(
        row[4]
        for row in rows_of(profile.event_table, "task_lifetime")
        if row[0] in ("A", "B", eager)
    )
