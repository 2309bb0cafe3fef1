# SPDX-License-Identifier: Apache-2.0
"""Record torch's allocations with a memory reporter per thread, alongside torch.profiler's own."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from fastprof import _core
from fastprof.adapters.torch.debug_info import prepare_debug_info
from fastprof.adapters.torch.proof import Trial, reason_against

__all__ = ["TorchMemory", "after_fork_in_child"]

_SLOT_TAKEN = (
    "torch.profiler already runs on this thread and receives its allocations: fastprof records none of "
    "them until torch.profiler stops"
)
_SLOT_WITHDRAWN = (
    "torch.profiler was started on a thread that this profile records: fastprof does not record the "
    "thread's allocations until torch.profiler stops"
)

# The functions that start torch's profilers, as attributes of the modules that call them.
_STARTERS = (
    ("torch.autograd.profiler", "_enable_profiler"),
    ("torch.autograd.profiler_legacy", "_enable_profiler_legacy"),
)

_lock = threading.RLock()
_live: list[TorchMemory] = []
_guarded: list[tuple[ModuleType, str, Any, Any]] = []  # module, name, original, replacement


class TorchMemory:
    """Reports torch's allocations from begin() to stop(), to all sessions that are running."""

    def __init__(self, report_missing: Callable[[str], None]) -> None:
        self._report_missing = report_missing
        self._hold = _core.TorchMemoryHold()

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials that must succeed before begin()."""
        return (("debug info", prepare_debug_info), ("memory", _wrong_about_memory))

    def begin(self, torch: Any) -> None:
        """Report from now on, at once on this thread, or report why not. Ops are observed already."""
        with _lock:
            if self in _live:
                return
            reason = reason_against(torch, "memory")
            if reason is None:
                return
            if reason:
                self._report_missing(f"torch's allocations are not recorded: {reason}")
                return
            _live.append(self)
            has_slot = self._hold.begin()
            _guard_starters()
        if not has_slot:
            self._report_missing(_SLOT_TAKEN)

    def refused(self) -> None:
        """Report that allocations are missing because the ops of this torch cannot be observed."""
        self._report_missing("torch's allocations are not recorded, because torch ops are not")

    def stop(self) -> None:
        """Stop reporting for this object."""
        with _lock:
            if self in _live:
                _live.remove(self)
            if not _live:
                _unguard_starters()
            self._hold.end()


def after_fork_in_child() -> None:
    """Reset in a forked child: no thread reports until a profile starts there."""
    global _lock
    _lock = threading.RLock()
    _live.clear()
    _unguard_starters()
    _core.torch_memory_after_fork_in_child()


def _wrong_about_memory(torch: Any) -> str:
    """Return "" if allocations of this torch can be observed, else the reason. Runs after "debug info"."""
    reason = reason_against(torch, "debug info")
    if reason:
        return reason
    try:
        return _wrong_about_known_tensor(torch)
    except Exception as failure:
        return f"the self-test failed to allocate a tensor: {failure!r}"


def _wrong_about_known_tensor(torch: Any) -> str:
    """Return "" if an allocation of known size is reported correctly, else what is wrong."""
    size_bytes = 4096 + 64

    def work() -> None:
        torch.empty(size_bytes, dtype=torch.uint8, device="cpu")

    sizes = _core.torch_try_memory(work)
    if sizes != [size_bytes, -size_bytes]:
        return f"in the self-test, a tensor of {size_bytes} bytes was recorded as {sizes}"
    return ""


def _withdraw_reporter() -> None:
    """Withdraw our reporter: torch's profiler is about to start on this thread, which has one slot."""
    if _core.torch_memory_withdraw():
        with _lock:
            affected = list(_live)
        for one in affected:
            one._report_missing(_SLOT_WITHDRAWN)


def _guard_starters() -> None:
    """Wrap the functions that start torch's profilers, so that our reporter gives way to them."""
    if _guarded:
        return
    for module_name, name in _STARTERS:
        module = sys.modules.get(module_name)
        original = getattr(module, name, None)
        if module is None or original is None:
            continue
        ours = _withdrawing_first(original)
        # Appended before the assignment, so that an interrupt in between leaves nothing wrapped for good.
        _guarded.append((module, name, original, ours))
        setattr(module, name, ours)


def _withdrawing_first(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    def enable(*arguments: Any, **keywords: Any) -> Any:
        _withdraw_reporter()
        return start(*arguments, **keywords)

    return enable


def _unguard_starters() -> None:
    for module, name, original, ours in _guarded:
        if getattr(module, name, None) is ours:  # otherwise other code has replaced it since
            setattr(module, name, original)
    _guarded.clear()
