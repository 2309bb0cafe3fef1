# SPDX-License-Identifier: Apache-2.0
"""Self-tests ("proofs") that a loaded torch is laid out as expected: once per process, on their own thread.

A proof runs torch's ops, so it may import modules of torch. A caller does not wait for it if that could
deadlock: see Proof.wait().
"""

from __future__ import annotations

import _thread
import atexit
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType
from typing import TypeAlias

from fastprof import _core
from fastprof.adapters.torch.tracers import observer_hidden
from fastprof.adapters.torch.versions import version_of

__all__ = [
    "BOOTSTRAP",
    "Proof",
    "Trial",
    "after_fork_in_child",
    "begin_proof",
    "is_being_imported",
    "reason_against",
]

# co_filename of the frames of a running import: importlib._bootstrap is frozen.
BOOTSTRAP = "<frozen importlib._bootstrap>"

# Name of what is proven, and the function that proves it: returns "" if it holds, else the reason.
Trial: TypeAlias = tuple[str, Callable[[ModuleType], str]]

_POLL_S = 0.01
# How long a caller waits for a proof that is blocked by an import on another thread.
_BLOCKED_LIMIT_S = 10.0
# The same if the caller is in an import itself, which the proof may be waiting for.
_BLOCKED_BY_CALLER_S = 0.05
# How long the interpreter's exit waits for a proof that nobody has waited for.
_EXIT_LIMIT_S = 20.0

_reasons: dict[tuple[str, str], str] = {}  # (torch's version, trial) -> "" if it holds
_one_at_a_time = threading.Lock()
_runner = 0  # id of the thread that holds _one_at_a_time


def reason_against(torch: ModuleType, name: str) -> str | None:
    """Return why a trial failed; "" if it succeeded, None if it has not run yet."""
    return _reasons.get((version_of(torch), name))


def is_being_imported(torch: ModuleType) -> bool:
    """Return whether `import torch` is still in progress, on any thread."""
    return bool(getattr(getattr(torch, "__spec__", None), "_initializing", False))


def begin_proof(torch: ModuleType, trials: Sequence[Trial]) -> Proof | None:
    """Start the trials that have not run yet; return None if there are none.

    If torch is being imported, the proof begins when that import has finished. Any thread.
    """
    version = version_of(torch)
    if all((version, name) in _reasons for name, _ in trials):
        return None
    proof = Proof(torch, version, trials)
    proof.start()
    return proof


def after_fork_in_child() -> None:
    """Reset in a forked child, which lacks the proof threads: unfinished trials will run again."""
    global _one_at_a_time, _runner
    _one_at_a_time = threading.Lock()
    _runner = 0


class Proof:
    """A thread that runs trials, unaffected by modes of the calling thread (inference, default device)."""

    def __init__(self, torch: ModuleType, version: str, trials: Sequence[Trial]) -> None:
        self._torch = torch
        self._version = version
        self._trials = tuple(trials)
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._afterwards: list[Callable[[], None]] = []

    def start(self) -> None:
        """Start the thread, which threading does not list. Call once."""
        # libtorch's own threads end the process if one of its ops runs while the interpreter exits.
        atexit.register(self._done.wait, _EXIT_LIMIT_S)
        # Not a threading.Thread: a profile of calls would record the frames of its start.
        _thread.start_new_thread(self._run, ())

    def wait(self) -> bool:
        """Wait until the trials have run; return False if the calling thread must continue before that.

        The proof may need an import lock held by the calling thread, or by a thread that waits for the
        calling thread. So the wait ends if the proof is blocked in an import: after 50 ms if the
        calling thread is in an import, else after 10 s. While torch itself is being imported, it
        returns at once.
        """
        limit_s = _BLOCKED_BY_CALLER_S if _importing(sys._getframe()) else _BLOCKED_LIMIT_S
        blocked_since_s: float | None = None
        while not self._done.wait(_POLL_S):
            if is_being_imported(self._torch):
                return False
            if not self._is_blocked():
                blocked_since_s = None
            elif blocked_since_s is None:
                blocked_since_s = time.monotonic()
            elif time.monotonic() - blocked_since_s > limit_s:
                return False
        return True

    def call_afterwards(self, function: Callable[[], None]) -> None:
        """Call `function` on the proof's thread when it finishes; immediately if it has finished."""
        with self._lock:
            if not self._done.is_set():
                self._afterwards.append(function)
                return
        function()

    def _is_blocked(self) -> bool:
        """Return whether the thread that runs trials is waiting for a module's import lock.

        That thread may belong to another proof, for which this one waits.
        """
        frame = sys._current_frames().get(_runner)
        return (
            frame is not None
            and frame.f_code.co_filename == BOOTSTRAP
            and frame.f_code.co_name in ("acquire", "_lock_unlock_module")
        )

    def _run(self) -> None:
        global _runner
        try:
            _core.hide_calls_of_thread()
            _core.torch_memory_hide_thread()
            while is_being_imported(self._torch):
                time.sleep(_POLL_S)
            with _one_at_a_time:
                _runner = threading.get_ident()
                if sys.modules.get("torch") is not self._torch:
                    return  # the import has failed
                for name, trial in self._trials:
                    key = (self._version, name)
                    if key not in _reasons:
                        _reasons[key] = self._reason(trial)
                    if _reasons[key] and name == "ops":
                        break  # the other trials require it
        finally:
            with self._lock:
                self._done.set()
                atexit.unregister(self._done.wait)
                afterwards, self._afterwards = self._afterwards, []
            for function in afterwards:
                function()

    def _reason(self, trial: Callable[[ModuleType], str]) -> str:
        try:
            with observer_hidden():  # a program's profile must not see the trial's ops
                return trial(self._torch)
        except Exception as failure:
            return f"the self-test raised {failure!r}"


def _importing(frame: FrameType | None) -> bool:
    """Return whether `frame` or one of its callers is running an import."""
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and frame.f_code.co_filename == BOOTSTRAP:
            return True
        frame = frame.f_back
    return False
