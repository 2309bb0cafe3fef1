# SPDX-License-Identifier: Apache-2.0
"""FlowLinks: turns events that share a flow id into pairs of rows, the ends of an arrow.

A flow leads from its earliest event through the others to its last one, so an event in the middle ends
one arrow and begins the next. These roles depend on time order; therefore the rows are added once all
events are known.
"""

from __future__ import annotations

from array import array
from collections import Counter
from enum import IntEnum
from typing import Any

import numpy as np

from fastprof.importers.chrome_args import DEVICE_CATEGORIES
from fastprof.importers.distinct import distinct_values
from fastprof.importers.table_builder import TableBuilder
from fastprof.model.sites import Site
from fastprof.model.table import EventKind

__all__ = ["FlowLinks", "FlowStep"]

_CALLS = ("cuda_runtime", "cuda_driver")  # categories of calls that launch work
_OF_DEVICE = "ac2g"  # Kineto's name and category of arrows from a call to what it launched
_FIRST_NAMED_ID = 1 << 63  # first number for flows whose id is not a plain number
_LINK_BYTES = 60
_NAME_BYTES = 400


class FlowStep(IntEnum):
    """The role of an event in a flow."""

    PASS = 0  # begins the flow, or continues it if it is active
    BEGIN = 1
    CONTINUE = 2
    END = 3  # the last event; the id may be used again
    ARRIVE = 4  # an arrow's end in older traces; the flow stays active


class FlowLinks:
    """Collects events of flows and adds the rows of their arrows."""

    def __init__(self, rows: TableBuilder, skipped: Counter[str]) -> None:
        self._rows = rows
        self._skipped = skipped
        self._time, self._flow, self._step = array("q"), array("Q"), array("B")
        self._name, self._track = array("I"), array("I")
        self._names: dict[tuple[str, str], int] = {}
        self._named: dict[Any, int] = {}

    def estimate_bytes(self) -> int:
        """Return an upper bound of the memory used, in bytes."""
        names = len(self._names) + len(self._named)
        return _LINK_BYTES * len(self._time) + _NAME_BYTES * names

    def named_id(self, key: Any) -> int:
        """Return the number of a flow that is identified by a tuple of values."""
        return self._named.setdefault(key, _FIRST_NAMED_ID + len(self._named))

    def add(
        self, time_ns: int, flow: int, step: FlowStep, name: str, category: str, track: int
    ) -> None:
        """Record that an event takes part in a flow."""
        self._time.append(time_ns)
        self._flow.append(flow)
        self._step.append(step)
        self._name.append(self._names.setdefault((name, category), len(self._names)))
        self._track.append(track)

    def add_rows(self, rows: Any, flows: Any, steps: Any) -> None:
        """Record that rows of the table take part in flows; arrays of equal length."""
        table = self._rows
        sites = np.frombuffer(table.site, np.uint32)[rows]
        distinct, codes = distinct_values(sites.astype(np.int64))
        names = []
        for index in distinct.tolist():
            site = table.site_at(index)
            names.append(self._names.setdefault((site.name, site.category), len(self._names)))
        self._time.frombytes(np.frombuffer(table.start, np.int64)[rows].tobytes())
        self._flow.frombytes(flows.tobytes())
        self._step.frombytes(steps.tobytes())
        self._name.frombytes(np.array(names, np.uint32)[codes].tobytes())
        self._track.frombytes(np.frombuffer(table.track, np.uint32)[rows].tobytes())

    def finish(self) -> None:
        """Add the rows of all arrows to the table."""
        active: set[int] = set()
        names = list(self._names)
        order = np.argsort(np.frombuffer(self._time, np.int64), kind="stable")
        for index in order.tolist():
            time_ns, flow, track = self._time[index], self._flow[index], self._track[index]
            step, (name, category) = FlowStep(self._step[index]), names[self._name[index]]
            is_active = flow in active
            if step is FlowStep.PASS:
                step = FlowStep.CONTINUE if is_active else FlowStep.BEGIN
            if step is FlowStep.BEGIN and is_active:
                self._skipped["flow that begins twice"] += 1
                continue
            if step is not FlowStep.BEGIN and not is_active:
                self._skipped["flow that ends without a begin"] += 1
                continue
            if step is not FlowStep.BEGIN:
                self._row(EventKind.FLOW_END, time_ns, flow, name, category, track)
            if step in (FlowStep.BEGIN, FlowStep.CONTINUE):
                self._row(EventKind.FLOW_BEGIN, time_ns, flow, name, category, track)
                active.add(flow)
            elif step is FlowStep.END:
                active.discard(flow)

    def _row(
        self, kind: EventKind, time_ns: int, flow: int, name: str, category: str, track: int
    ) -> None:
        if category in DEVICE_CATEGORIES or category in _CALLS:
            name = category = _OF_DEVICE  # else the arrow's ends would count as work of the device
        rows = self._rows
        site = rows.site_of(Site(name, category, kind=int(kind)))
        rows.add(int(kind), time_ns, time_ns, site, track, payload=rows.add_words(flow))
