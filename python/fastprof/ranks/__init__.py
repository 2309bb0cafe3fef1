# SPDX-License-Identifier: Apache-2.0
"""fastprof.ranks: the processes of one training job, read together."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastprof.ranks.job import Job
from fastprof.ranks.job import open_job as open  # as fastprof.ranks.open

if TYPE_CHECKING:
    from fastprof.ranks.clocks import RankClock
    from fastprof.ranks.critical_path import PathPiece
    from fastprof.ranks.handler import write_rank as write
    from fastprof.ranks.job_comparison import Change
    from fastprof.ranks.job_comparison import compare_jobs as compare
    from fastprof.ranks.job_timeline import timeline
    from fastprof.ranks.matching import Matched
    from fastprof.ranks.page import export_page as export_html
    from fastprof.ranks.shard import COLUMNS
    from fastprof.ranks.step_graph import GraphPiece, StepGraph
    from fastprof.ranks.stragglers import Straggler

# Imported on first use: what reading a job does not need would double the time of this package's import.
_LAZY = {
    "COLUMNS": ("shard", "COLUMNS"),
    "Change": ("job_comparison", "Change"),
    "GraphPiece": ("step_graph", "GraphPiece"),
    "Matched": ("matching", "Matched"),
    "PathPiece": ("critical_path", "PathPiece"),
    "RankClock": ("clocks", "RankClock"),
    "StepGraph": ("step_graph", "StepGraph"),
    "Straggler": ("stragglers", "Straggler"),
    "compare": ("job_comparison", "compare_jobs"),
    "export_html": ("page", "export_page"),
    "timeline": ("job_timeline", "timeline"),
    "write": ("handler", "write_rank"),
}
__all__ = [
    "COLUMNS",
    "Change",
    "GraphPiece",
    "Job",
    "Matched",
    "PathPiece",
    "RankClock",
    "StepGraph",
    "Straggler",
    "compare",
    "export_html",
    "open",
    "timeline",
    "write",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import a name on first use. Raises AttributeError for an unknown name."""
    if name not in _LAZY:
        raise AttributeError(f"module 'fastprof.ranks' has no attribute {name!r}")
    module, member = _LAZY[name]
    found = getattr(import_module(f"fastprof.ranks.{module}"), member)
    globals()[name] = found
    return found
