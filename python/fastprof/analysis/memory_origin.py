# SPDX-License-Identifier: Apache-2.0
"""Origin: the ranges and the Python stack around an allocation. Any thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastprof.model.table import EventTable

__all__ = ["BEFORE", "OUTSIDE", "Origin", "origin_around", "place_text"]

# Texts in place of the ranges around an allocation.
BEFORE = "before the recording"
OUTSIDE = "outside of any range"


@dataclass(frozen=True)
class Origin:
    """The code that made an allocation.

    ranges: names of the enclosing ranges and ops, outermost first. stack: Python stack, innermost first:
    recorded with with_stack=True, else the enclosing Python calls (python_calls=True), else ().
    Both are empty for memory from before the session.
    """

    ranges: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.ranges and not self.stack:
            return BEFORE
        return " > ".join(self.ranges) + (f" at {self.stack[0]}" if self.stack else "")


def origin_around(table: EventTable, row: int) -> Origin:
    """Return the origin of an allocation directly inside of a row. row: -1: outside of any, an empty Origin."""
    parents = table.column("parent") if table.has("parent") else None
    stacks = table.coded.get("stack")
    sites, categories = table.column("site"), table.sites.field("category")
    ranges: list[str] = []
    stack: tuple[str, ...] = ()
    calls: list[str] = []
    while row >= 0:
        site = int(sites[row])
        if categories[site] == "python_function":
            calls.append(table.sites.names[site])
        else:
            ranges.append(table.sites.names[site])
        if stacks is not None and not stack:
            stack = tuple(stacks[row] or ())
        row = -1 if parents is None else int(parents[row])
    return Origin(tuple(reversed(ranges)), stack or tuple(calls))


def place_text(ranges: Sequence[str], stack: Sequence[str], without: str) -> str:
    """Return ranges and the innermost frame as text: "step > aten::add at train.py(3): f".

    without: the text if both are empty, such as BEFORE or OUTSIDE.
    """
    place = " > ".join(ranges) or ("" if stack else without)
    return f"{place} at {stack[0]}".strip() if stack else place
