# SPDX-License-Identifier: Apache-2.0
"""The TorchScript modules that ops run in (with_modules), as torch.profiler tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from fastprof import _core
from fastprof.adapters.torch.proof import Trial

__all__ = ["TorchModules"]


class TorchModules:
    """Ops have their modules from begin() to stop(). Modules of eager mode are not known to libtorch."""

    trials: Sequence[Trial] = ()

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._hold = _core.TorchModulesHold()

    def begin(self, torch: ModuleType) -> None:
        """The ops of torch are observed from now on."""
        reason = self._hold.begin()
        if reason:
            self._tell(f"the modules of ops are not recorded: {reason}")

    def refused(self) -> None:
        """Its ops cannot be observed, which is told already."""

    def stop(self) -> None:
        """Ops that begin from now on have none."""
        self._hold.end()
