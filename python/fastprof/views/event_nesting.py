# SPDX-License-Identifier: Apache-2.0
"""Link hand-made FunctionEvents: nest them by time and remove repeated wrappers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastprof.base.device_type import DeviceType
from fastprof.model.tree import nest_intervals

__all__ = ["link_events", "without_repeats"]


def link_events(events: Sequence[Any]) -> None:
    """Set cpu_parent and cpu_children of the synchronous CPU events, by nest_intervals.

    Events nest within a (thread, node). Existing links are replaced.
    """
    nesting = [
        event for event in events if not event.is_async and event.device_type == DeviceType.CPU
    ]
    for event in events:
        event.cpu_parent, event.cpu_children = None, []
    if not nesting:
        return
    groups: dict[Any, int] = {}
    group = np.array(
        [groups.setdefault((e.thread, e.node_id), len(groups)) for e in nesting], np.int64
    )
    start = np.array([event.time_range.start for event in nesting])
    end = np.array([event.time_range.end for event in nesting])
    parent = nest_intervals(start, end, group)
    for index in np.lexsort((-end, start, group)).tolist():
        if parent[index] >= 0:
            nesting[parent[index]].append_cpu_child(nesting[index])
            nesting[index].set_cpu_parent(nesting[parent[index]])


def without_repeats(events: Sequence[Any]) -> list[Any]:
    """Return the events without repeats; an event takes over children and kernels of its repeat.

    An event is a repeat if its parent has the same name and no other child, whatever their scopes: lists
    made by hand follow PyTorch, whose rule EventTree.dedupe applies to ops only. Deepest first.
    """
    repeated = {
        id(event)
        for event in events
        if event.cpu_parent is not None
        and event.cpu_parent.name == event.name
        and len(event.cpu_parent.cpu_children) == 1
    }
    if not repeated:
        return list(events)
    for event in events:
        if id(event) in repeated:
            continue
        last = event
        while len(last.cpu_children) == 1 and id(last.cpu_children[0]) in repeated:
            last = last.cpu_children[0]
        if last is not event:
            event.kernels = last.kernels
            event.cpu_children = list(last.cpu_children)
            for child in event.cpu_children:
                child.cpu_parent = event
    return [event for event in events if id(event) not in repeated]
