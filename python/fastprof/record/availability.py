# SPDX-License-Identifier: Apache-2.0
"""Which activities can be recorded in this process, and why the others cannot."""

from __future__ import annotations

from fastprof.record.activities import ProfilerActivity
from fastprof.record.cuda import cuda_problem
from fastprof.record.devices import registered
from fastprof.record.metal_problem import metal_problem
from fastprof.record.rocm import is_rocm, rocm_problem

__all__ = ["missing_reason", "supported_activities"]


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that this build records on this machine, in this process. Any thread."""
    return {activity for activity in ProfilerActivity if missing_reason(activity) is None}


def missing_reason(activity: ProfilerActivity) -> str | None:
    """Return why an activity cannot be recorded in this process; None if it can. Any thread."""
    if activity is ProfilerActivity.CPU:
        return None
    if activity is ProfilerActivity.CUDA:
        return rocm_problem() if is_rocm() else cuda_problem()
    if activity is ProfilerActivity.MPS:
        problem = metal_problem()
        return f"Metal work (MPS) is not recorded: {problem}" if problem else None
    problems = {d.name: d.problem() for d in registered() if d.activity is activity}
    if not problems:
        return (
            f"this build of fastprof has no {activity.name} backend, and no device plug-in is registered"
            " for it (fastprof.devices.register), so work on that device is not recorded"
        )
    if None in problems.values():
        return None
    return "; ".join(f"work on {name} is not recorded: {why}" for name, why in problems.items())
