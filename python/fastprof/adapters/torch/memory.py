# SPDX-License-Identifier: Apache-2.0
"""torch's allocations in a profile: our memory reporter on the threads, beside torch.profiler's."""

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

_TAKEN = (
    "torch.profiler already runs on this thread and takes its allocations: fastprof records none of "
    "them until it has stopped"
)
_GIVEN_AWAY = (
    "torch.profiler was started on a thread that this profile records: its allocations go to "
    "torch.profiler, and not to fastprof, until that has stopped"
)

# The functions of torch by which its profilers start, where its own modules look them up.
_STARTERS = (
    ("torch.autograd.profiler", "_enable_profiler"),
    ("torch.autograd.profiler_legacy", "_enable_profiler_legacy"),
)

_lock = threading.RLock()
_live: list[TorchMemory] = []
_guarded: list[tuple[ModuleType, str, Any, Any]] = []  # module, name, original, ours


class TorchMemory:
    """Allocations are recorded from begin() to stop(); the sessions that then run have them."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._hold = _core.TorchMemoryHold()

    @property
    def trials(self) -> Sequence[Trial]:
        """What must hold of this torch."""
        return (("debug info", prepare_debug_info), ("memory", _wrong_about_memory))

    def begin(self, torch: Any) -> None:
        """Report from now on, this thread at once, or tell why not. Its ops are observed already."""
        with _lock:
            if self in _live:
                return
            reason = reason_against(torch, "memory")
            if reason is None:
                return
            if reason:
                self._tell(f"torch's allocations are not recorded: {reason}")
                return
            _live.append(self)
            mine = self._hold.begin()
            _guard_starters()
        if not mine:
            self._tell(_TAKEN)

    def refused(self) -> None:
        """The ops of this torch cannot be observed."""
        self._tell("torch's allocations are not recorded, because its ops cannot be")

    def stop(self) -> None:
        """No more is recorded on its behalf."""
        with _lock:
            if self in _live:
                _live.remove(self)
            if not _live:
                _unguard_starters()
            self._hold.end()


def after_fork_in_child() -> None:
    """No thread reports in a forked child until a profile starts there."""
    global _lock
    _lock = threading.RLock()
    _live.clear()
    _unguard_starters()
    _core.torch_memory_after_fork_in_child()


def _wrong_about_memory(torch: Any) -> str:
    """Empty when allocations of this torch can be observed, else the reason. After "debug info"."""
    reason = reason_against(torch, "debug info")
    if reason:
        return reason
    try:
        return _wrong_about_known_tensor(torch)
    except Exception as failure:
        return f"a known tensor could not be made: {failure!r}"


def _wrong_about_known_tensor(torch: Any) -> str:
    """Empty when an allocation of known size is reported as such, else what is wrong."""
    size_bytes = 4096 + 64
    session = _core.Session(categories=_core_memory(), thread_local_only=True)
    reports = _core.TorchMemoryHold()
    session.start()
    try:
        reports.begin()
        torch.empty(size_bytes, dtype=torch.uint8, device="cpu")
    finally:
        reports.end()
        capture = session.stop({})
    columns = capture.columns()
    words = capture.payload_words()
    sizes = [int(words[int(at) + 1].astype("int64")) for at in columns["payload"]]
    if sizes != [size_bytes, -size_bytes]:
        return f"a tensor of {size_bytes} bytes was seen as {sizes}"
    return ""


def _core_memory() -> int:
    """category::memory of csrc/include/fastprof/base/scope.hpp."""
    return 1 << 2


def _given_away() -> None:
    """torch's profiler is about to start on this thread, which has room for one."""
    if _core.torch_memory_withdraw():
        with _lock:
            losers = list(_live)
        for loser in losers:
            loser._tell(_GIVEN_AWAY)


def _guard_starters() -> None:
    """While reporters are out, torch's profilers start as if there were none."""
    if _guarded:
        return
    for module_name, name in _STARTERS:
        module = sys.modules.get(module_name)
        original = getattr(module, name, None)
        if module is None or original is None:
            continue
        ours = _giving_away(original)
        # Noted first: an interrupt in between leaves nothing that nobody takes back.
        _guarded.append((module, name, original, ours))
        setattr(module, name, ours)


def _giving_away(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    def enable(*arguments: Any, **keywords: Any) -> Any:
        _given_away()
        return start(*arguments, **keywords)

    return enable


def _unguard_starters() -> None:
    for module, name, original, ours in _guarded:
        if getattr(module, name, None) is ours:  # else somebody put another there since
            setattr(module, name, original)
    _guarded.clear()
