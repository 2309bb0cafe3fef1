# SPDX-License-Identifier: Apache-2.0
"""The TorchScript modules that ops run in (with_modules), as torch.profiler tells them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from fastprof import _core

__all__ = ["TorchModules"]


class TorchModules:
    """Ops have their modules from begin() to stop(). Modules of eager mode are not known to libtorch."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._started = False

    def begin(self, torch: ModuleType) -> None:
        """The ops of torch are observed from now on."""
        if self._started:
            return
        reason = _core.torch_modules_start()
        self._started = not reason
        if reason:
            self._tell(f"the modules of ops are not recorded: {reason}")

    def refused(self) -> None:
        """Its ops cannot be observed, which is told already."""

    def stop(self) -> None:
        """Ops that begin from now on have none."""
        if self._started:
            self._started = False
            _core.torch_modules_stop()
