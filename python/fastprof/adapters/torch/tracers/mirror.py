# SPDX-License-Identifier: Apache-2.0
"""Ranges for whoever in PyTorch records operators: torch.jit.trace, make_fx, ExecutionTraceObserver.

These three record the operators profiler::_record_function_enter_new and _record_function_exit, which
torch.profiler.record_function calls. While one of them is active, `__enter__` and `__exit__` of fastprof's range type
are replaced by the functions below, which also call the operators (through an object of torch's class). Otherwise the
type has its native methods, so a range costs nothing more. The functions of torch that begin and end the three are
wrapped once, when torch is imported.

A tracer records its own thread only, an observer all threads. fastprof's observation of operators is paused on the
thread during the two calls, so that a profile contains each range once.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastprof import _core
from fastprof.adapters.import_watch import after_import

__all__ = ["install", "observer_stopped"]

_lock = threading.RLock()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.tracers = 0  # tracers active on this thread


_thread = _Thread()
# Why the methods are replaced, guarded by _lock: tracers of all threads, a running observer, and
# ranges that were mirrored and are still open, whose end must be mirrored too.
_reasons = 0
_open: list[tuple[object, int, Any]] = []  # those ranges: ours, thread, torch's; guarded by _lock
_observer_runs = False
_hidden = 0  # blocks of observer_stopped() in progress; guarded by _lock
_native: dict[str, Any] = {}  # the replaced methods while _reasons > 0
_range_type: Any = None
_torch: Any = None


def install(range_type: type, torch: Any) -> None:
    """Wrap what begins tracers and observers in this `torch`; a second call does nothing."""
    global _range_type, _torch
    with _lock:
        if _torch is not None:
            return
        _range_type, _torch = range_type, torch
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork_in_child)
    for owner, name in (
        (torch._C, "_create_function_from_trace"),
        (torch._C, "_create_function_from_trace_with_dict"),
        (torch._C, "_create_graph_by_tracing"),
        (torch._C.ScriptModule, "_create_method_from_trace"),
        (torch._C.ScriptModule, "_create_method_from_trace_with_dict"),
    ):
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, _traced(original))
    # Both are imported by torch itself, in the releases known.
    after_import("torch.fx.experimental.proxy_tensor", _wrap_proxy_mode)
    after_import("torch.profiler.profiler", _wrap_observer)


# ---- who records -----------------------------------------------------------------------------------------------


def _traced(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        _begin_tracer()
        try:
            return original(*args, **kwargs)
        finally:
            _end_tracer()

    return call


def _wrap_proxy_mode() -> None:
    """make_fx, export and AOTAutograd trace while a ProxyTorchDispatchMode is entered."""
    module: Any = sys.modules["torch.fx.experimental.proxy_tensor"]
    mode = getattr(module, "ProxyTorchDispatchMode", None)
    if mode is None:
        return
    enter, leave = mode.__enter__, mode.__exit__

    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: N807
        entered = enter(self)
        _begin_tracer()
        return entered

    @functools.wraps(leave)
    def __exit__(self: Any, *error: Any) -> Any:  # noqa: N807
        _end_tracer()
        return leave(self, *error)

    mode.__enter__, mode.__exit__ = __enter__, __exit__


def _wrap_observer() -> None:
    """ExecutionTraceObserver starts and stops through two functions of its module."""
    module: Any = sys.modules["torch.profiler.profiler"]
    enable = getattr(module, "_enable_execution_trace_observer", None)
    disable = getattr(module, "_disable_execution_trace_observer", None)
    if enable is None or disable is None:
        return

    @functools.wraps(enable)
    def enable_and_mirror() -> Any:
        result = enable()
        _show_observer(True)
        return result

    @functools.wraps(disable)
    def disable_and_mirror() -> Any:
        _show_observer(False)
        return disable()

    module._enable_execution_trace_observer = enable_and_mirror
    module._disable_execution_trace_observer = disable_and_mirror
    _observer_switches.extend((enable, disable))


_observer_switches: list[Callable[[], Any]] = []  # torch's own enable and disable


@contextmanager
def observer_stopped() -> Iterator[None]:
    """Stop a running ExecutionTraceObserver for the block: self-tests must not be in its file."""
    _hide(+1)
    try:
        yield
    finally:
        _hide(-1)


def _hide(change: int) -> None:
    """The first block disables torch's observer, the last enables it, if it should still run."""
    global _hidden
    with _lock:
        if not _observer_runs and not _hidden and _observer_is_running():
            _show_observer(True)
        before, _hidden = _hidden, _hidden + change
        if _observer_runs and (before == 0 or _hidden == 0):
            _observer_switches[1 if before == 0 else 0]()


def _observer_is_running() -> bool:
    """Whether one was started before install(). Looks at all objects (20 ms for 500,000)."""
    observers: Any = getattr(getattr(_torch, "profiler", None), "ExecutionTraceObserver", None)
    if observers is None or not _observer_switches:
        return False
    return any(type(o) is observers and o.is_running() for o in gc.get_objects())


def _begin_tracer() -> None:
    _thread.tracers += 1
    _count(+1)


def _end_tracer() -> None:
    _thread.tracers -= 1
    _count(-1)


def _show_observer(runs: bool) -> None:
    global _observer_runs
    with _lock:
        if runs != _observer_runs:
            _observer_runs = runs
            _count(+1 if runs else -1)


def _count(change: int) -> None:
    global _reasons
    with _lock:
        before, _reasons = _reasons, _reasons + change
        if before == 0:
            _native["__enter__"] = _range_type.__enter__
            _native["__exit__"] = _range_type.__exit__
            _range_type.__enter__ = _enter
            _range_type.__exit__ = _exit
        elif _reasons == 0:
            # What a frame looked up before stays callable: _native is kept.
            _range_type.__enter__ = _native["__enter__"]
            _range_type.__exit__ = _native["__exit__"]


# ---- ranges while somebody records -------------------------------------------------------------------------------


def _enter(self: Any) -> Any:
    """Begin the range on the calling thread, and torch's."""
    _native["__enter__"](self)
    if _thread.tracers > 0 or _observer_runs:
        theirs = _torch.autograd.profiler.record_function(self.name)
        with _ops_paused():
            theirs.__enter__()
        with _lock:
            _open.append((self, threading.get_ident(), theirs))
            _count(+1)
    return self


def _exit(self: Any, kind: object = None, error: object = None, trace: object = None) -> None:
    """End it, and torch's."""
    theirs = _torch_range_of(self)
    if theirs is not None:
        with _ops_paused():
            theirs.__exit__(None, None, None)
        _count(-1)
    _native["__exit__"](self, kind, error, trace)


def _torch_range_of(ours: object) -> Any:
    """Take the last one begun with `ours`: on this thread, else on any; None if there is none."""
    thread = threading.get_ident()
    with _lock:
        found = [at for at, entry in enumerate(_open) if entry[0] is ours]
        if not found:
            return None
        mine = [at for at in found if _open[at][1] == thread]
        return _open.pop((mine or found)[-1])[2]


def _after_fork_in_child() -> None:
    """Another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.RLock()


@contextmanager
def _ops_paused() -> Iterator[None]:
    before = _core.torch_pause_ops(True)
    try:
        yield
    finally:
        _core.torch_pause_ops(before)
