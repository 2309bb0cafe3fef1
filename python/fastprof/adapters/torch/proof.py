# SPDX-License-Identifier: Apache-2.0
"""Proofs that a loaded torch is laid out as expected: run once per process, on a thread of their own.

A proof runs torch's ops, so it may import modules of torch. Nobody waits for it while that could be a
deadlock: see Proof.wait().
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType
from typing import TypeAlias

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

# The frames of a running import: co_filename of importlib._bootstrap, which is frozen.
BOOTSTRAP = "<frozen importlib._bootstrap>"

# What is proven, and the function that does it: an empty text if it holds, else the reason.
Trial: TypeAlias = tuple[str, Callable[[ModuleType], str]]

_POLL_S = 0.01
# How long a caller waits for a proof that is blocked by an import on another thread.
_BLOCKED_LIMIT_S = 10.0
# The same if the caller is importing itself: it may be what the proof waits for.
_BLOCKED_BY_CALLER_S = 0.05

_reasons: dict[tuple[str, str], str] = {}  # (torch's version, trial) -> "" if it holds
_one_at_a_time = threading.Lock()
_runner = 0  # the thread that holds it


def reason_against(torch: ModuleType, name: str) -> str | None:
    """Why a trial failed, empty if it succeeded, None if it was not run yet."""
    return _reasons.get((version_of(torch), name))


def is_being_imported(torch: ModuleType) -> bool:
    """Whether `import torch` has not finished; another thread may be running it."""
    return bool(getattr(getattr(torch, "__spec__", None), "_initializing", False))


def begin_proof(torch: ModuleType, trials: Sequence[Trial]) -> Proof | None:
    """Start to run the trials that were not run yet; None if there are none.

    If torch is being imported, the proof begins when that import has finished. Any thread.
    """
    version = version_of(torch)
    if all((version, name) in _reasons for name, _ in trials):
        return None
    proof = Proof(torch, version, trials)
    proof.start()
    return proof


def after_fork_in_child() -> None:
    """The threads that ran proofs are not in a forked child: what they had not finished is run anew."""
    global _one_at_a_time, _runner
    _one_at_a_time = threading.Lock()
    _runner = 0


class Proof:
    """A thread that runs trials. Modes of the calling thread (inference, default device) do not apply there."""

    def __init__(self, torch: ModuleType, version: str, trials: Sequence[Trial]) -> None:
        self._torch = torch
        self._version = version
        self._trials = tuple(trials)
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._afterwards: list[Callable[[], None]] = []
        self._thread = threading.Thread(
            target=self._run, name="fastprof torch self-test", daemon=True
        )

    def start(self) -> None:
        """Begin. Once."""
        self._thread.start()

    def wait(self) -> bool:
        """Wait until the trials were run; False if the calling thread must go on before they can be.

        The proof may need an import lock that the calling thread holds, or that a thread holds which
        waits for the calling thread. So the wait ends when the proof is blocked in an import:
        after 50 ms if the calling thread is importing something, else after 10 s. It does not wait
        at all while torch itself is being imported.
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
        """Call `function` on the proof's thread when it has finished; here and now if it has."""
        with self._lock:
            if not self._done.is_set():
                self._afterwards.append(function)
                return
        function()

    def _is_blocked(self) -> bool:
        """Whether the thread that runs trials waits for the import lock of a module.

        That may be another proof's, for which this one waits.
        """
        frame = sys._current_frames().get(_runner)
        return (
            frame is not None
            and frame.f_code.co_filename == BOOTSTRAP
            and frame.f_code.co_name in ("acquire", "_lock_unlock_module")
        )

    def _run(self) -> None:
        global _runner
        while is_being_imported(self._torch):
            time.sleep(_POLL_S)
        try:
            with _one_at_a_time:
                _runner = threading.get_ident()
                if sys.modules.get("torch") is not self._torch:
                    return  # its import has failed
                for name, trial in self._trials:
                    key = (self._version, name)
                    if key not in _reasons:
                        _reasons[key] = self._reason(trial)
                    if _reasons[key] and name == "ops":
                        break  # the others need it
        finally:
            with self._lock:
                self._done.set()
                afterwards, self._afterwards = self._afterwards, []
            for function in afterwards:
                function()

    def _reason(self, trial: Callable[[ModuleType], str]) -> str:
        try:
            with observer_hidden():  # what trials run is not the program's
                return trial(self._torch)
        except Exception as failure:
            return f"its self-test could not be run: {failure!r}"


def _importing(frame: FrameType | None) -> bool:
    """Whether an import is in progress in `frame` or the frames that called it."""
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and frame.f_code.co_filename == BOOTSTRAP:
            return True
        frame = frame.f_back
    return False
