# SPDX-License-Identifier: Apache-2.0
"""A range that ends with a future: concurrent.futures, asyncio and PyTorch's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from typing import Any

import pytest

import fastprof
from fastprof import errors, record_function


def span_ms(profile: fastprof.profile, name: str) -> float:
    [event] = [event for event in profile.events() if event.name == name]
    return event.cpu_time_total / 1000


def test_concurrent_future() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool, fastprof.profile() as p:
        with record_function("call") as rf:
            following = rf._call_end_callbacks_on_future(pool.submit(lambda: time.sleep(0.02) or 7))
        left = time.perf_counter()
        assert following.result() == 7
        assert time.perf_counter() >= left
    assert span_ms(p, "call") >= 20
    assert p.event_table.unfinished == 0


def test_exceptions_and_cancellation_travel() -> None:
    with fastprof.profile() as p:
        failed: concurrent.futures.Future[int] = concurrent.futures.Future()
        with record_function("failed") as rf:
            following = rf._call_end_callbacks_on_future(failed)
        failed.set_exception(KeyError("x"))
        with pytest.raises(KeyError):
            following.result()
        cancelled: concurrent.futures.Future[int] = concurrent.futures.Future()
        with record_function("cancelled") as rf:
            following = rf._call_end_callbacks_on_future(cancelled)
        cancelled.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            following.result()
    assert p.event_table.unfinished == 0


def test_complete_already() -> None:
    done: concurrent.futures.Future[int] = concurrent.futures.Future()
    done.set_result(3)
    with fastprof.profile() as p, record_function("x") as rf:
        assert rf._call_end_callbacks_on_future(done).result() == 3
    assert p.event_table.unfinished == 0


def test_asyncio_future() -> None:
    async def value() -> int:
        await asyncio.sleep(0.01)
        return 5

    async def main() -> int:
        with record_function("awaited") as rf:
            following = rf._call_end_callbacks_on_future(asyncio.ensure_future(value()))
        result: int = await following
        return result

    with fastprof.profile() as p:
        assert asyncio.run(main()) == 5
    assert span_ms(p, "awaited") >= 9


def test_only_once_and_only_inside() -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    with record_function("x") as rf:
        rf._call_end_callbacks_on_future(future)
        with pytest.raises(RuntimeError, match="can be done once"):
            rf._call_end_callbacks_on_future(future)
    with pytest.raises(RuntimeError, match="not open"):
        rf._call_end_callbacks_on_future(future)


def test_what_is_no_future_leaves_the_range_as_it_was() -> None:
    with fastprof.profile() as p, record_function("x") as rf:
        with pytest.raises(errors.ValueError, match="unsupported type of future"):
            rf._call_end_callbacks_on_future(3)
    assert p.event_table.unfinished == 0


def test_never_completed_stays_open() -> None:
    with fastprof.profile() as p, record_function("x") as rf:
        rf._call_end_callbacks_on_future(concurrent.futures.Future())
    assert p.event_table.unfinished == 1


def test_futures_of_torch_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torch.futures.Future, whose value() raises its error."""
    import sys
    from types import ModuleType

    from fastprof.record.futures import chained

    class Future:
        def __init__(self) -> None:
            self.callbacks: list[Any] = []
            self.result: Any = None

        def add_done_callback(self, callback: Any) -> None:
            self.callbacks.append(callback)

        def set_result(self, value: Any) -> None:
            self.result = value
            for callback in self.callbacks:
                callback(self)

        def set_exception(self, error: Exception) -> None:
            self.set_result(error)

        def value(self) -> Any:
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

    module = ModuleType("torch.futures")
    module.Future = Future  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.futures", module)
    monkeypatch.setattr(Future, "__module__", "torch.futures")
    for outcome in (5, KeyError("x")):
        done: list[int] = []
        future = Future()
        following = chained(future, lambda done=done: done.append(1))
        assert type(following) is Future and following is not future and not done
        future.set_result(outcome)
        assert done == [1] and following.result is outcome
