# SPDX-License-Identifier: Apache-2.0
"""Record modules (with_modules): calls of eager modules, and the module (eager, TorchScript) of each op."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from fastprof import _core
from fastprof.adapters.torch.proof import Trial

__all__ = ["TorchModules"]


class TorchModules:
    """Records modules from begin() to stop(), for sessions that may start and stop in between. Any thread."""

    trials: Sequence[Trial] = ()

    def __init__(self, report_missing: Callable[[str], None]) -> None:
        self._report_missing = report_missing
        self._ops = _core.TorchModulesHold()
        self._calls = _core.ModuleCallsHold()

    def begin(self, torch: ModuleType) -> None:
        """Begin; the ops of torch are observed from now on."""
        reason = self._ops.begin()
        if reason:
            self._report_missing(f"the TorchScript modules of ops are not recorded: {reason}")
        self._begin_calls(torch)

    def refused(self) -> None:
        """Begin with the calls of modules alone: ops of this torch cannot be observed."""
        torch = sys.modules.get("torch")
        if torch is not None:
            self._begin_calls(torch)

    def _begin_calls(self, torch: ModuleType) -> None:
        if not self._calls.begin(vars(torch.nn.Module).get("__call__")):
            self._report_missing(
                "calls of torch.nn.Module objects are not recorded: another package replaced"
                " torch.nn.Module.__call__ by something that is not a plain function. Import it after"
                " the profile, or use with_stack=True"
            )

    def stop(self) -> None:
        """End; ops that begin later have no modules, and calls of modules are not recorded."""
        self._calls.end()
        self._ops.end()
