# SPDX-License-Identifier: Apache-2.0
"""Numbers of Python calls: python_id, python_parent_id and python_module_id of events.

Follows csrc/include/fastprof/export/chrome_args.hpp, which writes the same numbers to traces.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.model.nesting import nest_intervals
from fastprof.model.table import EventTable

__all__ = ["CallNumbers", "call_numbers"]

Array: TypeAlias = NDArray[Any]
_MODULE = re.compile(r"nn\.Module: .*_(\d+)", re.DOTALL)


class CallNumbers(NamedTuple):
    """Per table row: number of a call from 1, of its caller, of its torch.nn.Module among its class; -1: none.

    rows: the row of each call, by number - 1. Any thread.
    """

    python_id: Array
    python_parent_id: Array
    python_module_id: Array
    rows: Array

    def callers(self, row: int) -> list[int]:
        """Return the rows of the calls around a call, innermost first; [] for a row that is none."""
        found: list[int] = []
        while (number := int(self.python_parent_id[row])) > 0:
            row = int(self.rows[number - 1])
            found.append(row)
        return found


def call_numbers(table: EventTable) -> CallNumbers | None:
    """Return the numbers of a captured table's calls; None if it has none.

    A caller is the innermost call around a call on its track: a range that began in between and outlives its call
    does not matter.
    """
    is_call = table.column("is_python_function")
    rows = np.flatnonzero(is_call)
    if not len(rows):
        return None
    columns = [np.full(len(table), -1, np.int64) for _ in range(3)]
    caller = nest_intervals(table.start_ns[rows], table.end_ns[rows], table.column("track")[rows])
    columns[0][rows] = np.arange(1, len(rows) + 1)
    columns[1][rows] = np.where(caller >= 0, caller + 1, -1)
    found = [_MODULE.fullmatch(name) for name in table.sites.names]
    of_site = np.array([-1 if one is None else int(one[1]) for one in found], np.int64)
    columns[2][rows] = of_site[table.column("site")[rows]]
    return CallNumbers(columns[0], columns[1], columns[2], rows)
