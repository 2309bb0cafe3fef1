# SPDX-License-Identifier: Apache-2.0
"""Decode legacy phases of Perfetto's track events: Chrome events in protobuf form (TrackEvent.LegacyEvent)."""

from __future__ import annotations

from typing import Any

from fastprof.importers.flow_links import FlowStep
from fastprof.importers.perfetto_fields import LegacyEvent
from fastprof.importers.perfetto_rows import EventRows, TrackEvent
from fastprof.importers.protobuf import signed, text, whole
from fastprof.model.table import EventKind

__all__ = ["add_legacy_event", "legacy_flow", "legacy_thread"]

_UNDERSTOOD = frozenset(
    value for name, value in vars(LegacyEvent).items() if not name.startswith("_")
)
_FLOW_STEPS = {"s": FlowStep.BEGIN, "t": FlowStep.CONTINUE, "f": FlowStep.ARRIVE}
_DIRECTIONS = {1: FlowStep.ARRIVE, 2: FlowStep.BEGIN, 3: FlowStep.CONTINUE}  # FlowDirection


def legacy_thread(legacy: dict[int, Any], pid: int, tid: int) -> tuple[int, int] | None:
    """Return the (pid, tid) by which an event overrides its sequence's; None if it does not."""
    if LegacyEvent.PID_OVERRIDE in legacy:
        pid, tid = signed(legacy[LegacyEvent.PID_OVERRIDE]), 0
    elif LegacyEvent.TID_OVERRIDE not in legacy:
        return None
    return pid, signed(legacy.get(LegacyEvent.TID_OVERRIDE, tid))


def legacy_flow(target: EventRows, legacy: dict[int, Any]) -> list[tuple[FlowStep, int]]:
    """Return the flow, if any, that an event of any phase takes part in by its bind_id."""
    step = _DIRECTIONS.get(whole(legacy.get(LegacyEvent.FLOW_DIRECTION, 0)))
    if step is None or LegacyEvent.BIND_ID not in legacy:
        return []
    return [(step, target.flows.named_id(("bind", whole(legacy[LegacyEvent.BIND_ID]))))]


def add_legacy_event(
    target: EventRows, legacy: dict[int, Any], event: TrackEvent, thread: tuple[int, int]
) -> None:
    """Add the rows of an event with a legacy phase. thread: (pid, tid) that the event belongs to.

    Phases without a time, and unsupported fields, are counted as skipped.
    """
    for number in legacy.keys() - _UNDERSTOOD:
        target.skipped[f"LegacyEvent field {number}"] += 1
    code = whole(legacy.get(LegacyEvent.PHASE, 0))
    phase = chr(code) if 32 < code < 127 else ""
    if phase == "B":
        target.begin(event)
    elif phase == "E":
        target.end(event)
    elif phase == "X":
        duration_ns = signed(legacy.get(LegacyEvent.DURATION_US, 0)) * 1000
        if duration_ns < 0:
            target.skipped["negative duration"] += 1
        else:
            target.complete(event, event.time_ns + duration_ns)
    elif phase and phase in "iIRnTp":
        target.instant(event)
    elif phase and phase in "bSeF":
        _add_async(target, legacy, event, phase, thread[0])
    elif phase in _FLOW_STEPS:
        _add_flow(target, legacy, event, _FLOW_STEPS[phase])
    elif phase == "C":
        _add_counters(target, event)
    elif phase == "M":
        _add_name(target, event, thread)
    else:
        target.skipped[f"phase {phase or code}"] += 1


def _add_async(
    target: EventRows, legacy: dict[int, Any], event: TrackEvent, phase: str, pid: int
) -> None:
    """Begin or end an async range; events of equal id and category (S and F: and name) nest."""
    for number in (LegacyEvent.UNSCOPED_ID, LegacyEvent.GLOBAL_ID, LegacyEvent.LOCAL_ID):
        if number in legacy:
            process = pid if number == LegacyEvent.LOCAL_ID else None
            scope = text(legacy.get(LegacyEvent.ID_SCOPE, b""))
            name = event.name if phase in "SF" else ""
            event.key = ("async", whole(legacy[number]), process, event.category, scope, name)
            break
    else:
        target.skipped["asynchronous event without id"] += 1
        return
    if phase in "bS":
        target.begin(event, int(EventKind.ASYNC_RANGE))
    else:
        target.end(event)


def _add_flow(target: EventRows, legacy: dict[int, Any], event: TrackEvent, step: FlowStep) -> None:
    if LegacyEvent.UNSCOPED_ID not in legacy:
        target.skipped["flow without id"] += 1
        return
    key = (event.category, event.name, whole(legacy[LegacyEvent.UNSCOPED_ID]))
    event.flows.append((step, target.flows.named_id(key)))
    target.link(event)


def _add_counters(target: EventRows, event: TrackEvent) -> None:
    """Add a counter value for each number among the args, as in Chrome traces."""
    for series, value in event.args.items():
        if type(value) in (int, float):
            name = event.name if len(event.args) == 1 else f"{event.name} {series}"
            target.counter(name, event.track, event.time_ns, value)
        else:
            target.skipped["value of a counter that is no number"] += 1


def _add_name(target: EventRows, event: TrackEvent, thread: tuple[int, int]) -> None:
    name = event.args.get("name")
    if event.name == "thread_name" and isinstance(name, str):
        target.tracks.thread_names[thread] = name
    elif event.name == "process_name" and isinstance(name, str):
        target.tracks.process_names[thread[0]] = name
    else:
        target.skipped["phase M"] += 1
