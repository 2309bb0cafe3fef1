# SPDX-License-Identifier: Apache-2.0
"""DeviceKind: what records the work of each activity; which activities can be recorded here, and why others cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fastprof.record.activities import ProfilerActivity, cuda_types, plugin_types
from fastprof.record.devices import registered
from fastprof.record.gpus import gpu_vendor
from fastprof.record.metal_problem import metal_problem

__all__ = ["DeviceKind", "device_kinds", "missing_reason", "supported_activities"]


class DeviceKind(NamedTuple):
    """A kind of device whose work can be collected.

    name: of the backend that collects it. device: its name as use_device. problem: returns why its work cannot be
    collected now, None if it can. types: returns the activity types to collect, of given type names (None: all) and of
    whether to record waits of streams and memory.
    """

    name: str
    device: str
    problem: Callable[[], str | None]
    types: Callable[[tuple[str, ...] | None, bool, bool], tuple[str, ...]]


def device_kinds(activity: ProfilerActivity) -> Iterator[DeviceKind]:
    """Yield the kinds of devices of an activity: a built-in one, or the registered plug-ins. Any thread."""
    if activity is ProfilerActivity.CUDA:
        yield DeviceKind("CUDA", "cuda", gpu_vendor().problem, cuda_types)
    elif activity is ProfilerActivity.MPS:
        yield DeviceKind("MPS", "mps", _metal_problem, _no_types)
    elif activity is not ProfilerActivity.CPU:
        for plugin in registered():
            if plugin.activity is activity:
                yield DeviceKind(
                    plugin.name,
                    plugin.name,
                    plugin.problem,
                    lambda names, waits, memory: plugin_types(activity, names),
                )


def _metal_problem() -> str | None:
    problem = metal_problem()
    return f"Metal work (MPS) is not recorded: {problem}" if problem else None


def _no_types(names: tuple[str, ...] | None, waits: bool, memory: bool) -> tuple[str, ...]:
    return ()  # a command buffer is one row, whatever it contains


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that this build records on this machine, in this process. Any thread."""
    return {activity for activity in ProfilerActivity if missing_reason(activity) is None}


def missing_reason(activity: ProfilerActivity) -> str | None:
    """Return why an activity cannot be recorded in this process; None if it can. Any thread."""
    if activity is ProfilerActivity.CPU:
        return None
    problems = {kind.name: kind.problem() for kind in device_kinds(activity)}
    if not problems:
        return (
            f"this build of fastprof has no {activity.name} backend, and no device plug-in is registered"
            " for it (fastprof.devices.register), so work on that device is not recorded"
        )
    if None in problems.values():
        return None
    if activity.name in problems:  # built-in: its reason is a sentence
        return problems[activity.name]
    return "; ".join(f"work on {name} is not recorded: {why}" for name, why in problems.items())
