# SPDX-License-Identifier: Apache-2.0
"""fastprof.ranks: the processes of one training job, read together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastprof.ranks.clocks import RankClock
from fastprof.ranks.compare import Change
from fastprof.ranks.compare import compare_jobs as compare
from fastprof.ranks.critical_path import PathPiece
from fastprof.ranks.job import Job
from fastprof.ranks.job import open_job as open  # as fastprof.ranks.open
from fastprof.ranks.matching import Matched
from fastprof.ranks.shard import COLUMNS
from fastprof.ranks.step_graph import GraphPiece, StepGraph
from fastprof.ranks.stragglers import Straggler
from fastprof.ranks.timeline import timeline

if TYPE_CHECKING:
    from fastprof.ranks.handler import write_rank as write
    from fastprof.ranks.page import export_page as export_html

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


def __getattr__(name: str) -> Any:
    """Import what readers of jobs do not need, and what would double the time of this package's import."""
    if name == "write":
        from fastprof.ranks.handler import write_rank as found
    elif name == "export_html":
        from fastprof.ranks.page import export_page as found  # type: ignore[assignment]
    else:
        raise AttributeError(f"module 'fastprof.ranks' has no attribute {name!r}")
    globals()[name] = found
    return found
