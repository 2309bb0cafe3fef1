# SPDX-License-Identifier: Apache-2.0
"""Names that exist for PyTorch's sake: parts of torch.profiler and torch.autograd.profiler that few programs name.

`fastprof` has them, too, so that a script only changes its import; dir(fastprof) leaves them out. The folder implements
the legacy (exclusive) profiler, execution traces and functions for nvprof's databases.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastprof import (
        DeviceType,
        EnforceUnique,
        EventMetadata,
        EventViewError,
        ExecutionTraceObserver,
        FormattedTimesMixin,
        Interval,
        Kernel,
        KinetoStepTracker,
        LegacyRecord,
        MemRecordsAcc,
        RecordScope,
        StringTable,
        _ExperimentalConfig,
        _KinetoProfile,
        _RecordFunctionFast,
        add_remote_events,
        default_node_id,
        kineto_available,
        load_nvprof,
        parse_nvprof_trace,
        parse_records,
        set_default_node_id,
    )

__all__ = [
    "add_remote_events",
    "default_node_id",
    "DeviceType",
    "EnforceUnique",
    "EventMetadata",
    "EventViewError",
    "ExecutionTraceObserver",
    "_ExperimentalConfig",
    "FormattedTimesMixin",
    "Interval",
    "Kernel",
    "kineto_available",
    "_KinetoProfile",
    "KinetoStepTracker",
    "LegacyRecord",
    "load_nvprof",
    "MemRecordsAcc",
    "parse_nvprof_trace",
    "parse_records",
    "_RecordFunctionFast",
    "RecordScope",
    "set_default_node_id",
    "StringTable",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fastprof.compat' has no attribute {name!r}")
    return getattr(import_module("fastprof"), name)
