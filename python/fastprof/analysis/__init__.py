# SPDX-License-Identifier: Apache-2.0
"""Analyses of tables and ops: what keeps a device waiting, anti-patterns, what a step's time went to, FLOPs, memory.

Names are imported on first use (PEP 562). All of it reads columns and works on live profiles and loaded traces.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastprof.analysis.evaluation import BasicEvaluation, EventKey, EventMetrics
    from fastprof.analysis.explanation import explain
    from fastprof.analysis.flops import FlopEstimate, estimate_flops
    from fastprof.analysis.fx_mapping import map_recorded_events_to_aten_ops_with_stack_trace
    from fastprof.analysis.intervals import Interval
    from fastprof.analysis.memory_attribution import attribute_memory
    from fastprof.analysis.memory_summary import memory_report
    from fastprof.analysis.pattern_report import report_all_anti_patterns
    from fastprof.analysis.patterns import find_anti_patterns
    from fastprof.analysis.traversal import (
        argmax,
        index_of_first_match,
        source_code_location,
        traverse_bfs,
        traverse_dfs,
    )

_LAZY = {
    "BasicEvaluation": "evaluation",
    "EventKey": "evaluation",
    "EventMetrics": "evaluation",
    "FlopEstimate": "flops",
    "Interval": "intervals",
    "argmax": "traversal",
    "attribute_memory": "memory_attribution",
    "estimate_flops": "flops",
    "explain": "explanation",
    "find_anti_patterns": "patterns",
    "index_of_first_match": "traversal",
    "map_recorded_events_to_aten_ops_with_stack_trace": "fx_mapping",
    "memory_report": "memory_summary",
    "report_all_anti_patterns": "pattern_report",
    "source_code_location": "traversal",
    "traverse_bfs": "traversal",
    "traverse_dfs": "traversal",
}
__all__ = [
    "BasicEvaluation",
    "EventKey",
    "EventMetrics",
    "FlopEstimate",
    "Interval",
    "argmax",
    "attribute_memory",
    "estimate_flops",
    "explain",
    "find_anti_patterns",
    "index_of_first_match",
    "map_recorded_events_to_aten_ops_with_stack_trace",
    "memory_report",
    "report_all_anti_patterns",
    "source_code_location",
    "traverse_bfs",
    "traverse_dfs",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'fastprof.analysis' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"fastprof.analysis.{module}"), name)
    return value
