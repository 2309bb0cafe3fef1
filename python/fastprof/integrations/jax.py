# SPDX-License-Identifier: Apache-2.0
"""JAX: show its annotations in fastprof's profiles and fastprof's ranges in JAX's traces."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jax.profiler import TraceAnnotation

from fastprof.record.ranges import record_function

__all__ = ["forward_annotations"]

# TraceMe, the C++ base class of TraceAnnotation, which adds nothing to it.
_TraceMe: Any = TraceAnnotation.__mro__[1]
# TraceMe's keyword that marks a step; StepTraceAnnotation passes it.
_STEP_MARK = "_r"
_PROFILER_STEP = "ProfilerStep#"

_lock = threading.Lock()
_counts = {"to_jax": 0, "from_jax": 0}
_local = threading.local()
_Enter, _Exit = record_function.__enter__, record_function.__exit__


@contextmanager
def forward_annotations(to_jax: bool = True, from_jax: bool = True) -> Iterator[None]:
    """Forward ranges between fastprof and JAX while the block runs, on all threads.

    from_jax: annotations by jax.profiler's TraceAnnotation, StepTraceAnnotation and annotate_function
    that are created within the block also become ranges of fastprof; keywords become arguments.
    to_jax: ranges of fastprof's record_function also appear in traces of jax.profiler; ranges
    "ProfilerStep#N" appear as steps.
    Blocks may nest and overlap; when the last one ends, both packages are restored. Any thread.

        with fastprof.profile() as prof, forward_annotations():
            train()
    """
    chosen = [name for name, wanted in (("to_jax", to_jax), ("from_jax", from_jax)) if wanted]
    for name in chosen:
        _change_count(name, 1)
    try:
        yield
    finally:
        for name in chosen:
            _change_count(name, -1)


def _change_count(name: str, by: int) -> None:
    """Count the open blocks of a direction; replace methods when the first opens, restore them after the last."""
    with _lock:
        before = _counts[name]
        _counts[name] = before + by
        if before == 0:
            for owner, method, ours in _OURS[name]:
                setattr(owner, method, ours)
        elif before + by == 0:
            for owner, method, _ in _OURS[name]:
                if owner is TraceAnnotation:
                    delattr(owner, method)  # uncovers the method inherited from TraceMe
                else:
                    setattr(owner, method, _Enter if method == "__enter__" else _Exit)


# ---- JAX's annotations as ranges --------------------------------------------------------------------


def _annotation_init(self: Any, name: str, **keywords: Any) -> None:
    _TraceMe.__init__(self, name, **keywords)
    arguments = {key: value for key, value in keywords.items() if key != _STEP_MARK}
    self._fastprof_range = record_function(name, **arguments)


def _annotation_enter(self: Any) -> Any:
    opened = getattr(self, "_fastprof_range", None)  # None: created before the block
    if opened is not None:
        _Enter(opened)
        self._fastprof_open = opened
    return _TraceMe.__enter__(self)


def _annotation_exit(self: Any, *error: Any) -> Any:
    result = _TraceMe.__exit__(self, *error)
    opened = self.__dict__.pop("_fastprof_open", None)
    if opened is not None:
        _Exit(opened, None, None, None)
    return result


# ---- ranges as JAX's annotations --------------------------------------------------------------------


def _open_traces() -> list[tuple[int, Any]]:
    traces: list[tuple[int, Any]] | None = getattr(_local, "traces", None)
    if traces is None:
        traces = _local.traces = []
    return traces


def _trace_of(name: str) -> Any:
    step = name.removeprefix(_PROFILER_STEP)
    if step != name and step.isdecimal():
        return _TraceMe(_PROFILER_STEP[:-1], _r=1, step_num=int(step))
    return _TraceMe(name)


def _range_enter(self: record_function) -> Any:
    result = _Enter(self)
    trace = _trace_of(self.name)
    trace.__enter__()
    _open_traces().append((id(self), trace))
    return result


def _range_exit(self: record_function, *error: Any) -> Any:
    traces = _open_traces()
    for index in range(len(traces) - 1, -1, -1):  # find the last one opened for this range
        if traces[index][0] == id(self):
            traces.pop(index)[1].__exit__(None, None, None)
            break
    return _Exit(self, *error)


_OURS: dict[str, list[tuple[Any, str, Any]]] = {
    "from_jax": [
        (TraceAnnotation, "__init__", _annotation_init),
        (TraceAnnotation, "__enter__", _annotation_enter),
        (TraceAnnotation, "__exit__", _annotation_exit),
    ],
    "to_jax": [
        (record_function, "__enter__", _range_enter),
        (record_function, "__exit__", _range_exit),
    ],
}
