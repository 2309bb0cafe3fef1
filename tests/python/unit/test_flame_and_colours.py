# SPDX-License-Identifier: Apache-2.0
"""Flame graphs, trees and tables with colours: exact lines with their escape sequences, on hand-written events."""

from __future__ import annotations

import re

import pytest
from made_events import built, event

from fastprof import EventList, errors
from fastprof.base.text_style import TextStyle
from fastprof.views.flame_text import flame_text
from fastprof.views.render import TableOptions, render_table
from fastprof.views.tree_text import TreeOptions, tree_text

COLOURS, BLOCKS = TextStyle(True, True), TextStyle(False, True)
RESET = "\x1b[0m"


def nested() -> EventList:
    """outer (100 us) with fit (60 us) with leaf (4 us); lone (20 us)."""
    return built(
        event("outer", 0, 100), event("fit", 10, 70), event("leaf", 20, 24), event("lone", 200, 220)
    )


def test_a_plain_flame_graph() -> None:
    assert flame_text(nested(), 60).splitlines() == [
        "all: 120.000us",
        "|outer" + " " * 44 + "|lone",
        "|fit",
        "|l",
    ]


def test_a_flame_graph_in_colours() -> None:
    lines = flame_text(nested(), 60, style=COLOURS).splitlines()
    pieces = [re.findall(r"\x1b\[30;(\d+)m([^\x1b]*)\x1b\[0m", line) for line in lines[1:]]
    assert pieces == [  # 42: ops
        [("42", "|outer".ljust(50)), ("42", "|lone".ljust(10))],
        [("42", "|fit".ljust(30))],
        [("42", "|l")],
    ]


def test_a_flame_graph_says_that_names_do_not_fit() -> None:
    calls = [event(f"function_{i}", 10 * i, 10 * i + 9) for i in range(10)]
    assert flame_text(built(*calls), 40).splitlines()[-1] == (
        "10 of 10 names do not fit into 40 columns: use a wider terminal, or the HTML report (--html)"
    )
    assert "do not fit" not in flame_text(built(*calls), 140)


def test_a_flame_graph_says_which_ranges_overlap() -> None:
    beside = built(event("a", 0, 80), event("b", 5, 85), event("c", 10, 90))
    assert "overlap" not in flame_text(beside, 60)  # all have their width
    inside = built(event("p", 0, 100), event("a", 0, 80), event("b", 5, 85), event("c", 10, 90))
    assert flame_text(inside, 60).splitlines()[-1].endswith("overlap without nesting: 2")


def test_limits_of_flame_graphs() -> None:
    assert flame_text(nested(), 60, max_depth=1).splitlines()[2:] == [
        "2 deeper levels: use a larger depth"
    ]
    assert len(flame_text(nested(), 60, max_depth=3).splitlines()) == 4
    assert flame_text(EventList([]), 60) == ""
    assert flame_text(built(event("a", 3, 3)), 60) == ""
    assert flame_text(nested(), 10).startswith("all: 120.0\n|outer  |l\n")
    with pytest.raises(errors.ValueError, match="must be at least 10 characters, not 9"):
        flame_text(nested(), 9)


def test_a_tree_in_colours() -> None:
    lines = tree_text(nested(), TreeOptions(style=COLOURS, max_width=81)).splitlines()
    assert (
        lines[0] == f"\x1b[1m{'Total':>12}{'Self':>12}{'Share':>9}{'':12}{'Count':>10}  Name{RESET}"
    )
    hot = lines[1]
    assert hot.startswith(
        f"\x1b[1;31m{'100.000us':>12}{RESET}{'40.000us':>12}\x1b[1;31m{'83.3%':>9}"
    )
    assert (
        f"{RESET}  \x1b[36m{BLOCKS.bar(100 / 120, 10).ljust(10)}{RESET}{1:>10}  \x1b[1;31mouter"
        in hot
    )
    assert lines[3].startswith(f"{'4.000us':>12}{'4.000us':>12}{'3.3%':>9}  \x1b[36m")
    assert lines[3].endswith(f"{1:>10}      leaf")
    assert lines[4].startswith("\x1b[33m")  # 16.7 %


def test_long_trees_end_with_what_is_left_out() -> None:
    many = EventList([event(f"n{i:05}", i, i + 1) for i in range(10_003)])
    lines = tree_text(many, TreeOptions()).splitlines()
    assert len(lines) == 10_002
    assert lines[-1] == "3 more lines: use a smaller depth or a larger minimal share"
    exact = EventList([event(f"n{i:05}", i, i + 1) for i in range(10_000)])
    assert len(tree_text(exact, TreeOptions()).splitlines()) == 10_001


def test_a_table_in_colours() -> None:
    options = TableOptions(style=COLOURS, sort_by="self_cpu_time_total")
    events = EventList([event("hot", 0, 90), event("warm", 100, 108), event("cold", 200, 202)])
    lines = render_table(events._frame(), options).splitlines()
    assert lines[1].startswith("\x1b[1m") and lines[1].endswith(RESET)
    assert "Self CPU bar" in lines[1] and lines[1].index("Self CPU bar") < lines[1].index(
        "Self CPU %"
    )
    width = 4 + len("warm")
    assert lines[3] == (
        f"\x1b[1;31m{'hot':>{width}}{RESET}  \x1b[36m{BLOCKS.bar(0.9, 12).ljust(12)}{RESET}  "
        f"\x1b[1;31m{'90.00%':>12}{RESET}  \x1b[1;31m{'90.000us':>12}{RESET}  {'90.00%':>12}  "
        f"{'90.000us':>12}  {'90.000us':>12}  {1:>12}  "
    )
    assert lines[4].startswith(f"\x1b[33m{'warm':>{width}}{RESET}")
    assert lines[5].startswith(f"{'cold':>{width}}  ")
    zero = EventList([event("z", 1, 1)])
    assert "31m" not in render_table(zero._frame(), options)
