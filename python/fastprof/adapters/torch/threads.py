# SPDX-License-Identifier: Apache-2.0
"""Let a profile of one thread follow work into libtorch's threads, as torch.profiler does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from fastprof import _core
from fastprof.adapters.torch.debug_info import prepare_debug_info
from fastprof.adapters.torch.proof import Trial, reason_against
from fastprof.base.observer import Observer

__all__ = ["TorchThreads"]


class TorchThreads(Observer):
    """Propagates a thread-local session to libtorch's threads, once torch is loaded and the session runs."""

    trials: Sequence[Trial] = (("debug info", prepare_debug_info),)

    def __init__(self, report_missing: Callable[[str], None]) -> None:
        self._report_missing = report_missing
        self._torch: ModuleType | None = None
        self._session_runs = False
        self._propagation = _core.TorchPropagationHold()

    def begin(self, torch: ModuleType) -> None:
        """Begin if the session runs. The ops of torch are observed from now on."""
        self._torch = torch
        self._start()

    def refused(self) -> None:
        """Do nothing: without observed ops there is nothing to follow."""

    def start(self) -> list[str]:
        """Begin propagation if torch is loaded. Call on the thread of the session, after its start."""
        self._session_runs = True
        self._start()
        return []

    def _start(self) -> None:
        if self._torch is None or not self._session_runs:
            return
        reason = reason_against(self._torch, "debug info")
        if reason is None:
            return
        if not reason and not self._propagation.begin():
            reason = "torch was imported on a thread other than the one that started the profile"
        if reason:
            self._report_missing(
                f"work that libtorch runs on its own threads is not recorded: {reason}"
            )

    def stop(self) -> None:
        """End; work that libtorch hands to its threads later does not carry the session."""
        self._torch = None
        self._session_runs = False
        self._propagation.end()
