# SPDX-License-Identifier: Apache-2.0
"""RankSummary: what one rank did in each step. Computed from one shard alone, so that ranks can be read anywhere.

Times are unions of intervals in integer ns, cut at the steps, so that the parts of a step add up to it:
compute + exposed + exposed_copies + idle == duration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.base.event_names import OPTIMIZER_STEP, is_communication
from fastprof.ranks.event_names import is_host_collective
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
# Bits of an event's classes, as in csrc/core/rank_steps/step_sums.hpp.
_COMPUTATION, _COMMUNICATION, _COPY, _ISSUE, _DATA, _BACKWARD, _OPTIMIZER, _BUSY = (
    1 << bit for bit in range(8)
)


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
    on_device = events.on_device
    of_category = _classes(events.categories, lambda text: _class_of_category(text, on_device))
    of_name = _classes(events.names, lambda text: _class_of_name(text, on_device))
    sums = _core.rank_step_sums(
        events.start,
        events.duration,
        events.name,
        events.category,
        of_name,
        of_category,
        start,
        end,
    )
    duration = end - start
    compute, exposed, copies = (
        sums[name] for name in ("computation", "exposed_communication", "exposed_copies")
    )
    parts = {
        "duration_ns": duration,
        "compute_ns": compute,
        "communication_ns": sums["communication"],
        "exposed_ns": exposed,
        "copies_ns": sums["copies"],
        "exposed_copies_ns": copies,
        "idle_ns": duration - compute - exposed - copies,
    }
    return RankSummary(
        number,
        start,
        end,
        parts,
        _stage_edges(sums, start, end),
        events.collectives,
        _busy(sums["busy"], events.names),
        on_device,
    )


def _classes(texts: Sequence[str], class_of: Callable[[str], int]) -> Array:
    return np.fromiter(map(class_of, texts), np.uint8, len(texts))


def _class_of_category(category: str, on_device: bool) -> int:
    """Return the classes that events of a category may have. on_device: whether there are kernels."""
    found = _DATA | _BACKWARD | _OPTIMIZER | _BUSY
    if on_device and category == "kernel":
        found |= _COMPUTATION | _COMMUNICATION
    elif not on_device:  # its ops include those that wait inside of a call of c10d
        found |= _ISSUE | _COMMUNICATION | (_COMPUTATION if category == "cpu_op" else 0)
    return found | (_COPY if category in ("gpu_memcpy", "gpu_memset") else 0)


def _class_of_name(name: str, on_device: bool) -> int:
    """Return the classes that events of a name may have.

    Ranges of the program named as the stages count; otherwise data ends with the loader's last range before backward,
    backward begins with the autograd engine's first range, and the optimizer with its step.
    """
    found = _COPY
    issues = not on_device and name.startswith("c10d::")
    if is_communication(name) if on_device else is_host_collective(name):
        found |= _COMMUNICATION
    elif not issues:
        found |= _COMPUTATION
    if issues:
        found |= _ISSUE
    if name == "data" or name.startswith(_LOADER):
        found |= _DATA
    elif name == "backward" or name.startswith(_ENGINE):
        found |= _BACKWARD
    elif name == "optimizer" or name.startswith(OPTIMIZER_STEP):
        found |= _OPTIMIZER
    return found if name.startswith(_STEP) else found | _BUSY


def _stage_edges(sums: dict[str, Array], start: Array, end: Array) -> Array:
    """Return where each stage begins, and where the last one ends, by step. sums: of rank_step_sums()."""
    data = np.maximum(start, sums["loader_end"])
    backward = np.minimum(end, sums["backward_start"])
    optimizer = np.minimum(end, sums["optimizer_start"])
    rest = np.maximum(np.maximum(optimizer, start), sums["optimizer_end"])
    bounds = [start, data, backward, optimizer, rest]
    for at in (3, 2, 1):  # a loader that runs ahead in backward, say
        bounds[at] = np.minimum(bounds[at], bounds[at + 1])
    edges = np.stack([np.clip(each, start, end) for each in (*bounds, end)], axis=1)
    found: Array = np.maximum.accumulate(edges, axis=1)
    return found


def _busy(spent: Array, names: Sequence[str]) -> dict[str, int]:
    """Return ns by name of the names with the most. spent: by code."""
    order = np.argsort(-spent, kind="stable")[:_KEPT_NAMES]
    return {names[code]: int(spent[code]) for code in order.tolist() if spent[code] > 0}
