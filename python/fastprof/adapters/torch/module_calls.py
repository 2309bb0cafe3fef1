# SPDX-License-Identifier: Apache-2.0
"""Show calls of eager modules as the modules, where torch is imported while calls are traced."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from fastprof import _core
from fastprof.adapters.torch.proof import Trial

__all__ = ["ModuleCalls"]


class ModuleCalls:
    """Tells the tracer of Python calls about torch when it has been imported; the tracer ends by itself."""

    trials: Sequence[Trial] = ()

    def begin(self, torch: ModuleType) -> None:
        """Look for torch.nn.Module; no effect unless calls are traced already."""
        _core.look_for_modules()

    def refused(self) -> None:
        """Look for it, although ops of this torch cannot be observed."""
        _core.look_for_modules()

    def stop(self) -> None:
        """Do nothing."""
