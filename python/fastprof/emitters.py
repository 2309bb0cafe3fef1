# SPDX-License-Identifier: Apache-2.0
"""PyTorch's names for handing ranges to other tools while a program runs, which this build does not do.

They can be named, made and passed around; using one says what to do instead.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from fastprof import errors

__all__ = ["ExecutionTraceObserver", "emit_itt", "emit_nvtx"]


class _Emitter:
    tool: ClassVar[str]

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> _Emitter | None:
        if not self.enabled:
            return None
        raise errors.UnavailableError(
            f"this build of fastprof emits no ranges for {self.tool}: use fastprof.profile() and "
            f"export_chrome_trace(), or torch.autograd.profiler.{type(self).__name__} where torch is"
        )

    def __exit__(self, *error: object) -> None:
        return None


class emit_nvtx(_Emitter):  # noqa: N801 - the field's name
    """Ranges for Nsight: errors.UnavailableError when entered, unless enabled=False."""

    tool = "NVTX"


class emit_itt(_Emitter):  # noqa: N801
    """Ranges for VTune: errors.UnavailableError when entered, unless enabled=False."""

    tool = "ITT"


class ExecutionTraceObserver:
    """PyTorch's writer of execution traces: errors.UnavailableError when a file is asked for.

    torch.profiler.ExecutionTraceObserver itself may be given to profile(): it is started and
    stopped with the recording.
    """

    is_registered = False
    is_running = False

    def register_callback(self, output_file_path: str | os.PathLike[str]) -> ExecutionTraceObserver:
        """Raises."""
        raise errors.UnavailableError(
            "this build of fastprof writes no execution traces: give profile() a "
            "torch.profiler.ExecutionTraceObserver, or write a trace with export_chrome_trace()"
        )

    def unregister_callback(self) -> None:
        """Nothing is registered."""

    def cleanup(self) -> None:
        """Nothing is registered."""

    def start(self) -> None:
        """Nothing is registered."""

    def stop(self) -> None:
        """Nothing is registered."""

    def get_output_file_path(self) -> None:
        """No file."""
        return

    def set_extra_resource_collection(self, value: Any) -> None:
        """Nothing is collected."""

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """None, unless ENABLE_PYTORCH_EXECUTION_TRACE asks for a trace: errors.UnavailableError."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        return ExecutionTraceObserver().register_callback("")
