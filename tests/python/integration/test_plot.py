# SPDX-License-Identifier: Apache-2.0
"""EventList.plot: what is drawn equals the table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python

import fastprof
from fastprof import EventList, EventTable, Site, errors

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pytestmark = pytest.mark.integrations


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    import matplotlib.pyplot

    matplotlib.pyplot.close("all")


def recorded() -> fastprof.profile:
    with fastprof.profile(schedule=fastprof.schedule(wait=0, warmup=1, active=4)) as prof:
        for i in range(4):
            with fastprof.record_function("$cost$ \x1b[31m"), fastprof.record_function("inner"):
                fastprof.report_memory_usage(64, 1 << 20 if i < 2 else -(1 << 20))
            prof.step()
    return prof


def test_averages_are_those_of_the_table() -> None:
    prof = recorded()
    ax = prof.plot("averages")
    widths = [bar.get_width() for bar in ax.patches]
    averages = sorted(prof.key_averages(), key=lambda a: -a.self_cpu_time_total)
    assert widths == pytest.approx([a.self_cpu_time_total / 1e3 for a in averages])
    labels = [label.get_text().replace("\\$", "$") for label in ax.get_yticklabels()]
    assert labels == [a.key.replace("\x1b", "\u241b") for a in averages]
    assert prof.key_averages().plot("averages", limit=2).get_title().endswith("2 of 3 names")
    with pytest.warns(UserWarning, match="missing from font"):  # the symbol for ESC
        ax.figure.savefig(os.devnull, format="png")


def test_steps_have_their_durations() -> None:
    prof = recorded()
    ax = prof.plot("steps")
    steps = [event for event in prof.events() if event.name.startswith("ProfilerStep")]
    assert len(steps) >= 3
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(
        [event.time_range.elapsed_us() / 1e3 for event in steps]
    )
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == [str(event.trace_name).partition("#")[2] for event in steps]


def test_the_timeline_has_each_range_at_its_place() -> None:
    prof = recorded()
    ax = prof.plot()
    events = prof.events()
    drawn = sorted((bar.get_x(), bar.get_width()) for bar in ax.patches)
    expected = sorted((e.time_range.start / 1e3, e.time_range.elapsed_us() / 1e3) for e in events)
    assert np.allclose(drawn, expected)
    depths = {bar.get_y() + bar.get_height() / 2 for bar in ax.patches}
    assert len(depths) == 3  # step, range, inner


def test_a_timeline_is_bounded_and_says_so() -> None:
    start = np.arange(1_000_000) * 1000
    table = EventTable(
        {"start_ns": start, "end_ns": start + 1 + np.arange(1_000_000) % 999, "site": start * 0},
        sites=[Site("a")],
    )
    ax = EventList.from_table(table).plot(limit=50)
    assert len(ax.patches) == 50
    assert ax.get_title() == "the 50 longest of 1,000,000 ranges"
    assert min(bar.get_width() for bar in ax.patches) == pytest.approx(999e-6)


def test_memory_is_the_running_sum() -> None:
    with fastprof.profile(profile_memory=True) as prof:
        for size in (1 << 20, 2 << 20, -(1 << 20)):
            fastprof.report_memory_usage(64, size)
    line = prof.plot("memory").lines[0]
    assert list(line.get_ydata()) == [1, 3, 2]
    assert list(prof.plot("memory", limit=3).lines[0].get_ydata())[-1] == 2


def test_given_axes_are_used_and_nothing_is_drawn_of_nothing() -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2)
    with fastprof.profile() as empty:
        pass
    for ax, kind in zip(axes.flat, ("timeline", "averages", "steps", "memory"), strict=True):
        assert empty.plot(kind, ax=ax) is ax
        assert not ax.patches
        (text,) = ax.texts
        assert text.get_text().startswith("no ")
    figure.savefig(os.devnull, format="png")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"kind": "pie"}, "Use one of timeline"), ({"limit": 0}, "invalid limit")],
)
def test_wrong_arguments(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.ValueError, match=said):
        EventList([]).plot(**arguments)


def test_without_matplotlib_the_error_names_the_extra(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["matplotlib"] = None
import fastprof
with fastprof.profile() as prof:
    pass
try:
    prof.plot()
except fastprof.errors.UnavailableError as error:
    print(error)
"""
    done = python("-c", code, check=True)
    assert "pip install 'fastprof[plot]'" in done.stdout
