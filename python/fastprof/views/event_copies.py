# SPDX-License-Identifier: Apache-2.0
"""Flatten linked events for copying and pickling: recursion would fail at about a thousand levels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastprof.views.function_event import FunctionEvent

__all__ = ["events_of_states", "flat_states"]

_LINKS = ("cpu_parent", "cpu_children")


def flat_states(events: Iterable[FunctionEvent]) -> tuple[list[dict[str, Any]], int]:
    """Return (states, number of events): the fields of the events, then those of their other relatives.

    Links to relatives are indices into the states.
    """
    found = list(events)
    count = len(found)
    index = {id(event): at for at, event in enumerate(found)}

    def number(event: FunctionEvent) -> int:
        at = index.get(id(event))
        if at is None:
            at = index[id(event)] = len(found)
            found.append(event)
        return at

    states: list[dict[str, Any]] = []
    for event in found:  # number() appends relatives during the loop
        state = dict(event.__getstate__())
        parent, children = (state.pop(name, None) for name in _LINKS)
        state["cpu_parent"] = None if parent is None else number(parent)
        state["cpu_children"] = [number(child) for child in children or ()]
        states.append(state)
    return states, count


def events_of_states(states: list[dict[str, Any]]) -> list[FunctionEvent]:
    """Return new events of the states that flat_states returned."""
    events = [FunctionEvent.__new__(FunctionEvent) for _ in states]
    for event, state in zip(events, states, strict=True):
        parent, children = state["cpu_parent"], state["cpu_children"]
        fields = dict(
            state,
            cpu_parent=None if parent is None else events[parent],
            cpu_children=[events[child] for child in children],
        )
        event.__setstate__(fields)
    return events
