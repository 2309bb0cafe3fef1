# SPDX-License-Identifier: Apache-2.0
"""Mirror ranges as torch operators for torch.jit.trace, make_fx and ExecutionTraceObserver.

These three record the operators profiler::_record_function_enter_new and _record_function_exit, which
torch.profiler.record_function calls. While one of them is active, `__enter__` and `__exit__` of fastprof's range type
are replaced by the functions below, which also call the operators (through an object of torch's class). Otherwise the
type has its native methods, so a range has no extra cost. The torch functions that begin and end the three are wrapped
once, when torch is imported.

A tracer records its own thread only, an observer all threads. fastprof's observation of operators is paused on the
thread during the two calls, so that a profile contains each range once.
"""

from __future__ import annotations

import functools
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
        self.tracers = 0  # number of tracers active on this thread


_thread = _Thread()
# Number of reasons to replace the methods: tracers of all threads, a running observer, and open
# ranges that were mirrored, whose end must be mirrored too. Guarded by _lock.
_reasons = 0
_open: list[tuple[object, int, Any]] = []  # mirrored: ours, thread id, torch's; guarded by _lock
_observer_runs = False
_asked_for_older = False
_hidden = 0  # number of observer_stopped() blocks in progress; guarded by _lock
_native: dict[str, Any] = {}  # the native methods, since they were first replaced
_range_type: Any = None
_torch: Any = None


def install(range_type: type, torch: Any) -> None:
    """Wrap the functions of `torch` that begin tracers and observers; a second call does nothing."""
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
    # torch itself imports both modules, in all supported releases.
    after_import("torch.fx.experimental.proxy_tensor", _wrap_proxy_mode)
    after_import("torch.profiler.profiler", _wrap_observer)


# ---- tracers and observers -------------------------------------------------------------------------------------


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
    """Wrap ProxyTorchDispatchMode, within which make_fx, export and AOTAutograd trace."""
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
    """Wrap the two functions by which ExecutionTraceObserver starts and stops."""
    module: Any = sys.modules["torch.profiler.profiler"]
    enable = getattr(module, "_enable_execution_trace_observer", None)
    disable = getattr(module, "_disable_execution_trace_observer", None)
    if enable is None or disable is None:
        return

    @functools.wraps(enable)
    def enable_and_mirror() -> Any:
        result = enable()
        _set_observer_runs(True)
        return result

    @functools.wraps(disable)
    def disable_and_mirror() -> Any:
        _set_observer_runs(False)
        return disable()

    module._enable_execution_trace_observer = enable_and_mirror
    module._disable_execution_trace_observer = disable_and_mirror
    _observer_switches.extend((enable, disable))


_observer_switches: list[Callable[[], Any]] = []  # torch's own enable and disable


@contextmanager
def observer_stopped() -> Iterator[None]:
    """Stop a running ExecutionTraceObserver for the block: its file must not contain self-tests."""
    _hide(+1)
    try:
        yield
    finally:
        _hide(-1)


def _hide(change: int) -> None:
    """Disable torch's observer at the first block, and enable it after the last if it should run."""
    global _hidden
    with _lock:
        if not _observer_runs and not _hidden and _older_observer_runs():
            _set_observer_runs(True)
        before, _hidden = _hidden, _hidden + change
        if _observer_runs and (before == 0 or _hidden == 0):
            _observer_switches[1 if before == 0 else 0]()


def _older_observer_runs() -> bool:
    """Return whether an observer was started before install(), which did not see it. Requires _lock.

    Asked once, because later starts call the wrapped function. If torch has any callback, all objects are scanned,
    with the GIL (20 ms for 500,000).
    """
    global _asked_for_older
    observers: Any = getattr(getattr(_torch, "profiler", None), "ExecutionTraceObserver", None)
    if _asked_for_older or observers is None or not _observer_switches:
        return False
    _asked_for_older = True
    if not _core.torch_has_global_callbacks():
        return False
    return any(one.is_running() for one in _core.objects_of_types([observers]))


def _begin_tracer() -> None:
    _thread.tracers += 1
    _change_reasons(+1)


def _end_tracer() -> None:
    _thread.tracers -= 1
    _change_reasons(-1)


def _set_observer_runs(runs: bool) -> None:
    global _observer_runs
    with _lock:
        if runs != _observer_runs:
            _observer_runs = runs
            _change_reasons(+1 if runs else -1)


def _change_reasons(change: int) -> None:
    global _reasons
    with _lock:
        before, _reasons = _reasons, _reasons + change
        if before == 0:
            _native["__enter__"] = _range_type.__enter__
            _native["__exit__"] = _range_type.__exit__
            _range_type.__enter__ = _enter
            _range_type.__exit__ = _exit
        elif _reasons == 0:
            # _native is kept: a frame may still call the replaced methods that it has looked up.
            _range_type.__enter__ = _native["__enter__"]
            _range_type.__exit__ = _native["__exit__"]


# ---- ranges while a tracer or observer is active -----------------------------------------------------------------


def _enter(self: Any) -> Any:
    """Begin the range on the calling thread, and torch's with it, whose number it gets."""
    if _thread.tracers == 0 and not _observer_runs:
        return _native["__enter__"](self)
    theirs = _torch.autograd.profiler.record_function(self.name)
    with _ops_paused():
        _core.torch_take_paused_id()
        theirs.__enter__()
        number = _core.torch_take_paused_id()
    try:
        self._enter_numbered(number)
    except BaseException:
        with _ops_paused():
            theirs.__exit__(None, None, None)
        raise
    with _lock:
        _open.append((self, threading.get_ident(), theirs))
        _change_reasons(+1)
    return self


def _exit(self: Any, kind: object = None, error: object = None, trace: object = None) -> None:
    """End the range, and torch's with it."""
    theirs = _torch_range_of(self)
    if theirs is not None:
        with _ops_paused():
            theirs.__exit__(None, None, None)
        _change_reasons(-1)
    _native["__exit__"](self, kind, error, trace)


def _torch_range_of(ours: object) -> Any:
    """Remove and return the last torch range that mirrors `ours`, preferably of this thread; None if it has none."""
    thread = threading.get_ident()
    with _lock:
        found = [at for at, entry in enumerate(_open) if entry[0] is ours]
        if not found:
            return None
        mine = [at for at in found if _open[at][1] == thread]
        return _open.pop((mine or found)[-1])[2]


def _after_fork_in_child() -> None:
    """Replace the lock, which another thread of the parent may have held."""
    global _lock
    _lock = threading.RLock()


@contextmanager
def _ops_paused() -> Iterator[None]:
    before = _core.torch_pause_ops(True)
    try:
        yield
    finally:
        _core.torch_pause_ops(before)
