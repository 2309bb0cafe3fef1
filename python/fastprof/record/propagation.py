# SPDX-License-Identifier: Apache-2.0
"""propagate: run a function on another thread with the profiling state of the calling thread."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from fastprof._core import ThreadState

__all__ = ["propagate"]

F = TypeVar("F", bound=Callable[..., Any])


def propagate(function: F) -> F:
    """Wrap `function` so that thread-local profiles of this thread record its calls on any thread.

    While a call runs, its thread carries the thread-local sessions, callbacks and debug info that
    the wrapping thread had when propagate() was called; afterwards its own are restored. Needed only for
    profiles with all_threads=False, because other profiles record every thread. Profiles with
    all_threads=False follow threading.Thread, ThreadPoolExecutor and asyncio without propagate(). Any thread.

        _thread.start_new_thread(fastprof.propagate(work), (argument,))
    """
    state = ThreadState()

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return state.call(function, args, kwargs)

    return cast(F, wrapper)
