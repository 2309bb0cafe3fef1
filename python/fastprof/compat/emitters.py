# SPDX-License-Identifier: Apache-2.0
"""PyTorch's names for handing ranges to other tools while a program runs, which this build does not do.

They can be named, made and passed around; using one says what to do instead.
"""

from __future__ import annotations

import os
import sys
from typing import Any, ClassVar

from fastprof.base import errors

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
    stopped with the recording, and its file, which contains the ranges of record_function, is
    completed at the end of the with block.
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
        """Return torch's observer if ENABLE_PYTORCH_EXECUTION_TRACE is "1", else None.

        It writes a file for temporary files, named *.et.json. errors.UnavailableError if torch is not imported.
        """
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        observer: ExecutionTraceObserver | None = observer_of_environment()
        return observer or ExecutionTraceObserver().register_callback("")


def observer_of_environment() -> Any:
    """Return what torch's own ExecutionTraceObserver makes of the environment; None without torch.

    The variables are ENABLE_PYTORCH_EXECUTION_TRACE and ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS. torch is not imported
    for it. Any thread.
    """
    if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
        return None
    profiler: Any = getattr(sys.modules.get("torch"), "profiler", None)
    theirs: Any = getattr(profiler, "ExecutionTraceObserver", None)
    build = getattr(theirs, "build_execution_trace_obs_from_env", None)
    return None if build is None else build()
