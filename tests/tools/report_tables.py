# SPDX-License-Identifier: Apache-2.0
"""Tables of a few rows for tests of the HTML report, and reports written of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from report_reader import ReportData, read_report
from trace_tables import T0

import fastprof
from fastprof import EventTable
from fastprof.report.export import export_html


def written(
    events: Any, folder: Path, prefix: str = "a", name: str = "r.html", **more: Any
) -> ReportData:
    """Write the report and return its data; prefix: "a" or, of a comparison, "b"."""
    export_html(events, folder / name, **more)
    return read_report(folder / name, prefix)


def made(rows: Sequence[tuple[int, int, int, int]], **more: Any) -> EventTable:
    """Return a table of rows (start, end, site, track), times in ns from T0; sites 0 to 3 are named a, b, c, d."""
    columns = np.array(rows, np.int64).reshape(-1, 4)
    return EventTable(
        {
            "start_ns": T0 + columns[:, 0],
            "end_ns": T0 + columns[:, 1],
            "site": columns[:, 2],
            "track": columns[:, 3],
            **more.pop("columns", {}),
        },
        sites=[fastprof.Site(name) for name in "abcd"],
        tracks=[fastprof.Track(0, 7, 70, "main"), fastprof.Track(1, 7, 71)],
        t0_ns=T0,
        **more,
    )
