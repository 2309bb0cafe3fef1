# SPDX-License-Identifier: Apache-2.0
"""FunctionEvents and lists of them, made by hand for tests of the views."""

from __future__ import annotations

import copy
from typing import Any

from fastprof.views import EventList, FunctionEvent, FunctionEventAvg


def event(name: str, start: float, end: float, thread: int = 1, **more: Any) -> FunctionEvent:
    return FunctionEvent(more.pop("id", 0), name, thread, start, end, **more)


def built(*events: FunctionEvent, **options: Any) -> EventList:
    listed = EventList(events, **options)
    listed._build_tree()
    return listed


def both_forms(*events: FunctionEvent, **options: Any) -> list[EventList]:
    """The events as a list of objects, and as columns."""
    columnar = EventList.from_table(EventList(events).to_table(), **options)
    return [built(*map(copy.copy, events), **options), columnar]


def parents(events: EventList) -> dict[str, str | None]:
    return {e.name: None if e.cpu_parent is None else e.cpu_parent.name for e in events}


def average_of(*events: FunctionEvent) -> FunctionEventAvg:
    average = FunctionEventAvg()
    for e in events:
        average += e
    return average
