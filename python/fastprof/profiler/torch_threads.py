# SPDX-License-Identifier: Apache-2.0
"""Profiles of one thread follow the work that it gives to libtorch's threads, as torch.profiler's do."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from fastprof import _core
from fastprof.profiler.torch_debug_info import prepare_debug_info

__all__ = ["TorchThreads"]


class TorchThreads:
    """From when torch is there and the session runs, until stop(). For profiles of one thread."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._torch: ModuleType | None = None
        self._session_runs = False
        self._travel = 0

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
        if self._torch is None or not self._session_runs or self._travel:
            return
        reason = prepare_debug_info(self._torch)
        if reason:
            self._tell(f"the profile does not follow work into libtorch's threads: {reason}")
        else:
            self._travel = _core.torch_travel_start()

    def stop(self) -> None:
        """Work that is given away from now on is none of the session's."""
        self._torch = None
        self._session_runs = False
        travel, self._travel = self._travel, 0
        if travel:
            _core.torch_travel_stop(travel)
