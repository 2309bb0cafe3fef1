# SPDX-License-Identifier: Apache-2.0
"""Profiles of one thread follow the work that it gives to libtorch's threads, as torch.profiler's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from fastprof import _core
from fastprof.adapters.torch.debug_info import prepare_debug_info
from fastprof.adapters.torch.proof import Trial, reason_against

__all__ = ["TorchThreads"]


class TorchThreads:
    """From when torch is there and the session runs, until stop(). For profiles of one thread."""

    trials: Sequence[Trial] = (("debug info", prepare_debug_info),)

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._torch: ModuleType | None = None
        self._session_runs = False
        self._travel = _core.TorchTravelHold()

    def begin(self, torch: ModuleType) -> None:
        """The ops of torch are observed from now on."""
        self._torch = torch
        self._start()

    def refused(self) -> None:
        """Its ops cannot be observed: there is nothing to follow."""

    def session_started(self) -> None:
        """The session runs, on this thread."""
        self._session_runs = True
        self._start()

    def _start(self) -> None:
        if self._torch is None or not self._session_runs:
            return
        reason = reason_against(self._torch, "debug info")
        if reason is None:
            return
        if not reason and not self._travel.begin():
            reason = "torch was imported on another thread than the one that started the profile"
        if reason:
            self._tell(f"the profile does not follow work into libtorch's threads: {reason}")

    def stop(self) -> None:
        """Work that is given away from now on is none of the session's."""
        self._torch = None
        self._session_runs = False
        self._travel.end()
