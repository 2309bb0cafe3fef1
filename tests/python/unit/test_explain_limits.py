# SPDX-License-Identifier: Apache-2.0
"""explain() on either side of each limit below which it claims nothing; the whole text of a small example."""

from __future__ import annotations

from typing import Any

import pytest

import fastprof
from fastprof.analysis import explain
from fastprof.analysis.explanation import Explanation

LOADER = "load data"  # a wait
Step = tuple[int, dict[str, int]]  # duration and what is in it, ns


def explained(*steps: Step, others: tuple[tuple[str, int, int], ...] = ()) -> Explanation:
    """Explain steps one after another; others: (name, start, end) on another thread."""
    rows: list[tuple[str, int, int, int]] = []
    at = 0
    for number, (duration, inside) in enumerate(steps):
        begin = at
        for name, ns in inside.items():
            rows.append((name, begin, begin + ns, 0))
            begin += ns
        rows.append((f"ProfilerStep#{number}", at, at + duration, 0))
        at += duration
    rows += [(*other, 1) for other in others]
    names = list(dict.fromkeys(name for name, *_ in rows))
    table = fastprof.EventTable(
        {
            "start_ns": [row[1] for row in rows],
            "end_ns": [row[2] for row in rows],
            "site": [names.index(row[0]) for row in rows],
            "track": [row[3] for row in rows],
        },
        sites=[
            fastprof.Site(n, category="cpu_op" if n.startswith("aten") else "user_annotation")
            for n in names
        ],
        tracks=[fastprof.Track(1, name="main"), fastprof.Track(2, name="writer")],
    )
    return explain(table)


def texts(claims: list[Any]) -> list[str]:
    return [claim.text for claim in claims]


@pytest.mark.parametrize(("wait", "claimed"), [(99, False), (100, True), (101, True)])
def test_waits_of_a_twentieth_are_claimed(wait: int, claimed: bool) -> None:
    found = explained((2000, {LOADER: wait, "work": 1900 - wait}))
    assert texts(found.waits) == (
        [f"waiting for data: 0.{wait:03}us ({wait / 20:.1f} %) in 1 call"] if claimed else []
    )
    assert (found.first is not None) == claimed


@pytest.mark.parametrize(("rest", "claimed"), [(0, False), (100, False), (101, True)])
def test_time_outside_of_events_is_claimed_above_a_twentieth(rest: int, claimed: bool) -> None:
    found = explained((2000, {"work": 2000 - rest}))
    assert texts(found.where)[1:] == (
        [f"{rest / 20:5.1f} %     0.{rest}us  outside of any event"] if claimed else []
    )


@pytest.mark.parametrize(("small", "shown"), [(99, False), (100, True)])
def test_names_and_categories_from_a_thousandth_on_are_shown(small: int, shown: bool) -> None:
    found = explained((100_000, {"work": 100_000 - small, "aten::small": small}))
    assert len(found.where) == len(found.categories) == 1 + shown
    assert found.where[0].ns == 100_000 - small


def test_eight_names_are_shown_of_each() -> None:
    found = explained((1000, {f"name{i}": 100 - i for i in range(9)}))
    assert [claim.ns for claim in found.where] == [*range(100, 92, -1), 1000 - 864]
    assert [claim.rows for claim in found.where] == [[i] for i in range(8)] + [[]]
    assert explained(*[(10, {"work": 9})] * 7).where[0].rows == [0, 2, 4, 6, 8]  # five of them


def changed(before: list[int], after: list[int], work: tuple[int, int] = (1, 1)) -> list[str]:
    middle = [(before[0], {"work": work[0]})] * len(before)
    steps = [(ns, {"work": work[0]}) for ns in before] + middle
    return texts(explained(*steps, *((ns, {"work": work[1]}) for ns in after)).changed)


def test_a_change_of_a_fifth_is_claimed() -> None:
    longer = "steps became longer: median 0.100us in the first third, 0.120us in the last"
    assert changed([100] * 3, [120] * 3) == [longer]
    assert changed([100] * 3, [119] * 3) == []
    assert changed([100] * 2, [120] * 2) == []  # six steps: a third is less than three
    shorter = "steps became shorter: median 0.100us in the first third, 0.080us in the last"
    assert changed([100] * 3, [80] * 3) == [shorter]
    assert changed([100] * 3, [81] * 3) == []


def test_a_change_is_three_times_what_steps_differ_by_otherwise() -> None:
    assert changed([100] * 3, [120, 130, 140])  # 30, by 10
    assert not changed([100] * 3, [119, 130, 141])  # 30, by 11
    assert not changed([90, 100, 110], [130] * 3 + [129])[1:]
    assert changed([90, 100, 110], [130, 130, 130])
    assert not changed([99, 110, 121], [140, 140, 140])
    assert not changed([95, 100, 105], [124, 130, 136])  # 30, by 5 and 6


