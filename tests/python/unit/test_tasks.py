# SPDX-License-Identifier: Apache-2.0
"""Ranges of interleaved asyncio tasks nest by task: trees drawn by hand."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from task_trees import check_tasks, ranges_by_track, rows_of, running_intervals
from waiting_threads import run_threads

import fastprof
from fastprof import record_function


def profiled(main: Coroutine[Any, Any, Any], **options: Any) -> Any:
    with fastprof.profile(**options) as profile:
        asyncio.run(main)
    return profile


def trees(main: Coroutine[Any, Any, Any], **options: Any) -> dict[str, list[str]]:
    profile = profiled(main, **options)
    check_tasks(profile)
    return ranges_by_track(profile.event_table)


async def work(name: str, steps: int = 2) -> str:
    with record_function(name):
        for step in range(steps):
            with record_function(f"{name}{step}"):
                await asyncio.sleep(0)
    return name


def test_two_tasks_take_turns() -> None:
    async def main() -> None:
        await asyncio.gather(
            asyncio.create_task(work("a"), name="A"), asyncio.create_task(work("b"), name="B")
        )

    assert trees(main()) == {"A": ["a", "a/a0", "a/a1"], "B": ["b", "b/b0", "b/b1"]}


def test_default_names_show_the_coroutine() -> None:
    async def main() -> None:
        await asyncio.gather(work("a"), work("b"))

    found = trees(main())
    assert [name.split(" (Task-")[0] for name in found] == ["work", "work"]
    assert len(found) == 2


def test_cancelled_and_failed_tasks_end() -> None:
    async def sleeper() -> None:
        with record_function("sleeping"):
            await asyncio.sleep(100)

    async def failing() -> None:
        with record_function("failing"):
            await asyncio.sleep(0)
            raise ValueError

    async def main() -> None:
        cancelled = asyncio.create_task(sleeper(), name="cancelled")
        failed = asyncio.create_task(failing(), name="failed")
        with contextlib.suppress(ValueError):
            await failed
        cancelled.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await cancelled
        with record_function("main"):
            await asyncio.sleep(0)

    profile = profiled(main())
    check_tasks(profile)
    found = ranges_by_track(profile.event_table)
    assert found.pop("cancelled") == ["sleeping"] and found.pop("failed") == ["failing"]
    assert list(found.values()) == [["main"]]
    assert all(finished for *_, finished in rows_of(profile.event_table, "task_lifetime"))


def test_a_task_that_outlives_the_profile() -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def background() -> None:
            with record_function("background"):
                started.set()
                await asyncio.sleep(100)

        profile = fastprof.profile()
        profile.start()
        task = asyncio.create_task(background(), name="B")
        await started.wait()
        await asyncio.sleep(0)
        profile.stop()
        profiles.append(profile)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    profiles: list[Any] = []
    asyncio.run(main())
    (profile,) = profiles
    check_tasks(profile)
    assert ranges_by_track(profile.event_table) == {"B": ["background"]}
    ((_, _, start, end, finished),) = [
        row for row in rows_of(profile.event_table, "task_lifetime") if row[0] == "B"
    ]
    assert not finished and end == profile.event_table.t1_ns and start < end
    *_, last = [row for row in rows_of(profile.event_table, "task_await") if row[0] == "B"]
    assert not last[4] and last[3] == end


def test_a_profile_begun_and_ended_inside_a_running_task() -> None:
    async def main() -> None:
        other = asyncio.create_task(work("other", 3), name="other")
        await asyncio.sleep(0)
        with fastprof.profile() as profile:
            profiles.append(profile)
            with record_function("here"):
                await asyncio.sleep(0.01)
                with record_function("inside"):
                    await asyncio.sleep(0)
            await other
            with record_function("end"):
                pass

    profiles: list[Any] = []
    asyncio.run(main(), debug=False)
    (profile,) = profiles
    check_tasks(profile)
    found = ranges_by_track(profile.event_table)
    assert found.pop("other") == ["other1", "other2"]
    assert list(found.values()) == [["here", "here/inside", "end"]]
    # The sleep is a suspension, although the step in which the profile began is not seen to end.
    (name,) = found
    awaits = [row for row in rows_of(profile.event_table, "task_await") if row[0] == name]
    assert max(end - start for _, _, start, end, _ in awaits) > 5_000_000


def test_loops_of_two_threads() -> None:
    def run(name: str) -> None:
        async def main() -> None:
            await asyncio.gather(
                *(asyncio.create_task(work(f"{name}{i}", 1), name=f"{name}{i}") for i in range(2))
            )

        asyncio.run(main())

    with fastprof.profile() as profile:
        run_threads(*(threading.Thread(target=run, args=(name,), name=name) for name in "xy"))
    check_tasks(profile)
    assert ranges_by_track(profile.event_table) == {
        name: [name, f"{name}/{name}0"] for name in ("x0", "x1", "y0", "y1")
    }
    tracks = {track.name: track for track in profile.event_table.tracks}
    assert tracks["x0"].thread_id == tracks["x1"].thread_id == tracks["x"].id
    assert tracks["y0"].thread_id == tracks["y"].id
    assert tracks["x0"].tid == tracks["x"].tid


def test_work_in_an_executor_is_its_threads() -> None:
    def blocking() -> None:
        with record_function("blocking"):
            pass

    async def main() -> None:
        with record_function("main"):
            await asyncio.to_thread(blocking)
            await asyncio.get_running_loop().run_in_executor(None, blocking)

    found = trees(main())
    threads = [name for name in found if not name.startswith("test_")]
    assert [path for name in threads for path in found[name]] == ["blocking", "blocking"]
    assert ["main"] in found.values()


def test_async_generators_and_contexts() -> None:
    async def numbers() -> AsyncIterator[int]:
        with record_function("generator"):
            for number in range(2):
                with record_function(f"yield {number}"):
                    await asyncio.sleep(0)
                yield number

    @contextlib.asynccontextmanager
    async def resource() -> AsyncIterator[None]:
        with record_function("resource"):
            await asyncio.sleep(0)
            yield
            await asyncio.sleep(0)

    async def reader(name: str) -> None:
        async with resource():
            async for number in numbers():
                with record_function(f"{name}{number}"):
                    await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(
            asyncio.create_task(reader("a"), name="A"), asyncio.create_task(reader("b"), name="B")
        )

    inner = "resource/generator"
    assert trees(main()) == {
        name.upper(): [
            "resource",
            inner,
            f"{inner}/yield 0",
            f"{inner}/{name}0",
            f"{inner}/yield 1",
            f"{inner}/{name}1",
        ]
        for name in "ab"
    }


def test_suspensions_lie_in_the_ranges_that_are_open() -> None:
    async def main() -> None:
        with record_function("outer"), record_function("inner"):
            await asyncio.sleep(0.01)

    profile = profiled(main())
    table = profile.event_table
    ((_, _, start, end, _),) = rows_of(table, "task_await")
    assert end - start > 5_000_000
    row = [table.name(r) for r in range(len(table))].index("await")
    assert table.name(int(table.column("parent")[row])) == "inner"
    (task,) = [
        intervals
        for track, intervals in running_intervals(table).items()
        if "main" in table.tracks[track].name
    ]
    assert len(task) == 2
    # The time suspended is time of the range, and not its self time: the thread may do other work.
    (inner,) = [event for event in profile.events() if event.name == "inner"]
    assert inner.cpu_time_total > 5_000
    assert abs(inner.cpu_time_total - inner.self_cpu_time_total - (end - start) / 1000) < 0.01
    assert not any(e.key in ("await", "main") for e in profile.key_averages())


def test_no_task_is_kept_alive() -> None:
    async def main() -> None:
        pending = asyncio.create_task(asyncio.sleep(100))
        ended = asyncio.create_task(work("a", 1))
        await ended
        references.extend(weakref.ref(task) for task in (pending, ended, asyncio.current_task()))

    references: list[weakref.ref[Any]] = []
    with fastprof.profile() as profile:
        asyncio.run(main())
        gc.collect()
        assert [reference() for reference in references] == [None, None, None]
        asyncio.run(work("b", 1))
    with fastprof.profile() as after:
        with record_function("plain"):
            pass
    check_tasks(profile)
    assert ranges_by_track(after.event_table) == {threading.current_thread().name: ["plain"]}


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.pftrace", "t.fastprof"])
def test_traces_have_tasks_as_tracks(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        with record_function("main"):
            await asyncio.gather(
                asyncio.create_task(work("a"), name="A"), asyncio.create_task(work("b"), name="B")
            )

    profile = profiled(main())
    path = tmp_path / name
    profile.export(path)
    made, read = profile.event_table, fastprof.load(path)
    assert ranges_by_track(read) == ranges_by_track(made)
    for category in ("task_lifetime", "task_await"):
        assert sorted(rows_of(read, category)) == sorted(rows_of(made, category))
    thread = {track.id: track.name for track in read.tracks if track.thread_id < 0}
    assert list(thread.values()) == [threading.current_thread().name]
    tasks = [track for track in read.tracks if track.thread_id >= 0]
    assert {thread[track.thread_id] for track in tasks} == set(thread.values())
    assert {track.tid for track in read.tracks} == {threading.get_native_id()}
    keys = {e.key for e in fastprof.EventList.from_table(read).key_averages()}
    assert keys == {"main", "a", "a0", "a1", "b", "b0", "b1"}


def test_lists_of_objects_leave_suspensions_out() -> None:
    async def task() -> None:
        with record_function("task"):
            await asyncio.sleep(0.02)

    async def main() -> None:
        await asyncio.gather(task(), task())

    profile = profiled(main())
    (expected,) = (e.self_cpu_time_total for e in profile.key_averages() if e.key == "task")
    for events in (profile.events(), fastprof.EventList(profile.events())):
        events[0].name = "renamed"  # computes from objects from here on
        total = sum(e.self_cpu_time_total for e in events if e.key in ("task", "renamed"))
        assert total == pytest.approx(expected) and total < 20_000
