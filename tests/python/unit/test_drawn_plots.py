# SPDX-License-Identifier: Apache-2.0
"""plot() on Axes that note what is drawn: positions, sizes, labels, bounds. Real ones: integration/test_plot.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fastprof import EventList, EventTable, Site, Track, errors
from fastprof.model.table import EventKind
from fastprof.views import plot as plots
from fastprof.views.plot import plot


class Axes:
    """Notes each call: name, positional arguments as lists, keyword arguments."""

    transAxes = "axes"  # noqa: N815

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[list[Any], dict[str, Any]]]] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> None:
            plain = [a.tolist() if isinstance(a, np.ndarray) else a for a in args]
            named = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
            self.calls.setdefault(name, []).append((plain, named))

        return call

    def only(self, name: str) -> list[Any]:
        """Positional arguments of the only call of a method."""
        ((args, _),) = self.calls[name]
        return args

    def named(self, name: str) -> dict[str, Any]:
        ((_, kwargs),) = self.calls[name]
        return kwargs


@pytest.fixture
def ax(monkeypatch: pytest.MonkeyPatch) -> Axes:
    made = Axes()

    def package(name: str, what: str) -> Any:
        assert what == "plot"
        if name == "matplotlib.pyplot":

            def subplots(layout: str) -> tuple[None, Axes]:
                assert layout == "constrained"
                return None, made

            return SimpleNamespace(subplots=subplots)
        assert name == "matplotlib"
        return SimpleNamespace(colormaps={"tab20": lambda shares: shares})

    monkeypatch.setattr(plots, "optional_package", package)
    return made


def listed(*rows: tuple[str, int, int, int], **more: Any) -> EventList:
    """Events of (name, begin in us, end in us, track)."""
    names = list(dict.fromkeys(name for name, *_ in rows))
    table = EventTable(
        {
            "start_ns": [7000 + 1000 * begin for _, begin, _, _ in rows],
            "end_ns": [7000 + 1000 * end for _, _, end, _ in rows],
            "site": [names.index(name) for name, *_ in rows],
            "track": [track for *_, track in rows],
        },
        sites=[Site(name) for name in names],
        tracks=[Track(11, 1, name="main $1"), Track(12, 1)],
        t0_ns=7000,
        t1_ns=107_000,
        **more,
    )
    return EventList.from_table(table)


def test_bars_of_averages(ax: Axes) -> None:
    events = listed(("a" * 45, 0, 10, 0), ("b", 2, 5, 0), ("c", 20, 60, 0), ("b", 70, 71, 0))
    assert plot(events, "averages", None, None) is ax
    assert ax.only("barh") == [[0, 1, 2], pytest.approx([0.040, 0.007, 0.004])]
    assert ax.only("set_yticks") == [[0, 1, 2], ["c", "a" * 39 + "\u2026", "b"]]
    assert ax.only("set_xlabel") == ["self CPU time [ms]"]
    assert ax.only("set_title") == ["self CPU time"]
    assert ax.only("invert_yaxis") == [] and "text" not in ax.calls
    cut = Axes()
    assert plot(events.key_averages(), "averages", cut, 2) is cut
    assert cut.only("set_title") == ["self CPU time: 2 of 3 names"]
    assert cut.only("set_yticks")[1] == ["c", "a" * 39 + "\u2026"]


def test_twenty_averages_if_nothing_else_is_said(ax: Axes) -> None:
    plot(listed(*((f"n{i}", 2 * i, 2 * i + 1, 0) for i in range(21))), "averages", ax, None)
    assert ax.only("set_title") == ["self CPU time: 20 of 21 names"]
    assert ax.only("set_yticks")[1] == [f"n{i}" for i in range(20)]  # equal: in list order


def test_bars_of_steps(ax: Axes) -> None:
    steps = [("ProfilerStep#4", 50, 90, 0), ("ProfilerStep#3", 0, 20, 0), ("other", 1, 2, 0)]
    plot(listed(*steps, ("ProfilerStep#5", 92, 100, 0)), "steps", ax, None)
    assert ax.only("bar") == [[0, 1, 2], pytest.approx([0.020, 0.040, 0.008])]
    assert ax.only("set_xticks") == [[0, 1, 2], ["3", "4", "5"]]
    assert ax.only("axhline") == [pytest.approx(0.020)]
    assert ax.named("axhline") == {"linestyle": "--", "linewidth": 1, "color": "gray"}
    assert ax.only("set_title") == ["steps (line: median)"]
    assert ax.only("set_xlabel") + ax.only("set_ylabel") == ["step", "time [ms]"]
    assert "text" not in ax.calls
    cut = Axes()
    plot(listed(*steps), "steps", cut, 1)
    assert cut.only("set_title") == ["steps: first 1 of 2 (line: median)"]
    assert cut.only("bar") == [[0], pytest.approx([0.020])]


@pytest.mark.parametrize(("steps", "labelled"), [(40, True), (41, False)])
def test_only_few_steps_are_labelled(ax: Axes, steps: int, labelled: bool) -> None:
    plot(listed(*((f"ProfilerStep#{i}", i, i + 1, 0) for i in range(steps))), "steps", ax, None)
    assert ("set_xticks" in ax.calls) == labelled


def test_a_thousand_steps_if_nothing_else_is_said(ax: Axes) -> None:
    plot(listed(*((f"ProfilerStep#{i}", i, i + 1, 0) for i in range(1001))), "steps", ax, None)
    assert ax.only("set_title") == ["steps: first 1,000 of 1,001 (line: median)"]


def test_the_timeline(ax: Axes) -> None:
    rows = [("outer", 10, 50, 0), ("inner", 20, 30, 0), ("leaf", 22, 24, 0), ("outer", 5, 15, 1)]
    plot(listed(*rows), "timeline", ax, None)
    lines, widths = ax.only("barh")
    how = ax.named("barh")
    drawn = sorted(zip(how["left"], widths, lines, how["color"], strict=True))
    colours = [(7 * code % 20) / 20 + 0.01 for code in (0, 0, 1, 2)]
    expected = [(0.005, 0.010, 3.5), (0.010, 0.040, 0.0), (0.020, 0.010, 1.0), (0.022, 0.002, 2.0)]
    assert drawn == [
        pytest.approx((*row, colour)) for row, colour in zip(expected, colours, strict=True)
    ]
    assert (how["height"], how["linewidth"]) == (0.9, 0)
    assert ax.only("set_yticks") == [[0.0, 3.5], [r"main \$1", "track 1"]]
    assert ax.only("set_xlim") == [0, pytest.approx(0.1)]
    assert ax.only("invert_yaxis") == [] and ax.only("set_xlabel") == ["time [ms]"]
    assert ax.only("set_title") == ["timeline"] and "text" not in ax.calls


def test_the_longest_ranges_of_a_timeline(ax: Axes) -> None:
    events = listed(("a", 0, 5, 0), ("b", 10, 30, 0), ("c", 40, 41, 0), ("d", 50, 90, 0))
    plot(events, "timeline", ax, 2)
    assert ax.only("set_title") == ["the 2 longest of 4 ranges"]
    assert ax.named("barh")["left"] == pytest.approx([0.010, 0.050])
    whole = Axes()
    plot(events, "timeline", whole, 4)
    assert whole.only("set_title") == ["timeline"] and len(whole.only("barh")[1]) == 4
    objects = Axes()
    plot(EventList(list(events)), "timeline", objects, 3)
    assert objects.only("set_title") == ["the 3 longest of 4 ranges"]


def test_plots_of_nothing_say_so(ax: Axes) -> None:
    empty = listed()
    for kind, text in (
        ("averages", "no events"),
        ("timeline", "no events"),
        ("steps", "no steps: make the profile with a schedule and call step()"),
        ("memory", "no memory was recorded: profile_memory=True"),
    ):
        each = Axes()
        plot(empty, kind, each, None)
        assert each.only("text") == [0.5, 0.5, text]
        assert each.named("text") == {"ha": "center", "va": "center", "transform": "axes"}
        assert "axhline" not in each.calls and "legend" not in each.calls
    plot(EventList([]), "memory", ax, None)  # events without a table
    assert ax.only("text")[2].startswith("no memory")


def memory_of(sizes: list[int], devices: tuple[int, ...] = (0,)) -> EventList:
    words: list[int] = []
    for size in sizes * len(devices):
        words += [1, size, 0, 0]
    count = len(sizes) * len(devices)
    table = EventTable(
        {
            "start_ns": [1000 * i for i in range(len(sizes))] * len(devices),
            "end_ns": [1000 * i for i in range(len(sizes))] * len(devices),
            "site": [number for number in range(len(devices)) for _ in sizes],
            "kind": [EventKind.MEMORY] * count,
            "payload": [4 * i for i in range(count)],
        },
        sites=[Site("[memory]", kind=int(EventKind.MEMORY), device_type=d) for d in devices],
        payload_words=np.array(words, np.int64).view(np.uint64),
        t0_ns=0,
        t1_ns=1_000_000,
    )
    return EventList.from_table(table)


def test_curves_of_memory(ax: Axes) -> None:
    plot(memory_of([1 << 20, 3 << 20, -(2 << 20)]), "memory", ax, None)
    times, held = ax.only("step")
    assert times == pytest.approx([0, 0.001, 0.002]) and held == [1, 4, 2]
    assert ax.named("step") == {"where": "post", "label": "cpu:0"}
    assert ax.only("set_title") == ["memory"]
    assert ax.only("set_xlabel") + ax.only("set_ylabel") == [
        "time [ms]", "in use [MiB]",
    ]  # fmt: skip
    assert "legend" not in ax.calls and "text" not in ax.calls
    both = Axes()
    plot(memory_of([1 << 20], devices=(0, 1)), "memory", both, None)
    assert [how["label"] for _, how in both.calls["step"]] == ["cpu:0", "cuda:0"]
    assert both.only("legend") == []


def test_long_curves_keep_their_extremes(ax: Axes) -> None:
    steps = [1, -1] * 50
    steps[30:32] = [100, -100]
    steps[61] = -50  # the lowest
    plot(memory_of([size << 20 for size in steps]), "memory", ax, 11)
    times, held = ax.only("step")
    whole = np.cumsum(steps).tolist()
    assert len(times) <= 12 and times[-1] == pytest.approx(0.099)
    assert max(held) == max(whole) == 100
    assert min(held) == min(whole)
    assert [whole[round(1000 * time)] for time in times] == held
    assert ax.only("set_title") == ["memory (at most 11 points a device: the extremes)"]
    exact = Axes()
    plot(memory_of([1] * 11), "memory", exact, 11)
    assert exact.only("set_title") == ["memory"] and len(exact.only("step")[0]) == 11


def test_wrong_kinds_and_limits() -> None:
    with pytest.raises(errors.ValueError, match=r"'pie'.*timeline, averages, steps, memory"):
        plot(listed(), "pie", Axes(), None)
    for limit in (0, -1):
        with pytest.raises(errors.ValueError, match=f"invalid limit {limit}"):
            plot(listed(), "averages", Axes(), limit)
    one = Axes()
    plot(listed(("a", 0, 1, 0)), "averages", one, 1)
    assert one.only("set_title") == ["self CPU time"]


def test_the_longest_of_many_ranges_in_any_order(ax: Axes) -> None:
    lengths = [7, 3, 9, 1, 8, 2, 6, 4, 5, 10]
    events = listed(*((f"n{i}", 100 * i, 100 * i + n, 0) for i, n in enumerate(lengths)))
    for most in range(1, 10):
        each = Axes()
        plot(events, "timeline", each, most)
        assert sorted(each.only("barh")[1]) == pytest.approx(
            [n / 1000 for n in range(11 - most, 11)]
        )
