# SPDX-License-Identifier: Apache-2.0
"""emit_nvtx and emit_itt: send ranges and torch ops to the NVTX or ITT tool under which the program runs."""

from __future__ import annotations

import os
import sys
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from fastprof.base import errors
from fastprof.record.injection import ITT_VARIABLE, NVTX_VARIABLE, is_injection_library

if TYPE_CHECKING:
    from fastprof import _core
    from fastprof.adapters.torch.emission import OpEmission

__all__ = ["emit_itt", "emit_nvtx"]


class _Emitter:
    kind: ClassVar[str]
    variable: ClassVar[str]  # of the environment, that names the tool

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False
        self._ranges: _core.RangeEmission | None = None
        self._ops: OpEmission | None = None

    def __enter__(self) -> _Emitter | None:
        if not self.enabled:
            return None
        if self.entered:
            raise errors.StateError(
                f"{type(self).__name__} is not reentrant. Make a new object for each block."
            )
        self.entered = True
        # Imported here, so that `fastprof.emit_nvtx` can be named without loading the native module.
        from fastprof import _core
        from fastprof.adapters.torch.emission import OpEmission

        ranges = _core.RangeEmission(self.kind)
        problem = _own_tool(self.variable) or ranges.begin(self.record_shapes)
        if problem:
            warnings.warn(
                f"{type(self).__name__} emits nothing: {problem}", UserWarning, stacklevel=2
            )
            return self
        self._ranges = ranges
        self._ops = OpEmission(ranges, self.record_shapes, self._warn)
        self._ops.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._ops is not None:
            self._ops.stop()
        if self._ranges is not None:
            self._ranges.end()

    def _warn(self, reason: str) -> None:
        warnings.warn(f"{type(self).__name__}: {reason}", UserWarning, stacklevel=3)


class emit_nvtx(_Emitter):  # noqa: N801 - the field's name
    """Context manager that emits every range and every torch op as an NVTX range, for Nsight Systems.

    The text of an NVTX range is PyTorch's: name, sequence number, op id; with record_shapes, also the sizes of
    the inputs and the ids of the ops that made them. Emits the ranges of all threads (record_function,
    FASTPROF_RANGE in C++) and, once torch is imported, its ops. Without a tool, warns and does nothing.

    enabled: False makes it a no-op. record_shapes: add sizes and input op ids. If torch uses a CUDA device, waits
    for it at both ends of the block. Raises errors.StateError if it is entered twice, or while another emit_nvtx
    block is open. Any thread.

        with fastprof.emit_nvtx(record_shapes=True):  # nsys profile --trace=nvtx python train.py
            model(x)
    """

    kind, variable = "NVTX", NVTX_VARIABLE

    def __enter__(self) -> _Emitter | None:
        """Begin to emit."""
        if self.enabled and not self.entered:
            _synchronize()
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End; exceptions of the block propagate."""
        if self.enabled:
            _synchronize()
        super().__exit__(kind, error, traceback)


class emit_itt(_Emitter):  # noqa: N801
    """Context manager that emits every range and every torch op as an ITT task, for VTune.

    A task has the name of the range, without shapes, as in PyTorch; its domain is "fastprof". Parameters, threads
    and errors: see emit_nvtx.

        with fastprof.emit_itt():  # vtune -collect hotspots -- python train.py
            model(x)
    """

    kind, variable = "ITT", ITT_VARIABLE


def _own_tool(variable: str) -> str:
    """Return why nothing is emitted if the tool is fastprof, which has the ranges already; else ""."""
    tool = os.environ.get(variable, "")
    if not tool or not is_injection_library(tool):
        return ""
    return (
        f"{variable} names fastprof itself, whose profiles contain these ranges already. Run under another"
        " tool to see them there."
    )


def _synchronize() -> None:
    """Wait for the current CUDA device of torch, if torch uses one."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        cuda.synchronize()
