# SPDX-License-Identifier: Apache-2.0
"""PyTorch's classes that emit ranges to other tools; this build does not emit any.

They can be imported, constructed and passed around; using one raises an error that says what to do instead.
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
            f"this build of fastprof cannot emit {self.tool} ranges. Use fastprof.profile() and "
            f"export_chrome_trace(), or torch.autograd.profiler.{type(self).__name__} if torch is installed."
        )

    def __exit__(self, *error: object) -> None:
        return None


class emit_nvtx(_Emitter):  # noqa: N801 - the field's name
    """Emitter for Nsight. Raises errors.UnavailableError when entered, unless enabled=False."""

    tool = "NVTX"


class emit_itt(_Emitter):  # noqa: N801
    """Emitter for VTune. Raises errors.UnavailableError when entered, unless enabled=False."""

    tool = "ITT"


class ExecutionTraceObserver:
    """PyTorch's writer of execution traces. Raises errors.UnavailableError when given a file.

    Pass torch.profiler.ExecutionTraceObserver itself to profile(): it is started and stopped with
    the recording, and its file, which contains the ranges of record_function, is completed at the
    end of the with block.
    """

    is_registered = False
    is_running = False

    def register_callback(self, output_file_path: str | os.PathLike[str]) -> ExecutionTraceObserver:
        """Raise errors.UnavailableError."""
        raise errors.UnavailableError(
            "this build of fastprof cannot write execution traces. Pass a "
            "torch.profiler.ExecutionTraceObserver to profile(), or use export_chrome_trace()."
        )

    def unregister_callback(self) -> None:
        """Do nothing."""

    def cleanup(self) -> None:
        """Do nothing."""

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def get_output_file_path(self) -> None:
        """Return None: there is no file."""
        return

    def set_extra_resource_collection(self, value: Any) -> None:
        """Do nothing."""

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """Return torch's observer if ENABLE_PYTORCH_EXECUTION_TRACE is "1", else None.

        It writes a file *.et.json in the folder for temporary files. errors.UnavailableError if torch is not imported.
        """
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        observer: ExecutionTraceObserver | None = observer_of_environment()
        return observer or ExecutionTraceObserver().register_callback("")


def observer_of_environment() -> Any:
    """Return the observer that torch's ExecutionTraceObserver builds from the environment, or None.

    Reads ENABLE_PYTORCH_EXECUTION_TRACE and ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS. None if torch is not imported,
    which this function does not do. Any thread.
    """
    if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
        return None
    profiler: Any = getattr(sys.modules.get("torch"), "profiler", None)
    theirs: Any = getattr(profiler, "ExecutionTraceObserver", None)
    build = getattr(theirs, "build_execution_trace_obs_from_env", None)
    return None if build is None else build()
