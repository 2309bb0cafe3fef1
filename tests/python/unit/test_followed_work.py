# SPDX-License-Identifier: Apache-2.0
"""A profile with all_threads=False follows what its thread starts, and nothing else."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from waiting_threads import run_threads

import fastprof
from fastprof import record_function


def work(name: str) -> str:
    with record_function(name):
        return name


def names(profile: Any) -> list[str]:
    return sorted(event.name for event in profile.events())


def joined(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


@pytest.fixture
def other() -> Iterator[Callable[[Callable[[], Any]], None]]:
    """A thread that runs from before the profile on, and runs functions for the test."""
    calls: queue.Queue[Any] = queue.Queue()
    answers: queue.Queue[Any] = queue.Queue()

    def serve() -> None:
        while (call := calls.get()) is not None:
            answers.put(call())

    thread = threading.Thread(target=serve)
    thread.start()

    def run(call: Callable[[], Any]) -> None:
        calls.put(call)
        answers.get(timeout=60)

    yield run
    calls.put(None)
    thread.join()


def test_threads_and_threads_of_threads(other: Callable[[Callable[[], Any]], None]) -> None:
    class Own(threading.Thread):
        def run(self) -> None:
            work("own run")
            joined(threading.Thread(target=work, args=("grandchild",)))

    with fastprof.profile(all_threads=False) as profile:
        joined(threading.Thread(target=work, args=("child",)))
        joined(Own())
        other(lambda: work("elsewhere"))
        other(lambda: joined(threading.Thread(target=work, args=("elsewhere's child",))))
        timer = threading.Timer(0, work, ("timer",))
        joined(timer)
    joined(threading.Thread(target=work, args=("after",)))
    assert names(profile) == ["child", "grandchild", "own run", "timer"]


def test_a_thread_that_goes_on_after_the_profile() -> None:
    go_on = threading.Event()

    def target() -> None:
        work("before")
        started.set()
        go_on.wait(60)
        work("after")

    started = threading.Event()
    with fastprof.profile(all_threads=False) as profile:
        thread = threading.Thread(target=target)
        thread.start()
        started.wait(60)
    assert "run" not in thread.__dict__
    go_on.set()
    thread.join()
    assert names(profile) == ["before"]


def test_a_pool_records_only_what_was_handed_to_it(
    other: Callable[[Callable[[], Any]], None],
) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with fastprof.profile(all_threads=False) as profile:
            assert pool.submit(work, "submitted").result() == "submitted"
            assert list(pool.map(work, ["mapped"])) == ["mapped"]
            other(lambda: pool.submit(work, "elsewhere").result())
            with pytest.raises(ZeroDivisionError):
                pool.submit(lambda: 1 // 0).result()
            context = contextvars.copy_context()
            pool.submit(context.run, work, "in a context").result()
        pool.submit(work, "after").result()
    assert names(profile) == ["in a context", "mapped", "submitted"]


def test_asyncio_and_its_executor() -> None:
    async def main() -> None:
        await asyncio.to_thread(work, "to_thread")
        await asyncio.get_running_loop().run_in_executor(None, work, "executor")
        work("main")

    with fastprof.profile(all_threads=False) as profile:
        asyncio.run(main())
    assert names(profile) == ["executor", "main", "to_thread"]


def test_everything_is_put_back() -> None:
    before = (
        threading.Thread.start,
        concurrent.futures.ThreadPoolExecutor.submit,
        asyncio.BaseEventLoop.call_soon_threadsafe,
    )

    def now() -> tuple[Any, ...]:
        return (
            threading.Thread.start,
            concurrent.futures.ThreadPoolExecutor.submit,
            asyncio.BaseEventLoop.call_soon_threadsafe,
        )

    with fastprof.profile(all_threads=False):
        with fastprof.profile(all_threads=False):
            assert all(a is not b for a, b in zip(now(), before, strict=True))
        assert all(a is not b for a, b in zip(now(), before, strict=True))
    assert now() == before
    with fastprof.profile():
        assert now() == before


def test_two_profiles_of_two_threads() -> None:
    both = threading.Barrier(2)
    profiles: dict[str, Any] = {}

    def run(name: str) -> None:
        with fastprof.profile(all_threads=False) as profile:
            profiles[name] = profile
            both.wait(60)
            joined(threading.Thread(target=work, args=(name,)))
            both.wait(60)

    run_threads(*(threading.Thread(target=run, args=(name,)) for name in "ab"))
    assert {name: names(profile) for name, profile in profiles.items()} == {"a": ["a"], "b": ["b"]}
