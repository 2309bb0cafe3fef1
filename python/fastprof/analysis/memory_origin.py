# SPDX-License-Identifier: Apache-2.0
"""Origin: the ranges and the Python stack around an allocation. Any thread."""

from __future__ import annotations

from dataclasses import dataclass

from fastprof.model.table import EventTable

__all__ = ["Origin", "origin_around"]


@dataclass(frozen=True)
class Origin:
    """What allocated: names of the ranges and ops around, outermost first; Python stack, innermost first.

    Both are empty for memory from before the session, and outside of any range. stack: recorded with
    with_stack=True, else the calls of Python around (python_calls=True), else ().
    """

    ranges: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.ranges and not self.stack:
            return "before the recording"
        return " > ".join(self.ranges) + (f" at {self.stack[0]}" if self.stack else "")


def origin_around(table: EventTable, row: int) -> Origin:
    """Return the origin of what happens directly inside of a row; -1: outside of any."""
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
