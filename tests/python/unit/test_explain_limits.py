# SPDX-License-Identifier: Apache-2.0
"""explain() on either side of each limit below which it claims nothing; the whole text of a small example."""

from __future__ import annotations

from typing import Any

import fastprof
from fastprof.analysis import explain
from fastprof.analysis.explanation import Explanation

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
