# SPDX-License-Identifier: Apache-2.0
"""PyTorch's classes that emit ranges to other tools; this build does not emit any.

They can be imported, constructed and passed around; using one raises an error that says what to do instead.
"""

from __future__ import annotations

from typing import ClassVar

from fastprof.base import errors

__all__ = ["emit_itt", "emit_nvtx"]


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
