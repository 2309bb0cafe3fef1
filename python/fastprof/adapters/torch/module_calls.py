# SPDX-License-Identifier: Apache-2.0
"""Name calls of torch.nn.Module objects by their modules if torch is imported while Python calls are traced."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from fastprof import _core
from fastprof.adapters.torch.proof import Trial

__all__ = ["ModuleCalls"]


class ModuleCalls:
    """Makes the tracer of Python calls look torch.nn.Module up once torch is imported. The tracer ends by itself."""

    trials: Sequence[Trial] = ()

    def begin(self, torch: ModuleType) -> None:
        """Look torch.nn.Module up; no effect unless calls are being traced."""
        _core.look_for_modules()

    def refused(self) -> None:
        """Do the same as begin(): calls are traced even if ops of this torch cannot be observed."""
        _core.look_for_modules()

    def stop(self) -> None:
        """Do nothing."""
