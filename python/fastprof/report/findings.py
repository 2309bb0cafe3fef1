# SPDX-License-Identifier: Apache-2.0
"""The findings of explain() for the report's summary, and the communication of each step for its steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastprof.analysis.communication import communication
from fastprof.analysis.explanation import explain
from fastprof.analysis.named_rows import NamedRows
from fastprof.analysis.steps import StepTimes
from fastprof.base.event_names import is_communication
from fastprof.base.short_paths import shorten_paths
from fastprof.report.rows import ReportRows
from fastprof.report.texts import bounded

__all__ = ["communication_of", "findings_of"]

_ROWS = 5


def findings_of(rows: ReportRows) -> dict[str, Any]:
    """Return {"first": what to do first, "lines": [(text, report rows that it is based on)]}; {} without findings.

    Paths of calls are relative to the working folder.
    """
    found = explain(rows.table, breakdown=False)
    own = rows.of_table_rows()
    lines = [
        (bounded(shorten_paths(text), 600), _report_rows(own, based_on))
        for text, based_on in found.findings()
    ]
    if not lines:
        return {}
    first = bounded(shorten_paths(found.first.text), 600) if found.first else ""
    return {"first": first, "lines": lines}


def communication_of(rows: ReportRows) -> list[dict[str, int]]:
    """Return {"row", "device", "comm_ns", "exposed_ns"} of each step and device with communication.

    row: the step's row of the report. [] without steps.
    """
    if not any(is_communication(name) for name in rows.table.sites.names):
        return []
    times = StepTimes(NamedRows(rows.table))
    if not len(times.rows):
        return []
    own = rows.of_table_rows()
    found = []
    for each in communication(rows.table, times.start, times.end):
        row = int(own[times.events.tree.table_row(int(times.rows[each.step]))])
        found.append(
            {
                "row": row,
                "device": each.device,
                "comm_ns": each.comm_ns,
                "exposed_ns": each.exposed_ns,
            }
        )
    return [each for each in found if each["row"] >= 0]


def _report_rows(own: Any, table_rows: list[int]) -> list[int]:
    rows = own[np.array(table_rows[:_ROWS], np.int64)] if table_rows else own[:0]
    return [int(row) for row in rows if row >= 0]
