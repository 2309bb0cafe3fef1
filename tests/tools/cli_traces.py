# SPDX-License-Identifier: Apache-2.0
"""Traces for tests of the command line; runs fastprof's command in this process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from trace_tables import T0

import fastprof
from fastprof.cli import main as cli
from fastprof.model.table import EventTable


@pytest.fixture(autouse=True)
def own_process_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Restore everything that a program changes in this process, in each test of a module that imports it."""
    main, hook, argv, path = sys.modules["__main__"], sys.excepthook, sys.argv[:], sys.path[:]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(threading, "_threading_atexits", [])  # the end of a program ends all pools
    yield
    sys.modules["__main__"], sys.excepthook = main, hook
    sys.argv[:], sys.path[:] = argv, path


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
