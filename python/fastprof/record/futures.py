# SPDX-License-Identifier: Apache-2.0
"""chained: attach a callback to a future of concurrent.futures, asyncio or torch.futures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastprof.base import errors

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

__all__ = ["chained", "is_future"]

# Imports none of the three modules: a future can only exist if its module is loaded.


def is_future(value: Any) -> bool:
    """Return whether chained() accepts the value."""
    return (
        _is_of("concurrent.futures", value) or _is_asyncio(value) or _is_of("torch.futures", value)
    )


def _is_of(module: str, value: Any) -> bool:
    kind = getattr(sys.modules.get(module), "Future", None)
    return kind is not None and isinstance(value, kind)


def _is_asyncio(value: Any) -> bool:
    module = sys.modules.get("asyncio")
    return module is not None and module.isfuture(value)


def chained(future: Any, done: Callable[[], Any]) -> Any:
    """Return a new future of the same kind that completes, with the same outcome, after done().

    future: a concurrent.futures.Future, an asyncio.Future (or Task) or a torch.futures.Future;
    errors.ValueError for anything else.
    done: called once, on the thread that completes the future, or on the calling thread if the
    future is already complete.
    """
    if _is_of("concurrent.futures", future):
        return _concurrent(future, done)
    if _is_asyncio(future):
        return _asyncio(future, done)
    if _is_of("torch.futures", future):
        return _torch(future, done)
    raise errors.ValueError(
        f"unsupported type of future: {type(future).__module__}.{type(future).__qualname__}. "
        "Pass a concurrent.futures.Future, an asyncio.Future or a torch.futures.Future."
    )


def _concurrent(
    future: concurrent.futures.Future[Any], done: Callable[[], Any]
) -> concurrent.futures.Future[Any]:
    import concurrent.futures

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
                finished.exception()  # marks it as retrieved: asyncio logs no warning
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
            following.set_exception(error)  # then() would wrap it in a RuntimeError
        else:
            following.set_result(value)

    future.add_done_callback(complete)
    return following
