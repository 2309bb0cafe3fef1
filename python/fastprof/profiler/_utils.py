# SPDX-License-Identifier: Apache-2.0
"""The names of torch.profiler._utils, from fastprof.analysis."""

from __future__ import annotations

from fastprof.analysis.evaluation import BasicEvaluation, EventKey, EventMetrics
from fastprof.analysis.fx_mapping import map_recorded_events_to_aten_ops_with_stack_trace
from fastprof.analysis.intervals import Interval
from fastprof.analysis.traversal import (
    argmax,
    index_of_first_match,
    source_code_location,
    traverse_bfs,
    traverse_dfs,
)

__all__ = [
    "BasicEvaluation",
    "EventKey",
    "EventMetrics",
    "Interval",
    "_init_for_cuda_graphs",
    "argmax",
    "index_of_first_match",
    "map_recorded_events_to_aten_ops_with_stack_trace",
    "source_code_location",
    "traverse_bfs",
    "traverse_dfs",
]


def _init_for_cuda_graphs() -> None:
    """Record one empty profile, so that the setup of the first profile does not happen inside a CUDA graph capture."""
    from fastprof.profiler.profiling import profile

    with profile():
        pass
