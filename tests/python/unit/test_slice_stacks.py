# SPDX-License-Identifier: Apache-2.0
"""SliceStacks: begins and ends of slices in the order of a file, and sorted; what is counted as skipped."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fastprof.importers.slice_stacks import SliceStacks
from fastprof.importers.table_builder import TableBuilder
from fastprof.model.table import EventFlag, EventKind, Site

FINISHED = int(EventFlag.FINISHED)
WITHIN = "begin without end, within a slice that ended"


class Slices:
    """Rows by name, begun and ended by hand."""

    def __init__(self, is_sorted: bool = False) -> None:
        self.rows = TableBuilder()
        self.skipped: Counter[str] = Counter()
        self.stacks = SliceStacks(self.rows, self.skipped, is_sorted)
        self.numbers: dict[str, int] = {}

    def begin(self, name: str, time_ns: int, track: str = "t", category: str = "") -> None:
        site = self.rows.site_of(Site(name, category=category))
        number = self.rows.track_of(track, 7, 8)
        row = self.rows.add(EventKind.RANGE, time_ns, time_ns, site, number, 0)
        self.numbers[name] = row
        self.stacks.begin(track, time_ns, row)

    def ends(self) -> dict[str, tuple[int, bool]]:
        return {
            name: (self.rows.end[row], bool(self.rows.flags[row] & FINISHED))
            for name, row in self.numbers.items()
        }


@pytest.mark.parametrize("is_sorted", [False, True])
def test_slices_end_from_the_inside_out(is_sorted: bool) -> None:
    slices = Slices(is_sorted)
    slices.begin("outer", 10)
    slices.begin("inner", 20)
    slices.begin("other", 25, track="u")
    slices.stacks.end_innermost("t", 30)
    slices.stacks.end_innermost("t", 40)
    slices.stacks.end_innermost("u", 45)
    slices.stacks.finish(99)
    assert slices.ends() == {"outer": (40, True), "inner": (30, True), "other": (45, True)}
    assert slices.stacks.in_order and not slices.skipped


def test_ends_without_a_begin_are_counted() -> None:
    slices = Slices()
    slices.stacks.end_innermost("t", 5)
    slices.begin("a", 10)
    slices.stacks.end_innermost("t", 20)
    slices.stacks.end_innermost("t", 30)
    slices.stacks.end("t", 31, "a")
    slices.stacks.finish(99)
    assert slices.ends() == {"a": (20, True)} and slices.skipped == {"end without begin": 3}


def test_times_that_decrease_are_noticed_and_sorted_on_request() -> None:
    for out_of_order in ("begin", "end", "innermost"):
        slices = Slices()
        slices.begin("a", 10)
        slices.begin("b", 20)
        assert slices.stacks.in_order
        if out_of_order == "begin":
            slices.begin("c", 19)
        elif out_of_order == "end":
            slices.stacks.end("t", 19)
        else:
            slices.stacks.end_innermost("t", 19)
            assert slices.ends()["b"] == (20, True)  # not before its begin
        assert not slices.stacks.in_order
    for time_ns, in_order in ((20, True), (19, False)):
        slices = Slices()
        slices.begin("a", 10)
        slices.begin("b", 20)
        slices.stacks.end_innermost("t", time_ns)
        assert slices.stacks.in_order == in_order
    slices = Slices(is_sorted=True)
    slices.begin("late", 30)
    slices.stacks.end_innermost("t", 40)
    slices.begin("early", 10)
    slices.stacks.end_innermost("t", 20)
    slices.stacks.finish(99)
    assert slices.ends() == {"late": (40, True), "early": (20, True)} and slices.stacks.in_order


def test_what_is_open_at_the_end_stays_unfinished() -> None:
    slices = Slices()
    slices.begin("open", 10)
    slices.begin("after the end", 120)
    slices.stacks.unfinished.add(slices.numbers["open"])
    slices.stacks.finish(99)
    assert slices.ends() == {"open": (99, False), "after the end": (120, False)}
    marked = Slices()
    for name, at in (("a", 10), ("b", 20)):
        marked.begin(name, at)
        marked.stacks.unfinished.add(marked.numbers[name])
    marked.stacks.end_innermost("t", 30)
    marked.stacks.end("t", 40)
    assert marked.ends() == {"a": (40, False), "b": (30, False)}


def test_ends_with_a_name_close_what_is_inside() -> None:
    def ended(*end: Any, **more: Any) -> tuple[dict[str, tuple[int, bool]], Counter[str]]:
        slices = Slices()
        slices.begin("a", 10, category="x")
        slices.begin("b", 20, category="y")
        slices.begin("c", 30, category="y")
        slices.stacks.end("t", 50, *end, **more)
        slices.stacks.finish(99)
        return slices.ends(), slices.skipped

    open_ = (99, False)
    assert ended() == ({"a": open_, "b": open_, "c": (50, True)}, {})
    assert ended("b") == ({"a": open_, "b": (50, True), "c": (50, True)}, {WITHIN: 1})
    assert ended("a") == ({"a": (50, True), "b": (50, True), "c": (50, True)}, {WITHIN: 2})
    assert ended("", "y") == ended()
    assert ended("", "x") == ended("a") == ended("a", "x")
    assert ended("a", "y") == ({"a": open_, "b": open_, "c": open_}, {"end without begin": 1})
    assert ended("none")[1] == {"end without begin": 1}


def test_arguments_of_the_end_join_those_of_the_begin() -> None:
    slices = Slices()
    slices.begin("a", 10)
    slices.stacks.end("t", 20, args={"bytes": 4})
    assert slices.rows.metadata(slices.numbers["a"]) == {"bytes": 4}


@pytest.mark.parametrize("time_ns", [1 << 63, -(1 << 63) - 1])
def test_times_beyond_64_bits(time_ns: int) -> None:
    slices = Slices()
    with pytest.raises(OverflowError):
        slices.stacks.end("t", time_ns)
    slices.stacks.end("t", (1 << 63) - 1)
    slices.stacks.end("t", -(1 << 63))


def test_the_memory_that_is_kept_is_bounded_from_above() -> None:
    plain, kept = Slices(), Slices(is_sorted=True)
    for slices in (plain, kept):
        assert slices.stacks.estimate_bytes() == 0
        slices.begin("a", 10)
    one = kept.stacks.estimate_bytes()
    assert plain.stacks.estimate_bytes() > 0 and one > 0
    kept.stacks.end("t", 20, size_bytes=1000)
    assert kept.stacks.estimate_bytes() == 2 * one + 1000
