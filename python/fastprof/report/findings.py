# SPDX-License-Identifier: Apache-2.0
"""The findings of explain(), for the report's summary."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastprof.analysis.explanation import explain
from fastprof.base.short_paths import shorten_paths
from fastprof.report.rows import ReportRows
from fastprof.report.texts import bounded

__all__ = ["findings_of"]

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


def _report_rows(own: Any, table_rows: list[int]) -> list[int]:
    rows = own[np.array(table_rows[:_ROWS], np.int64)] if table_rows else own[:0]
    return [int(row) for row in rows if row >= 0]
