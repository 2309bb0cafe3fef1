# SPDX-License-Identifier: Apache-2.0
"""RankSummary: what one rank did in each step. Computed from one shard alone, so that ranks can be read anywhere.

Times are unions of intervals in integer ns, cut at the steps, so that the parts of a step add up to it:
compute + exposed + exposed_copies + idle == duration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.intervals import covered_ns, union_of, without_union
from fastprof.analysis.steps import OPTIMIZER_STEP
from fastprof.ranks.rank_events import Collectives, RankEvents

__all__ = ["PARTS", "STAGES", "RankSummary", "summarise"]

Array: TypeAlias = NDArray[Any]
# Column -> meaning, int64 ns by step.
PARTS = {
    "duration_ns": "duration of the step",
    "compute_ns": "time with computation",
    "communication_ns": "time with communication",
    "exposed_ns": "communication without computation beside it",
    "copies_ns": "time with copies of device memory",
    "exposed_copies_ns": "copies with neither computation nor communication beside them",
    "idle_ns": "time with none of them",
}
STAGES = ("data", "forward", "backward", "optimizer", "rest")
_STEP = "ProfilerStep#"
_LOADER = "enumerate(DataLoader)#"
_ENGINE = "autograd::engine::evaluate_function"
_KEPT_NAMES = 300  # names with the most time, by rank


@dataclass
class RankSummary:
    """Steps of one rank, in order. step: their numbers. start, end: ns of the rank's clock. parts: PARTS by name.

    stage_edges: begin of each of STAGES and end of the last, by (step, edge), ns of the rank's clock. collectives:
    of the whole recording. busy: name -> ns inside of the steps, of all events but communication, for the names with
    the most. on_device: whether collectives are work of devices; else they are the host's, which may be issued early.
    """

    step: Array
    start: Array
    end: Array
    parts: dict[str, Array]
    stage_edges: Array
    collectives: Collectives
    busy: dict[str, int]
    on_device: bool = True


def summarise(events: RankEvents, steps: Sequence[Sequence[int]]) -> RankSummary:
    """Return the summary of a shard's events. steps: (number, start_ns, end_ns) of each. Any thread."""
    number, start, end = (
        np.array([each[i] for each in steps], np.int64).reshape(-1) for i in range(3)
    )
    computes, communicates, copies = events.computation(), events.communication(), events.copies()
    compute = events.union(computes)
    if not events.on_device:  # the host's ops include those that wait inside of a call of c10d
        compute = without_union(
            compute, events.union(events.named(lambda n: n.startswith("c10d::")))
        )
    communication, copy = events.union(communicates), events.union(copies)
    both = _joined(compute, communication)
    duration = end - start
    compute_ns = covered_ns(start, end, compute)
    both_ns = covered_ns(start, end, both)
    all_ns = covered_ns(start, end, _joined(both, copy))
    parts = {
        "duration_ns": duration,
        "compute_ns": compute_ns,
        "communication_ns": covered_ns(start, end, communication),
        "exposed_ns": both_ns - compute_ns,
        "copies_ns": covered_ns(start, end, copy),
        "exposed_copies_ns": all_ns - both_ns,
        "idle_ns": duration - all_ns,
    }
    return RankSummary(
        number,
        start,
        end,
        parts,
        _stage_edges(events, start, end),
        events.collectives,
        _busy(events, ~communicates, start, end),
        events.on_device,
    )


def _joined(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    if not len(one[0]) or not len(other[0]):
        return one if len(one[0]) else other
    return union_of(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))


def _stage_edges(events: RankEvents, start: Array, end: Array) -> Array:
    """Return where each stage begins, and where the last one ends, by step.

    Ranges of the program named as the stages count; otherwise data ends with the loader's last range before backward,
    backward begins with the autograd engine's first range, and the optimizer with its step.
    """
    bounds = [start]
    marks = (
        (lambda n: n == "data" or n.startswith(_LOADER), True),
        (lambda n: n == "backward" or n.startswith(_ENGINE), False),
        (lambda n: n == "optimizer" or n.startswith(OPTIMIZER_STEP), False),
        (lambda n: n == "optimizer" or n.startswith(OPTIMIZER_STEP), True),
    )
    for at, (predicate, is_end) in enumerate(marks):
        rows = np.flatnonzero(events.named(predicate))
        step = np.searchsorted(start, events.start[rows], side="right") - 1
        rows, step = rows[step >= 0], step[step >= 0]
        if is_end:
            value = start.copy() if at == 0 else np.maximum(bounds[-1], start)
            np.maximum.at(value, step, events.end[rows])
        else:
            value = end.copy()
            np.minimum.at(value, step, events.start[rows])
        bounds.append(value)
    for at in range(len(bounds) - 2, 0, -1):  # a loader that runs ahead in backward, say
        bounds[at] = np.minimum(bounds[at], bounds[at + 1])
    bounds.append(end)
    edges = np.stack([np.clip(each, start, end) for each in bounds], axis=1)
    found: Array = np.maximum.accumulate(edges, axis=1)
    return found


def _busy(events: RankEvents, chosen: Array, start: Array, end: Array) -> dict[str, int]:
    if not len(start):
        return {}
    rows = np.flatnonzero(chosen & ~events.named(lambda name: name.startswith(_STEP)))
    step = np.searchsorted(start, events.start[rows], side="right") - 1
    rows = rows[(step >= 0) & (events.start[rows] < end[step.clip(min=0)])]
    spent = np.bincount(
        events.name[rows], events.end[rows] - events.start[rows], len(events.names)
    ).astype(np.int64)
    order = np.argsort(-spent, kind="stable")[:_KEPT_NAMES]
    return {events.names[code]: int(spent[code]) for code in order.tolist() if spent[code] > 0}
