# SPDX-License-Identifier: Apache-2.0
"""fastprof.stages: which stage and rank of a job holds up its steps, measured all the time."""

from __future__ import annotations

from fastprof.ranks.stages import StageReport, StageTimer, Suspect

__all__ = ["StageReport", "StageTimer", "Suspect"]
