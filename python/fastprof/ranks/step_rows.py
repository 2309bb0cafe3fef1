# SPDX-License-Identifier: Apache-2.0
"""step_rows: the steps of a rank's recording, by number."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fastprof.base.event_names import OPTIMIZER_STEP
from fastprof.model.columns import EventFlag
from fastprof.model.table import EventTable

__all__ = ["last_step", "step_rows"]

_STEP = re.compile(r"^ProfilerStep#(\d+)$")


def step_rows(table: EventTable) -> tuple[list[tuple[int, int, int]], str]:
    """Return (number, start_ns, end_ns) of each step by start, and where they come from.

    Steps are rows "ProfilerStep#N" of the host, which profile.step() records. Without any, a step reaches from one end
    of a step of torch's optimizer to the next (of the kind of optimizer that ends one first); what is before the first
    is in none. Without these, too, the recording is step 0. Rows without an end, as of a killed process, do not count.
    """
    numbers = {
        code: int(match[1])
        for code, name in enumerate(table.names)
        if (match := _STEP.match(name)) is not None
    }
    by_site = np.array([c == "user_annotation" for c in table.sites.field("category")], np.bool_)
    if numbers and len(table):
        rows = np.flatnonzero(np.isin(table.name_id, list(numbers)) & by_site[table.column("site")])
        rows = rows[_ended(table, rows)]
        rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
        names, start, end = (
            c[rows].tolist() for c in (table.name_id, table.start_ns, table.end_ns)
        )
        found = {numbers[n]: (numbers[n], s, e) for n, s, e in zip(names, start, end, strict=True)}
        if found:
            return list(found.values()), "ProfilerStep"
    if not len(table):
        return [], "nothing"
    ends = _optimizer_ends(table, by_site)
    if len(ends) > 1:
        return [(n, s, e) for n, (s, e) in enumerate(pairwise(ends))], "the optimizer's steps"
    return [(0, int(table.start_ns.min()), int(table.end_ns.max()))], "the whole recording"


def _optimizer_ends(table: EventTable, by_site: NDArray[np.bool_]) -> list[int]:
    """Return where the steps of one kind of torch's optimizers end, by time."""
    names = [code for code, name in enumerate(table.names) if name.startswith(OPTIMIZER_STEP)]
    rows = np.flatnonzero(np.isin(table.name_id, names) & by_site[table.column("site")])
    rows = rows[_ended(table, rows)]
    if not len(rows):
        return []
    first = table.name_id[rows[np.argmin(table.end_ns[rows])]]
    ends: list[int] = np.sort(table.end_ns[rows[table.name_id[rows] == first]]).tolist()
    return ends


def _ended(table: EventTable, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (table.column("flags")[rows] & EventFlag.FINISHED) != 0
    return found


def last_step(table: EventTable) -> int | None:
    """Return the number of the last step that a table has, ended or not; None if its steps have no number."""
    numbers = {
        code: int(match[1])
        for code, name in enumerate(table.names)
        if (match := _STEP.match(name)) is not None
    }
    rows = np.flatnonzero(np.isin(table.name_id, list(numbers)))
    if not len(rows):
        return None
    return numbers[int(table.name_id[rows[np.argmax(table.start_ns[rows])]])]
