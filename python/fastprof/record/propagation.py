# SPDX-License-Identifier: Apache-2.0
"""propagate: run a function elsewhere as if on the thread that handed it over."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from fastprof._core import ThreadState

__all__ = ["propagate"]

F = TypeVar("F", bound=Callable[..., Any])


def propagate(function: F) -> F:
    """`function` wrapped so that profiles of this thread (all_threads=False) see its calls.

    pool.submit(propagate(work), ...): while it runs, on whatever thread, that thread carries the
    thread-local sessions, callbacks and debug info that this thread has now; afterwards it has its
    own back. For process-wide profiles, the default, nothing needs propagating.
    """
    state = ThreadState()

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return state.call(function, args, kwargs)

    return cast(F, wrapper)
