# SPDX-License-Identifier: Apache-2.0
"""Traces for tests of the command line; runs fastprof's command in this process."""

from __future__ import annotations

from pathlib import Path

from trace_tables import T0

import fastprof
from fastprof.cli import main as cli
from fastprof.model.table import EventTable

__all__ = ["run", "saved_pair", "table_of"]


def run(*args: str | Path) -> int:
    return cli.main([str(arg) for arg in args])


def table_of(**calls: list[int]) -> EventTable:
    """Return a table of consecutive ranges. calls: name -> durations in us."""
    start, site, duration = [], [], []
    now = T0
    for number, durations in enumerate(calls.values()):
        for length in durations:
            start.append(now)
            duration.append(length * 1000)
            site.append(number)
            now += length * 1000 + 10
    ends = [s + d for s, d in zip(start, duration, strict=True)]
    sites = [fastprof.Site(name) for name in calls]
    return EventTable({"start_ns": start, "end_ns": ends, "site": site}, sites=sites, t0_ns=T0)


def saved_pair(folder: Path) -> tuple[Path, Path]:
    """Write two traces to compare: equal, slower, tiny, gone and new names."""
    a, b = folder / "a.fastprof", folder / "b.fastprof"
    fastprof.save(table_of(steady=[100, 100], slower=[1000], gone=[50], tiny=[1]), a)
    fastprof.save(table_of(steady=[100, 100], slower=[1200], new=[60], tiny=[3]), b)
    return a, b
