# SPDX-License-Identifier: Apache-2.0
"""TorchImport: reports when `import torch` has finished and its import lock is released."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from fastprof import _core
from fastprof.adapters.import_watch import forget_import, watch_import
from fastprof.adapters.torch.proof import BOOTSTRAP

__all__ = ["TorchImport"]


class TorchImport:
    """Watches for `import torch`.

    imported(torch, last): called on the importing thread once it has released torch's import lock and
    before any other code of the program runs. Returns whether it completed its work. If it did not,
    and a module of torch is being imported around this import (`import torch.fx` imports torch first),
    it is called again when that import has finished. last: there will be no further call. If the
    release cannot be observed (a profile function of others was set, or the module was executed without an
    import), it is called once, while the lock is held.
    """

    def __init__(self, imported: Callable[[ModuleType, bool], bool]) -> None:
        self._imported = imported
        self._watching = False

    def watch(self) -> None:
        """Report the next import of torch, which must not be loaded. No effect if already watching."""
        if not self._watching:
            self._watching = True
            watch_import("torch", self._executed)

    def stop(self) -> None:
        """Stop reporting. No effect if not watching."""
        self._watching = False
        forget_import("torch", self._executed)

    def _executed(self) -> None:
        """Handle the end of the module's execution; the importing thread still holds its import lock."""
        module = sys.modules.get("torch")
        if module is None:
            return
        frame = _import_of_torch(sys._getframe(1))
        if frame is None or not _AtReturn(self._report, module).await_return(frame):
            self._report(module, True)

    def _report(self, module: ModuleType, last: bool) -> bool:
        if not self._watching or sys.modules.get("torch") is not module:
            return True
        try:
            return self._imported(module, last)
        except Exception as failure:  # a profile must not make the program's import fail
            _warn(f"profile: torch ops are not recorded: {failure!r}")
            return True


class _AtReturn:
    """Reports when the import's frame returns, from the importing thread's profile function.

    importlib's `_find_and_load` holds the module's import lock: when it returns, the lock is released
    and no other code of the program has run since the import.
    """

    def __init__(self, report: Callable[[ModuleType, bool], bool], module: ModuleType) -> None:
        self._frame: FrameType | None = None
        self._report = report
        self._module = module

    def await_return(self, frame: FrameType) -> bool:
        """Report when `frame`, of this thread, returns; False if another profile function is set."""
        self._frame = frame
        if _core.call_at_return(frame.f_code, self._returned):
            return True
        if sys.getprofile() is not None:
            return False
        sys.setprofile(self)
        return True

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "return" and frame is self._frame:
            sys.setprofile(None)
            self._returned()

    def _returned(self) -> None:
        assert self._frame is not None
        outer = _import_of_torch(self._frame.f_back)
        self._frame = None
        if outer is not None and not str(outer.f_locals.get("name")).startswith("torch."):
            outer = None  # it may take long, and a profile function slows it down
        done = self._report(self._module, outer is None)
        if not done and outer is not None and not self.await_return(outer):
            self._report(self._module, True)


def _import_of_torch(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of importlib around `frame` that holds an import lock; None without."""
    while frame is not None:
        if frame.f_code.co_filename != BOOTSTRAP:
            frame = frame.f_back  # a loader that wraps _ReportingLoader
        elif frame.f_code.co_name == "_find_and_load":
            return frame
        else:
            frame = frame.f_back
    return None


def _warn(text: str) -> None:
    try:
        warnings.warn(text, stacklevel=2)
    except Warning as warning:  # the program turns warnings into errors
        print(f"fastprof: {warning}", file=sys.stderr)
