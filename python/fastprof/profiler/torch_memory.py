# SPDX-License-Identifier: Apache-2.0
"""torch's allocations in a profile: our memory reporter on the threads, beside torch.profiler's."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fastprof import _core
from fastprof.profiler.torch_debug_info import prepare_debug_info

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
_prepared: str | None = None  # why it cannot be had, empty when it can; None: not tried
_guarded: list[tuple[ModuleType, str, Any, Any]] = []  # module, name, original, ours


class TorchMemory:
    """Allocations are recorded from begin() to stop(); the sessions that then run have them."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def begin(self, torch: Any) -> None:
        """Report from now on, this thread at once, or tell why not. Its ops are observed already."""
        global _prepared
        with _lock:
            if self in _live:
                return
            if _prepared is None:
                _prepared = prepare_debug_info(torch) or _wrong_about_known_tensor(torch)
            if _prepared:
                self._tell(f"torch's allocations are not recorded: {_prepared}")
                return
            mine = _core.torch_memory_start()
            _live.append(self)
            _guard_starters()
        if not mine:
            self._tell(_TAKEN)

    def refused(self) -> None:
        """The ops of this torch cannot be observed."""
        self._tell("torch's allocations are not recorded, because its ops cannot be")

    def stop(self) -> None:
        """No more is recorded on its behalf."""
        with _lock:
            if self not in _live:
                return
            _live.remove(self)
            if not _live:
                _unguard_starters()
            _core.torch_memory_stop()


def after_fork_in_child() -> None:
    """No thread reports in a forked child until a profile starts there."""
    global _lock
    _lock = threading.RLock()
    _live.clear()
    _unguard_starters()
    _core.torch_memory_after_fork_in_child()


def _wrong_about_known_tensor(torch: Any) -> str:
    """Empty when an allocation of known size is reported as such, else what is wrong."""
    found: list[str] = []

    def run() -> None:
        size_bytes = 4096 + 64
        session = _core.Session(categories=_core_memory(), thread_local_only=True)
        session.start()
        _core.torch_memory_start()
        try:
            torch.empty(size_bytes, dtype=torch.uint8, device="cpu")
        finally:
            _core.torch_memory_stop()
            capture = session.stop({})
        columns = capture.columns()
        words = capture.payload_words()
        sizes = [int(words[int(at) + 1].astype("int64")) for at in columns["payload"]]
        if sizes != [size_bytes, -size_bytes]:
            found.append(f"a tensor of {size_bytes} bytes was seen as {sizes}")

    def run_guarded() -> None:
        try:
            run()
        except Exception as failure:
            found.append(f"a known tensor could not be made: {failure!r}")

    # On a thread of its own: what lies in this one's slots is not met there.
    thread = threading.Thread(target=run_guarded, name="fastprof torch self-test", daemon=True)
    thread.start()
    thread.join()
    return found[0] if found else ""


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
        setattr(module, name, ours)
        _guarded.append((module, name, original, ours))


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
