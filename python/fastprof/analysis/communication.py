# SPDX-License-Identifier: Apache-2.0
"""Communication of each device and step: how long it took, how much ran beside computation. On columns; any thread.

Communication is the kernels of NCCL or RCCL, computation all other kernels; copies are neither, as in
HolisticTraceAnalysis. Times are unions of intervals in integer ns, so kernels of several streams count once.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.intervals import covered_ns, union_of
from fastprof.base.distinct import distinct
from fastprof.base.event_names import is_communication
from fastprof.base.formatting import counted, format_time
from fastprof.model.launching import launching_rows
from fastprof.model.table import EventTable

__all__ = ["REMEDY", "Communication", "Described", "communication", "describe"]

Array: TypeAlias = NDArray[Any]
_OUTSIDE = -1
_SHOWN_STEPS, _SHOWN_ROWS = 8, 5
REMEDY = (
    "Overlap communication with computation: start it earlier (smaller buckets, bucket_cap_mb), or communicate "
    "less often (no_sync() while gradients accumulate)"
)


class Communication(NamedTuple):
    """Communication on one device that was launched in one step.

    device: its index. step: index of the step. comm_ns: time with communication. exposed_ns: the part of it without
    computation on the device. rows: the kernels' table rows, longest first.
    """

    device: int
    step: int
    comm_ns: int
    exposed_ns: int
    rows: list[int]


def communication(table: EventTable, start: Array, end: Array) -> list[Communication]:
    """Return the communication of each device and step, by device, then step; steps without any are left out.

    start, end: the steps' begins, ascending, and ends, int64 ns. A kernel belongs to the step in which it was
    launched, or, if its launch is not in the table, in which it begins. Kernels outside of all steps are left
    out.
    """
    by_category = np.array([name == "kernel" for name in table.sites.field("category")], np.bool_)
    if not by_category.any() or not len(start):
        return []
    communicates = np.array([is_communication(name) for name in table.sites.names], np.bool_)
    if not (communicates & by_category).any():
        return []
    site = table.column("site")
    kernels = np.flatnonzero(by_category[site])
    chosen = communicates[site[kernels]]
    of_comm, of_computation = kernels[chosen], kernels[~chosen]
    step = _steps_of(table, of_comm, start, end)
    of_comm, step = of_comm[step != _OUTSIDE], step[step != _OUTSIDE]
    device = table.column("device_index")
    found = []
    for index in distinct(device[of_comm]).tolist():
        rows = of_computation[device[of_computation] == index]
        busy = union_of(table.start_ns[rows], table.end_ns[rows])
        mine = device[of_comm] == index
        for number in distinct(step[mine]).tolist():
            rows = of_comm[mine & (step == number)]
            begins, ends = union_of(table.start_ns[rows], table.end_ns[rows])
            comm_ns = int((ends - begins).sum())
            beside_ns = int(covered_ns(begins, ends, busy).sum())
            rows = rows[np.argsort(table.start_ns[rows] - table.end_ns[rows], kind="stable")]
            found.append(
                Communication(int(index), number, comm_ns, comm_ns - beside_ns, rows.tolist())
            )
    return found


class Described(NamedTuple):
    """A line for people, the exposed time behind it in ns, and table rows of kernels; device: the line is its sum."""

    text: str
    exposed_ns: int
    rows: list[int]
    device: int | None


def describe(found: list[Communication], names: list[str], total_ns: int) -> list[Described]:
    """Return for each device a sum and the steps with the most exposed communication, in order.

    names: of the steps; empty: there are no steps, so that only sums are listed. total_ns: duration of the steps.
    """
    lines = []
    for device in dict.fromkeys(each.device for each in found):
        steps = [each for each in found if each.device == device]
        whole = sum(each.comm_ns for each in steps)
        exposed = sum(each.exposed_ns for each in steps)
        text = (
            f"device {device} communicated {_time(whole)}: {_time(whole - exposed)} "
            f"({_percent(whole - exposed, whole)}) beside computation, {_time(exposed)} exposed "
            f"({_percent(exposed, total_ns)} of the {'steps' if names else 'recording'})"
        )
        longest = sorted(steps, key=lambda each: -each.exposed_ns)[:_SHOWN_STEPS]
        lines.append(Described(text, exposed, longest[0].rows[:_SHOWN_ROWS], device))
        if not names:
            continue
        for each in sorted(longest, key=lambda each: each.step):
            text = (
                f"{_time(each.exposed_ns):>11} exposed of {_time(each.comm_ns)}  {names[each.step]}"
            )
            lines.append(Described(text, each.exposed_ns, each.rows[:_SHOWN_ROWS], None))
        if len(steps) > _SHOWN_STEPS:
            rest = sum(each.exposed_ns for each in steps) - sum(each.exposed_ns for each in longest)
            text = f"{_time(rest):>11} exposed in {counted(len(steps) - _SHOWN_STEPS, 'more step')}"
            lines.append(Described(text, rest, [], None))
    return lines


def _time(ns: int) -> str:
    return format_time(ns / 1000)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


def _steps_of(table: EventTable, kernels: Array, start: Array, end: Array) -> Array:
    """Return the index of each kernel's step, _OUTSIDE for none."""
    launching = launching_rows(table, kernels)
    when = table.start_ns[np.where(launching >= 0, launching, kernels)]
    number = np.searchsorted(start, when, side="right") - 1
    inside = (number >= 0) & (when < end[number.clip(min=0)])
    found: Array = np.where(inside, number, _OUTSIDE)
    return found