def test_a_name_explains_a_change_from_three_tenths_of_it_on() -> None:
    (text,) = changed([100] * 3, [120] * 3, work=(80, 86))
    assert text.endswith("in the last; 0.006us of it in work")
    (text,) = changed([100] * 3, [120] * 3, work=(80, 85))
    assert text.endswith("in the last")
    (text,) = changed([120] * 3, [90] * 3, work=(80, 71))
    assert text.endswith("in the last; 0.009us of it in work")
    (text,) = changed([100] * 3, [120] * 3, work=(80, 70))
    assert text.endswith("in the last")  # it became shorter


def slow(*steps: Step, **more: Any) -> list[str]:
    return texts(explained(*steps, **more).slowest)


def test_a_step_is_slow_from_one_and_a_half_times_the_median_on() -> None:
    usual = (100, {"work": 90})
    name = "ProfilerStep#2 took 0.150us, 0.050us more than the median: "
    assert slow(usual, usual, (150, {"work": 140})) == [name + "0.050us of it in work"]
    assert slow(usual, usual, (149, {"work": 139})) == []
    assert slow((100, {"work": 90}), (150, {"work": 140})) == []  # of two steps, none is slow
    many = [(300 + i, {"work": 290 + i}) for i in range(4)]
    assert [text.split()[0] for text in slow(*[usual] * 5, *many)] == [
        "ProfilerStep#8", "ProfilerStep#7", "ProfilerStep#6",
    ]  # fmt: skip


def test_a_name_explains_a_slow_step_from_three_tenths_on() -> None:
    usual = (1000, {"work": 900, "more": 50})
    (text,) = slow(usual, usual, usual, (2000, {"work": 1200, "more": 50}))
    assert text.endswith("1.000us more than the median: 0.300us of it in work")
    (text,) = slow(usual, usual, usual, (2000, {"work": 1199, "more": 50}))
    assert text.endswith("more than the median: 0.701us of it outside of any event")
    rest = {f"new{i}": 175 for i in range(4)}
    (text,) = slow(usual, usual, usual, (2000, {"work": 900, "more": 50, **rest}))
    assert text.endswith("more than the median: 0.300us of it outside of any event")
    rest["more"] = 51
    (text,) = slow(usual, usual, usual, (2000, {"work": 900, **rest}))
    assert text.endswith("1.000us more than the median")


def test_what_another_thread_ran_meanwhile() -> None:
    usual = (1000, {"work": 900})
    steps = [usual, usual, usual, (2000, {"work": 900})]
    # The step begins at 3000; nothing covers it from 3900 on.
    (text,) = slow(*steps, others=(("save", 3900, 3901), ("before", 3000, 3900)))
    assert text.endswith("1.000us of it outside of any event; meanwhile thread writer ran save")
    (text,) = slow(*steps, others=(("before", 3000, 3900), ("after", 5000, 5100)))
    assert text.endswith("1.000us of it outside of any event")


def test_slow_steps_are_looked_at_first_if_they_cost_a_twentieth() -> None:
    usual, long = (100, {"work": 100}), (200, {"work": 100, "other": 100})
    first = explained(*[usual] * 18, long).first
    assert first is not None and first.ns == 100
    assert first.text.startswith("Look at the slow steps: ProfilerStep#18 took 0.200us")
    assert explained(*[usual] * 19, long).first is None
    both = explained(*[usual] * 10, (200, {"work": 50, LOADER: 150})).first
    assert both is not None and both.ns == 150 and both.text.endswith("(up to 0.150us)")


def test_the_whole_text() -> None:
    usual = (10_000, {"aten::mm": 8_000, LOADER: 2_000})
    slowest = (20_000, {"aten::mm": 8_000, LOADER: 12_000})
    found = explained(usual, usual, slowest, usual)
    assert found.text().splitlines() == [
        "4 steps, median 10.000us",
        "",
        "Where the time went (self time)",
        "   64.0 %    32.000us  aten::mm  (4 calls)",
        "   36.0 %    18.000us  load data  (4 calls)",
        "",
        "By category (self time)",
        "   64.0 %    32.000us  ops of PyTorch",
        "   36.0 %    18.000us  waits",
        "",
        "Waits",
        "  waiting for data: 18.000us (36.0 %) in 4 calls",
        "",
        "Slowest steps",
        "  ProfilerStep#2 took 20.000us, 10.000us more than the median: 10.000us of it in load data (waiting for data)",
        "",
        "What to do first",
        "  Load data ahead: more workers for the loader, or prefetching (up to 18.000us)",
    ]
    assert found.to_dict()["slowest"][0] == {
        "text": found.slowest[0].text, "ns": 10_000, "rows": [8, 7],
    }  # fmt: skip
