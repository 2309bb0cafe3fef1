# SPDX-License-Identifier: Apache-2.0
"""fastprof: a standalone profiler for Python and C++ programs, with the interface of torch.profiler.

    import fastprof

    with fastprof.profile() as prof:
        with fastprof.record_function("load data"):
            load()
    print(prof.key_averages().table(sort_by="self_cpu_time_total"))
    prof.export_chrome_trace("trace.json")  # open it at https://ui.perfetto.dev

Importing this package is cheap: NumPy and the native module are loaded when a name that needs them is first used.
PYTEST_DONT_REWRITE: it may be imported before pytest, which loads its plugin.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise

# Each file that an import reads releases the GIL: see base/switch_interval.py.
_usual_s = sys.getswitchinterval()
sys.setswitchinterval(min(_usual_s, 1e-4))
try:
    from importlib import import_module
    from typing import TYPE_CHECKING, Any

    from fastprof._version import __version__
    from fastprof.base import switch_interval as _switch_interval
finally:
    sys.setswitchinterval(_usual_s)

if TYPE_CHECKING:  # for type checkers and editors; must match _LAZY
    from fastprof import analysis as analysis
    from fastprof import compat as compat
    from fastprof import devices as devices
    from fastprof import errors as errors
    from fastprof import flight_recorder as flight_recorder
    from fastprof import itt as itt
    from fastprof import metal as metal
    from fastprof import profiler_legacy as profiler_legacy
    from fastprof import ranks as ranks
    from fastprof import stages as stages
    from fastprof import table as table
    from fastprof import trace_writers as trace_writers
    from fastprof.analysis.flops import FlopEstimate as FlopEstimate
    from fastprof.analysis.flops import estimate_flops as estimate_flops
    from fastprof.analysis.memory_attribution import attribute_memory as attribute_memory
    from fastprof.base.device_type import DeviceType as DeviceType
    from fastprof.base.record_scope import RecordScope as RecordScope
    from fastprof.cli.notebook import load_ipython_extension as load_ipython_extension
    from fastprof.cli.notebook import unload_ipython_extension as unload_ipython_extension
    from fastprof.compat.execution_trace import ExecutionTraceObserver as ExecutionTraceObserver
    from fastprof.compat.nvprof import EnforceUnique as EnforceUnique
    from fastprof.compat.nvprof import load_nvprof as load_nvprof
    from fastprof.compat.nvprof import parse_nvprof_trace as parse_nvprof_trace
    from fastprof.compat.profiler_legacy import add_remote_events as add_remote_events
    from fastprof.compat.profiler_legacy import default_node_id as default_node_id
    from fastprof.compat.profiler_legacy import set_default_node_id as set_default_node_id
    from fastprof.compat.records import LegacyRecord as LegacyRecord
    from fastprof.compat.records import parse_records as parse_records
    from fastprof.exporters.native_file import save as save
    from fastprof.importers import load as load
    from fastprof.importers.databases import load_nsys as load_nsys
    from fastprof.model.instants import InstantEvent as InstantEvent
    from fastprof.model.merge import merge_tables as merge_tables
    from fastprof.model.sites import Site as Site
    from fastprof.model.sites import SiteTable as SiteTable
    from fastprof.model.sites import Track as Track
    from fastprof.model.sites import TrackTable as TrackTable
    from fastprof.model.table import CodedColumn as CodedColumn
    from fastprof.model.table import EventFlag as EventFlag
    from fastprof.model.table import EventKind as EventKind
    from fastprof.model.table import EventTable as EventTable
    from fastprof.model.table import KernelTable as KernelTable
    from fastprof.model.tree import EventTree as EventTree
    from fastprof.profiler import _KinetoProfile as _KinetoProfile
    from fastprof.profiler import profile as profile
    from fastprof.profiler import tensorboard_trace_handler as tensorboard_trace_handler
    from fastprof.profiler.experimental_config import _ExperimentalConfig as _ExperimentalConfig
    from fastprof.profiler.recovery import recover as recover
    from fastprof.profiler.step_schedule import ProfilerAction as ProfilerAction
    from fastprof.profiler.step_schedule import schedule as schedule
    from fastprof.profiler.step_tracker import KinetoStepTracker as KinetoStepTracker
    from fastprof.ranks.handler import rank_trace_handler as rank_trace_handler
    from fastprof.record.activities import ProfilerActivity as ProfilerActivity
    from fastprof.record.activities import kineto_available as kineto_available
    from fastprof.record.availability import supported_activities as supported_activities
    from fastprof.record.emitters import emit_itt as emit_itt
    from fastprof.record.emitters import emit_nvtx as emit_nvtx
    from fastprof.record.injection import receive_itt as receive_itt
    from fastprof.record.injection import receive_nvtx as receive_nvtx
    from fastprof.record.propagation import propagate as propagate
    from fastprof.record.python_calls import CallFilter as CallFilter
    from fastprof.record.ranges import _RecordFunctionFast as _RecordFunctionFast
    from fastprof.record.ranges import counter as counter
    from fastprof.record.ranges import flow as flow
    from fastprof.record.ranges import flow_begin as flow_begin
    from fastprof.record.ranges import flow_end as flow_end
    from fastprof.record.ranges import mark as mark
    from fastprof.record.ranges import record_function as record_function
    from fastprof.record.ranges import report_memory_usage as report_memory_usage
    from fastprof.record.ranges import report_out_of_memory as report_out_of_memory
    from fastprof.record.ranges import set_thread_name as set_thread_name
    from fastprof.views import EventList as EventList
    from fastprof.views import EventMetadata as EventMetadata
    from fastprof.views import EventViewError as EventViewError
    from fastprof.views import FormattedTimesMixin as FormattedTimesMixin
    from fastprof.views import FunctionEvent as FunctionEvent
    from fastprof.views import FunctionEventAvg as FunctionEventAvg
    from fastprof.views import Interval as Interval
    from fastprof.views import Kernel as Kernel
    from fastprof.views import MemRecordsAcc as MemRecordsAcc
    from fastprof.views import StringTable as StringTable

# Name that dir() shows -> module that defines it, imported on first use; "": the name is a submodule of fastprof.
_SHOWN: dict[str, str] = {
    "profile": "fastprof.profiler",
    "schedule": "fastprof.profiler.step_schedule",
    "ProfilerAction": "fastprof.profiler.step_schedule",
    "ProfilerActivity": "fastprof.record.activities",
    "supported_activities": "fastprof.record.availability",
    "tensorboard_trace_handler": "fastprof.profiler",
    "rank_trace_handler": "fastprof.ranks.handler",
    "CallFilter": "fastprof.record.python_calls",
    "record_function": "fastprof.record.ranges",
    "mark": "fastprof.record.ranges",
    "counter": "fastprof.record.ranges",
    "flow": "fastprof.record.ranges",
    "flow_begin": "fastprof.record.ranges",
    "flow_end": "fastprof.record.ranges",
    "propagate": "fastprof.record.propagation",
    "set_thread_name": "fastprof.record.ranges",
    "report_memory_usage": "fastprof.record.ranges",
    "report_out_of_memory": "fastprof.record.ranges",
    "receive_nvtx": "fastprof.record.injection",
    "receive_itt": "fastprof.record.injection",
    "emit_nvtx": "fastprof.record.emitters",
    "emit_itt": "fastprof.record.emitters",
    "save": "fastprof.exporters.native_file",
    "load": "fastprof.importers",
    "recover": "fastprof.profiler.recovery",
    "merge_tables": "fastprof.model.merge",
    "EventList": "fastprof.views",
    "EventTable": "fastprof.model.table",
    "EventTree": "fastprof.model.tree",
    "FunctionEvent": "fastprof.views",
    "FunctionEventAvg": "fastprof.views",
    "InstantEvent": "fastprof.model.instants",
    "analysis": "",
    "devices": "",
    "errors": "",
    "flight_recorder": "",
    "metal": "",
    "ranks": "",
    "stages": "",
    "table": "",
    "trace_writers": "",
}
# Also names for PyTorch's sake (listed in compat/__init__.py) and those that fastprof.table and fastprof.analysis have.
_LAZY: dict[str, str] = {
    **_SHOWN,
    "kineto_available": "fastprof.record.activities",
    "_RecordFunctionFast": "fastprof.record.ranges",
    "_KinetoProfile": "fastprof.profiler",
    "_ExperimentalConfig": "fastprof.profiler.experimental_config",
    "ExecutionTraceObserver": "fastprof.compat.execution_trace",
    "EnforceUnique": "fastprof.compat.nvprof",
    "load_nvprof": "fastprof.compat.nvprof",
    "load_nsys": "fastprof.importers.databases",
    "parse_nvprof_trace": "fastprof.compat.nvprof",
    "KinetoStepTracker": "fastprof.profiler.step_tracker",
    "RecordScope": "fastprof.base.record_scope",
    "compat": "",
    "itt": "",
    "profiler_legacy": "",
    "default_node_id": "fastprof.compat.profiler_legacy",
    "set_default_node_id": "fastprof.compat.profiler_legacy",
    "add_remote_events": "fastprof.compat.profiler_legacy",
    "DeviceType": "fastprof.base.device_type",
    "FlopEstimate": "fastprof.analysis.flops",
    "estimate_flops": "fastprof.analysis.flops",
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
    "KernelTable": "fastprof.model.table",
    "EventMetadata": "fastprof.views",
    "EventViewError": "fastprof.views",
    "FormattedTimesMixin": "fastprof.views",
    "StringTable": "fastprof.views",
    "Interval": "fastprof.views",
    "Kernel": "fastprof.views",
    "MemRecordsAcc": "fastprof.views",
    # What IPython calls for %load_ext fastprof and %unload_ext fastprof.
    "load_ipython_extension": "fastprof.cli.notebook",
    "unload_ipython_extension": "fastprof.cli.notebook",
}

__all__ = ["__version__", *_LAZY]  # noqa: PLE0604 - names as text


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'fastprof' has no attribute {name!r}")
    user = _switch_interval.User()
    try:
        _switch_interval.shorten(user)
        value = (
            getattr(import_module(module), name) if module else import_module(f"fastprof.{name}")
        )
    finally:
        _switch_interval.restore(user)
    globals()[name] = value  # cached: the next access does not call __getattr__
    return value


def __dir__() -> list[str]:
    return sorted(["__version__", *_SHOWN])


def _is_fastprofs_command() -> bool:
    """Return whether this process runs the command fastprof, which starts a recorder for its program by itself."""
    words = [os.path.basename(word) for word in getattr(sys, "orig_argv", sys.argv)[:6]]
    return "fastprof" in words[1:2] or ("-m", "fastprof") in pairwise(words)


if os.environ.get("FASTPROF_FLIGHT_RECORDER", "0") not in ("", "0") and not _is_fastprofs_command():
    from fastprof.flight_recorder import start_from_environment

    start_from_environment()
