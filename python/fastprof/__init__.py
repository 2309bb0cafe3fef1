# SPDX-License-Identifier: Apache-2.0
"""fastprof: a standalone profiler for Python and C++ programs, with the interface of torch.profiler.

    import fastprof

    with fastprof.profile() as prof:
        with fastprof.record_function("load data"):
            load()
    print(prof.key_averages().table(sort_by="self_cpu_time_total"))
    prof.export_chrome_trace("trace.json")  # open it at https://ui.perfetto.dev

Importing this package is cheap: NumPy and the native module are loaded when a name that needs them is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastprof._version import __version__

if TYPE_CHECKING:  # for type checkers and editors; must match _LAZY
    from fastprof import devices, errors, itt, metal, profiler_legacy
    from fastprof.analysis.flops import FlopEstimate, estimate_flops
    from fastprof.analysis.memory_attribution import attribute_memory
    from fastprof.base.device_type import DeviceType
    from fastprof.base.record_scope import RecordScope
    from fastprof.cli.notebook import load_ipython_extension, unload_ipython_extension
    from fastprof.compat.execution_trace import ExecutionTraceObserver
    from fastprof.compat.nvprof import EnforceUnique, load_nvprof, parse_nvprof_trace
    from fastprof.compat.profiler_legacy import (
        add_remote_events,
        default_node_id,
        set_default_node_id,
    )
    from fastprof.compat.records import LegacyRecord, parse_records
    from fastprof.exporters.native_file import save
    from fastprof.importers import load
    from fastprof.model.instants import InstantEvent
    from fastprof.model.sites import Site, SiteTable, Track, TrackTable
    from fastprof.model.table import CodedColumn, EventFlag, EventKind, EventTable, KernelTable
    from fastprof.model.tree import EventTree
    from fastprof.profiler import _KinetoProfile, profile, tensorboard_trace_handler
    from fastprof.profiler.experimental_config import _ExperimentalConfig
    from fastprof.profiler.recovery import recover
    from fastprof.profiler.step_schedule import ProfilerAction, schedule
    from fastprof.profiler.step_tracker import KinetoStepTracker
    from fastprof.record.activities import ProfilerActivity, kineto_available
    from fastprof.record.availability import supported_activities
    from fastprof.record.emitters import emit_itt, emit_nvtx
    from fastprof.record.injection import receive_itt, receive_nvtx
    from fastprof.record.propagation import propagate
    from fastprof.record.python_calls import CallFilter
    from fastprof.record.ranges import (
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

# Exported name -> module that defines it, imported on first use; "": the name is a submodule of fastprof.
_LAZY: dict[str, str] = {
    "ProfilerAction": "fastprof.profiler.step_schedule",
    "schedule": "fastprof.profiler.step_schedule",
    "ProfilerActivity": "fastprof.record.activities",
    "supported_activities": "fastprof.record.availability",
    "kineto_available": "fastprof.record.activities",
    "profile": "fastprof.profiler",
    "CallFilter": "fastprof.record.python_calls",
    "tensorboard_trace_handler": "fastprof.profiler",
    "record_function": "fastprof.record.ranges",
    "_RecordFunctionFast": "fastprof.record.ranges",
    "_KinetoProfile": "fastprof.profiler",
    "_ExperimentalConfig": "fastprof.profiler.experimental_config",
    "ExecutionTraceObserver": "fastprof.compat.execution_trace",
    "emit_itt": "fastprof.record.emitters",
    "emit_nvtx": "fastprof.record.emitters",
    "receive_itt": "fastprof.record.injection",
    "receive_nvtx": "fastprof.record.injection",
    "EnforceUnique": "fastprof.compat.nvprof",
    "load_nvprof": "fastprof.compat.nvprof",
    "load_nsys": "fastprof.importers.databases",
    "parse_nvprof_trace": "fastprof.compat.nvprof",
    "KinetoStepTracker": "fastprof.profiler.step_tracker",
    "RecordScope": "fastprof.base.record_scope",
    "devices": "",
    "errors": "",
    "itt": "",
    "metal": "",
    "profiler_legacy": "",
    "default_node_id": "fastprof.compat.profiler_legacy",
    "set_default_node_id": "fastprof.compat.profiler_legacy",
    "add_remote_events": "fastprof.compat.profiler_legacy",
    "mark": "fastprof.record.ranges",
    "counter": "fastprof.record.ranges",
    "flow": "fastprof.record.ranges",
    "flow_begin": "fastprof.record.ranges",
    "flow_end": "fastprof.record.ranges",
    "report_memory_usage": "fastprof.record.ranges",
    "report_out_of_memory": "fastprof.record.ranges",
    "set_thread_name": "fastprof.record.ranges",
    "propagate": "fastprof.record.propagation",
    "DeviceType": "fastprof.base.device_type",
    "FlopEstimate": "fastprof.analysis.flops",
    "estimate_flops": "fastprof.analysis.flops",
    "load": "fastprof.importers",
    "save": "fastprof.exporters.native_file",
    "recover": "fastprof.profiler.recovery",
    "attribute_memory": "fastprof.analysis.memory_attribution",
    "LegacyRecord": "fastprof.compat.records",
    "parse_records": "fastprof.compat.records",
    "Site": "fastprof.model.sites",
    "SiteTable": "fastprof.model.sites",
    "Track": "fastprof.model.sites",
    "TrackTable": "fastprof.model.sites",
    "CodedColumn": "fastprof.model.table",
    "EventFlag": "fastprof.model.table",
    "EventKind": "fastprof.model.table",
    "InstantEvent": "fastprof.model.instants",
    "EventTable": "fastprof.model.table",
    "KernelTable": "fastprof.model.table",
    "EventTree": "fastprof.model.tree",
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
    # What IPython calls for %load_ext fastprof and %unload_ext fastprof.
    "load_ipython_extension": "fastprof.cli.notebook",
    "unload_ipython_extension": "fastprof.cli.notebook",
}

# Every key of _LAZY, and __version__; a test compares them.
__all__ = [
    "ProfilerAction",
    "schedule",
    "ProfilerActivity",
    "supported_activities",
    "kineto_available",
    "profile",
    "CallFilter",
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
    "receive_itt",
    "receive_nvtx",
    "EnforceUnique",
    "load_nsys",
    "load_nvprof",
    "parse_nvprof_trace",
    "KinetoStepTracker",
    "RecordScope",
    "devices",
    "errors",
    "itt",
    "metal",
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
    "load_ipython_extension",
    "unload_ipython_extension",
    "save",
    "recover",
    "parse_records",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'fastprof' has no attribute {name!r}")
    value = getattr(import_module(module), name) if module else import_module(f"fastprof.{name}")
    globals()[name] = value  # cached: the next access does not call __getattr__
    return value


def __dir__() -> list[str]:
    # Without PyTorch's private names, which are accessible nevertheless.
    return sorted(["__version__", *(name for name in __all__ if not name.startswith("_"))])
