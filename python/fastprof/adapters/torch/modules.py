# SPDX-License-Identifier: Apache-2.0
"""Record the TorchScript modules that ops run in (with_modules), as torch.profiler does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from fastprof import _core
from fastprof.adapters.torch.proof import Trial

__all__ = ["TorchModules"]


class TorchModules:
    """Records the modules of ops from begin() to stop(). libtorch does not know eager modules."""

    trials: Sequence[Trial] = ()

    def __init__(self, report_missing: Callable[[str], None]) -> None:
        self._report_missing = report_missing
        self._hold = _core.TorchModulesHold()

    def begin(self, torch: ModuleType) -> None:
        """Begin; the ops of torch are observed from now on."""
        reason = self._hold.begin()
        if reason:
            self._report_missing(f"the modules of ops are not recorded: {reason}")

    def refused(self) -> None:
        """Do nothing: it is already reported that ops cannot be observed."""

    def stop(self) -> None:
        """End; ops that begin later have no modules."""
        self._hold.end()
