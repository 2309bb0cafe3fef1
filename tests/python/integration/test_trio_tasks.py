# SPDX-License-Identifier: Apache-2.0
"""Ranges of trio's tasks nest by task, and those of anyio on either loop."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
import weakref
from typing import Any

import pytest
from processes import python
from task_trees import check_tasks, ranges_by_track, rows_of

import fastprof
from fastprof import record_function

trio = pytest.importorskip("trio")

pytestmark = pytest.mark.integrations


async def work(name: str) -> None:
    with record_function(name):
        await trio.sleep(0)
        with record_function(f"{name}'s inner"):
            await trio.sleep(0.001)


async def main() -> None:
    with record_function("main"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, "a", name="A")
            nursery.start_soon(work, "b", name="B")


def check(profile: Any) -> None:
    check_tasks(profile)
    found = ranges_by_track(profile.event_table)
    assert found["A"] == ["a", "a/a's inner"] and found["B"] == ["b", "b/b's inner"]
    assert any("main" in paths for paths in found.values())
    assert all(
        finished
        for name, *_, finished in rows_of(profile.event_table, "task_lifetime")
        if name in "AB"
    )


def test_a_run_in_a_profile() -> None:
    with fastprof.profile() as profile:
        trio.run(main)
        with record_function("after"):
            pass
    check(profile)
    found = ranges_by_track(profile.event_table)
    assert found[threading.current_thread().name] == ["after"]


def test_a_profile_in_a_run() -> None:
    async def outer() -> None:
        for _ in range(2):
            with fastprof.profile() as profile:
                profiles.append(profile)
                with record_function("here"):
                    await trio.sleep(0.01)
                await main()
            await trio.sleep(0)

    profiles: list[Any] = []
    trio.run(outer)
    for profile in profiles:
        check(profile)
        (name,) = [
            n for n, paths in ranges_by_track(profile.event_table).items() if "here" in paths
        ]
        awaits = [row for row in rows_of(profile.event_table, "task_await") if row[0] == name]
        assert max(end - start for _, _, start, end, _ in awaits) > 5_000_000


def test_no_instrument_stays() -> None:
    """In a process of its own: a profile that another test left running has an instrument by right."""
    program = """
import fastprof, trio
from trio._core import _instrumentation, _run
before = _instrumentation.Instruments.__init__
names = []
async def outer():
    with fastprof.profile():
        await trio.sleep(0)
    await trio.sleep(0)
    await trio.sleep(0)
    names.extend(type(one).__name__ for one in _run.GLOBAL_RUN_CONTEXT.runner.instruments.data["_all"])
trio.run(outer)
print(names, _instrumentation.Instruments.__init__ is before)
"""
    done = python("-c", program)
    assert done.stdout == "[] True\n", done.stderr


def test_trio_beside_asyncio() -> None:
    async def step() -> None:
        with record_function("asyncio"):
            await asyncio.sleep(0)

    with fastprof.profile() as profile:
        thread = threading.Thread(target=asyncio.run, args=(step(),))
        thread.start()
        trio.run(main)
        thread.join()
    check(profile)
    assert ["asyncio"] in ranges_by_track(profile.event_table).values()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio(backend: str) -> None:
    anyio = pytest.importorskip("anyio")

    async def child(name: str) -> None:
        with record_function(name):
            await anyio.sleep(0.001)

    async def parent() -> None:
        with record_function("parent"):
            async with anyio.create_task_group() as group:
                group.start_soon(child, "a", name="A")
                group.start_soon(child, "b", name="B")
            await anyio.to_thread.run_sync(blocking)

    def blocking() -> None:
        with record_function("blocking"):
            pass

    for options in ({}, {"all_threads": False}):
        with fastprof.profile(**options) as profile:
            anyio.run(parent, backend=backend)
        check_tasks(profile)
        found = ranges_by_track(profile.event_table)
        assert found["A"] == ["a"] and found["B"] == ["b"] and ["parent"] in found.values()
        assert ["blocking"] in found.values()


def test_where_suspended_tasks_wait():
    """The chains of awaits of a run that began before the profile, on another thread, and of a guest run."""
    began, ends = threading.Barrier(3), threading.Event()

    async def inner(event: Any) -> None:
        await event.wait()

    async def outer(event: Any) -> None:
        await inner(event)

    async def tasks_of(name: str) -> None:
        event = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outer, event, name=name)
            began.wait()
            while not ends.is_set():
                await trio.sleep(0.01)
            event.set()

    async def host() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        trio.lowlevel.start_guest_run(
            tasks_of, "guest", done_callback=lambda _: over.set(),
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
        )  # fmt: skip
        await over.wait()

    threads = [
        threading.Thread(target=trio.run, args=(tasks_of, "alone")),
        threading.Thread(target=asyncio.run, args=(host(),)),
    ]
    for thread in threads:
        thread.start()
    began.wait()
    with fastprof.profile(sample_hz=200, sample_tasks=True) as prof:
        time.sleep(1.5)
    ends.set()
    for thread in threads:
        thread.join()
    if "sample_hz" in prof.missing:
        pytest.skip(prof.missing["sample_hz"])
    stacks = prof.samples().stacks
    chains: dict[str, set[tuple[str, ...]]] = {}
    for run in (stacks.is_task & (stacks.count > 0)).nonzero()[0].tolist():
        codes = (stacks.codes[stacks.code[node]] for node in stacks.path(stacks.node[run]))
        chain = tuple(name.rpartition(".")[2] for name, _, _ in codes)[::-1]
        chains.setdefault(stacks.threads[stacks.thread[run]][1], set()).add(chain)
    for name in ("alone", "guest"):
        assert chains[f"task {name}"] == {("outer", "inner", "wait")}
    assert not any("init" in name for name in chains)  # trio's own tasks
    assert prof.event_table.metadata["own_use"]["threads_cpu_ns"]["fastprof-tasks"] > 0


def test_sampled_tasks_keep_nothing_alive():
    class Big:
        pass

    big: Any = contextvars.ContextVar("big")

    async def work() -> None:
        big.set(Big())
        refs.append(weakref.ref(big.get()))
        await trio.sleep(0)
        time.sleep(0.3)  # sampled while it runs

    async def parent() -> None:
        with fastprof.profile(sample_hz=500, sample_tasks=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work)
        await trio.sleep(0.01)
        gc.collect()
        alive.extend(ref() is not None for ref in refs)

    refs: list[Any] = []
    alive: list[bool] = []
    trio.run(parent)
    assert alive == [False]


@pytest.mark.parametrize("calls", [False, True])
def test_the_remedy_for_a_blocked_run_is_trios(calls):
    async def block() -> None:
        time.sleep(0.05)

    async def parent() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(block)

    with fastprof.profile(python_calls=calls) as profile:
        trio.run(parent)
    first = fastprof.analysis.explain(profile).first
    assert "trio.to_thread.run_sync" in first.text and "asyncio" not in first.text
