# SPDX-License-Identifier: Apache-2.0
"""fastprof.metal: signposts, statistics and captures of Metal work, with the functions of torch.mps.profiler.

Public path of record/metal.py. It can be imported anywhere; elsewhere than on macOS its functions raise
errors.UnavailableError with the reason.
"""

from __future__ import annotations

from fastprof.record.metal import (
    CopyStatistics,
    FallbackStatistics,
    LogOptions,
    MetalStatistics,
    OperationStatistics,
    emit_signposts,
    is_capturing_metal,
    is_metal_capture_enabled,
    log_options,
    metal_capture,
    profile,
    set_log_options,
    start,
    statistics,
    stop,
    tables,
)

__all__ = [
    "CopyStatistics",
    "FallbackStatistics",
    "LogOptions",
    "MetalStatistics",
    "OperationStatistics",
    "emit_signposts",
    "is_capturing_metal",
    "is_metal_capture_enabled",
    "log_options",
    "metal_capture",
    "profile",
    "set_log_options",
    "start",
    "statistics",
    "stop",
    "tables",
]
