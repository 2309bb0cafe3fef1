# SPDX-License-Identifier: Apache-2.0
"""Futures of three kinds: run something when one completes, and hand out one that completes after it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from collections.abc import Callable
from typing import Any

from fastprof import errors

__all__ = ["chained", "is_future"]


def is_future(value: Any) -> bool:
    """Whether chained() can follow it."""
    return (
        isinstance(value, concurrent.futures.Future)
        or asyncio.isfuture(value)
        or _is_torch_future(value)
    )


def _is_torch_future(value: Any) -> bool:
    torch_futures = sys.modules.get("torch.futures")
    return torch_futures is not None and isinstance(value, torch_futures.Future)


def chained(future: Any, done: Callable[[], Any]) -> Any:
    """A new future of the same kind that completes, with the same value or exception, after done().

    `future`: a concurrent.futures.Future, an asyncio.Future (or Task) or a torch.futures.Future.
    done() is called once, on the thread that completes the future (on this one when it is
    complete already). Anything else raises errors.ValueError.
    """
    if isinstance(future, concurrent.futures.Future):
        return _concurrent(future, done)
    if asyncio.isfuture(future):
        return _asyncio(future, done)
    if _is_torch_future(future):
        return _torch(future, done)
    raise errors.ValueError(
        f"{type(future).__module__}.{type(future).__qualname__} is no future that can be waited for: "
        "give a concurrent.futures.Future, an asyncio.Future or a torch.futures.Future"
    )


def _concurrent(
    future: concurrent.futures.Future[Any], done: Callable[[], Any]
) -> concurrent.futures.Future[Any]:
    following: concurrent.futures.Future[Any] = concurrent.futures.Future()
    following.set_running_or_notify_cancel()

    def complete(finished: concurrent.futures.Future[Any]) -> None:
        done()
        if finished.cancelled():
            following.set_exception(concurrent.futures.CancelledError())
            return
        error = finished.exception()
        if error is not None:
            following.set_exception(error)
        else:
            following.set_result(finished.result())

    future.add_done_callback(complete)
    return following


def _asyncio(future: asyncio.Future[Any], done: Callable[[], Any]) -> asyncio.Future[Any]:
    following: asyncio.Future[Any] = future.get_loop().create_future()

    def complete(finished: asyncio.Future[Any]) -> None:
        done()
        if following.cancelled():
            if not finished.cancelled():
                finished.exception()  # somebody has looked at it
            return
        if finished.cancelled():
            following.cancel()
            return
        error = finished.exception()
        if error is not None:
            following.set_exception(error)
        else:
            following.set_result(finished.result())

    future.add_done_callback(complete)
    return following


def _torch(future: Any, done: Callable[[], Any]) -> Any:
    following = type(future)()

    def complete(finished: Any) -> None:
        done()
        try:
            value = finished.value()
        except Exception as error:
            following.set_exception(error)  # then() would make a RuntimeError of it
        else:
            following.set_result(value)

    future.add_done_callback(complete)
    return following
