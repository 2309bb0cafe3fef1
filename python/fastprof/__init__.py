# SPDX-License-Identifier: Apache-2.0
"""fastprof: a standalone profiler for Python and C++ programs.

Importing this package is cheap: neither NumPy nor the native part is loaded until a name that needs it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastprof._version import __version__

if TYPE_CHECKING:  # what type checkers and editors see; keep in step with _LAZY
    from fastprof import errors, itt, profiler_legacy
    from fastprof.activities import ProfilerActivity, kineto_available, supported_activities
    from fastprof.device_type import DeviceType
    from fastprof.emitters import ExecutionTraceObserver, emit_itt, emit_nvtx
    from fastprof.experimental_config import _ExperimentalConfig
    from fastprof.exporters.native_file import save
    from fastprof.flops import FlopEstimate, estimate_flops
    from fastprof.importers import load
    from fastprof.instants import InstantEvent
    from fastprof.memory_attribution import attribute_memory
    from fastprof.nvprof import EnforceUnique, load_nvprof, parse_nvprof_trace
    from fastprof.profiler import _KinetoProfile, profile, tensorboard_trace_handler
    from fastprof.profiler_legacy import (
        add_remote_events,
        default_node_id,
        set_default_node_id,
    )
    from fastprof.propagation import propagate
    from fastprof.ranges import (
        _RecordFunctionFast,
        counter,
        flow,
        flow_begin,
        flow_end,
        mark,
        record_function,
        report_memory_usage,
        report_out_of_memory,
        set_thread_name,
    )
    from fastprof.record_scope import RecordScope
    from fastprof.records import LegacyRecord, parse_records
    from fastprof.sites import Site, SiteTable, Track, TrackTable
    from fastprof.step_schedule import ProfilerAction, schedule
    from fastprof.step_tracker import KinetoStepTracker
    from fastprof.table import CodedColumn, EventFlag, EventKind, EventTable, KernelTable
    from fastprof.tree import EventTree
    from fastprof.views import (
        EventList,
        EventMetadata,
        EventViewError,
        FormattedTimesMixin,
        FunctionEvent,
        FunctionEventAvg,
        Interval,
        Kernel,
        MemRecordsAcc,
        StringTable,
    )

# Exported name -> module that defines it, imported when the name is first used; "": it is a module itself.
_LAZY: dict[str, str] = {
    "ProfilerAction": "fastprof.step_schedule",
    "schedule": "fastprof.step_schedule",
    "ProfilerActivity": "fastprof.activities",
    "supported_activities": "fastprof.activities",
    "kineto_available": "fastprof.activities",
    "profile": "fastprof.profiler",
    "tensorboard_trace_handler": "fastprof.profiler",
    "record_function": "fastprof.ranges",
    "_RecordFunctionFast": "fastprof.ranges",
    "_KinetoProfile": "fastprof.profiler",
    "_ExperimentalConfig": "fastprof.experimental_config",
    "ExecutionTraceObserver": "fastprof.emitters",
    "emit_itt": "fastprof.emitters",
    "emit_nvtx": "fastprof.emitters",
    "EnforceUnique": "fastprof.nvprof",
    "load_nvprof": "fastprof.nvprof",
    "parse_nvprof_trace": "fastprof.nvprof",
    "KinetoStepTracker": "fastprof.step_tracker",
    "RecordScope": "fastprof.record_scope",
    "errors": "",
    "itt": "",
    "profiler_legacy": "",
    "default_node_id": "fastprof.profiler_legacy",
    "set_default_node_id": "fastprof.profiler_legacy",
    "add_remote_events": "fastprof.profiler_legacy",
    "mark": "fastprof.ranges",
    "counter": "fastprof.ranges",
    "flow": "fastprof.ranges",
    "flow_begin": "fastprof.ranges",
    "flow_end": "fastprof.ranges",
    "report_memory_usage": "fastprof.ranges",
    "report_out_of_memory": "fastprof.ranges",
    "set_thread_name": "fastprof.ranges",
    "propagate": "fastprof.propagation",
    "DeviceType": "fastprof.device_type",
    "FlopEstimate": "fastprof.flops",
    "estimate_flops": "fastprof.flops",
    "load": "fastprof.importers",
    "save": "fastprof.exporters.native_file",
    "attribute_memory": "fastprof.memory_attribution",
    "LegacyRecord": "fastprof.records",
    "parse_records": "fastprof.records",
    "Site": "fastprof.sites",
    "SiteTable": "fastprof.sites",
    "Track": "fastprof.sites",
    "TrackTable": "fastprof.sites",
    "CodedColumn": "fastprof.table",
    "EventFlag": "fastprof.table",
    "EventKind": "fastprof.table",
    "InstantEvent": "fastprof.instants",
    "EventTable": "fastprof.table",
    "KernelTable": "fastprof.table",
    "EventTree": "fastprof.tree",
    "EventList": "fastprof.views",
    "EventMetadata": "fastprof.views",
    "EventViewError": "fastprof.views",
    "FormattedTimesMixin": "fastprof.views",
    "StringTable": "fastprof.views",
    "FunctionEvent": "fastprof.views",
    "FunctionEventAvg": "fastprof.views",
    "Interval": "fastprof.views",
    "Kernel": "fastprof.views",
    "MemRecordsAcc": "fastprof.views",
}

# Every key of _LAZY; a test compares.
__all__ = [
    "ProfilerAction",
    "schedule",
    "ProfilerActivity",
    "supported_activities",
    "kineto_available",
    "profile",
    "tensorboard_trace_handler",
    "record_function",
    "mark",
    "counter",
    "flow",
    "flow_begin",
    "flow_end",
    "report_memory_usage",
    "report_out_of_memory",
    "set_thread_name",
    "propagate",
    "_RecordFunctionFast",
    "_KinetoProfile",
    "_ExperimentalConfig",
    "ExecutionTraceObserver",
    "emit_itt",
    "emit_nvtx",
    "EnforceUnique",
    "load_nvprof",
    "parse_nvprof_trace",
    "KinetoStepTracker",
    "RecordScope",
    "errors",
    "itt",
    "profiler_legacy",
    "default_node_id",
    "set_default_node_id",
    "add_remote_events",
    "CodedColumn",
    "DeviceType",
    "EventFlag",
    "EventKind",
    "EventList",
    "EventMetadata",
    "EventTable",
    "EventTree",
    "EventViewError",
    "FlopEstimate",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "InstantEvent",
    "Interval",
    "Kernel",
    "KernelTable",
    "LegacyRecord",
    "MemRecordsAcc",
    "Site",
    "SiteTable",
    "StringTable",
    "Track",
    "TrackTable",
    "__version__",
    "attribute_memory",
    "estimate_flops",
    "load",
    "save",
    "parse_records",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'fastprof' has no attribute {name!r}")
    value = getattr(import_module(module), name) if module else import_module(f"fastprof.{name}")
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    # What users call; modules and PyTorch's private names can be named all the same.
    return sorted(["__version__", *(name for name in __all__ if not name.startswith("_"))])
