# SPDX-License-Identifier: Apache-2.0
"""A list over rows does what a list of the same objects does, whichever of its methods comes first."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from made_events import event

from fastprof.model.table import EventTable, Site
from fastprof.views import EventList

Change = Callable[[Any], Any]

READS: dict[str, Change] = {
    "len": len,
    "bool": bool,
    "iter": list,
    "reversed": lambda x: list(reversed(x)),
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
    "lowest index": lambda x: x[-len(x)],
    "numpy index": lambda x: x[np.int64(1)],
    "slice": lambda x: x[1:3],
    "backward slice": lambda x: x[::-2],
    "contains": lambda x: x[2] in x,
    "contains nothing": lambda x: None in x,
    "index": lambda x: x.index(x[2]),
    "index from": lambda x: x.index(x[2], 1, 3),
    "count": lambda x: (x.count(x[1]), x.count(None)),
    "copy": lambda x: x.copy(),
    "add": lambda x: x + x[:1],
    "same": lambda x: (x == x, x != x),
    "equal": lambda x: (x == list(x), list(x) == x, x != list(x)),
    "shorter": lambda x: (x == x[1:], x != x[1:]),
    "no list": lambda x: (x == tuple(x), x != tuple(x)),
}
CHANGES: dict[str, Change] = {
    "append": lambda x: x.append(x[0]),
    "clear": lambda x: x.clear(),
    "extend": lambda x: x.extend(x[:2]),
    "insert": lambda x: x.insert(1, x[3]),
    "pop": lambda x: x.pop(),
    "pop first": lambda x: x.pop(0),
    "remove": lambda x: x.remove(x[1]),
    "reverse": lambda x: x.reverse(),
    "sort": lambda x: x.sort(key=id),
    "set item": lambda x: operator.setitem(x, 0, x[2]),
    "set slice": lambda x: operator.setitem(x, slice(1, 3), []),
    "delete": lambda x: operator.delitem(x, 1),
    "in-place add": lambda x: operator.iadd(x, x[1:2]) is x,
    "in-place times": lambda x: operator.imul(x, 2) is x,
    "times": lambda x: x * 2,
    "times from the left": lambda x: 2 * x,
}
ERRORS: dict[str, Change] = {
    "too high": lambda x: x[len(x)],
    "too low": lambda x: x[-len(x) - 1],
    "index of nothing": lambda x: x.index(None),
    "index behind it": lambda x: x.index(x[0], 1),
    "hash": hash,
    "less": lambda x: x < list(reversed(x)),
    "less or equal": lambda x: x <= list(reversed(x)),
    "greater": lambda x: x > list(reversed(x)),
    "greater or equal": lambda x: x >= list(reversed(x)),
}


def ranges() -> EventList:
    starts = [0, 1000, 2000, 5000]
    table = EventTable(
        {"start_ns": starts, "end_ns": [9000, 4000, 3000, 6000], "site": [0, 1, 2, 1], "parent": [-1, 0, 1, 0]},
        sites=[Site(name) for name in ("a", "b", "c")],
    )  # fmt: skip
    return EventList.from_table(table)


def averages() -> EventList:
    table = EventTable(
        {"start_ns": range(5), "end_ns": range(1, 6), "site": [0, 1, 2, 3, 0]},
        sites=[Site(name) for name in ("a", "b", "c", "d")],
    )
    return EventList.from_table(table).key_averages()


@pytest.mark.parametrize("make", [ranges, averages])
@pytest.mark.parametrize("change", [*READS, *CHANGES])
def test_a_list_over_rows_is_as_a_list_of_objects(
    make: Callable[[], EventList], change: str
) -> None:
    over_rows = make()
    plain = list(over_rows)
    method = (READS | CHANGES)[change]
    assert len(over_rows) == len(plain) == 4 and over_rows._rows is not None
    assert method(over_rows) == method(plain)
    assert [id(e) for e in over_rows] == [id(e) for e in plain]
    assert list.__len__(over_rows) == (len(plain) if change in CHANGES else 0)
    assert len(over_rows) == len(plain) and bool(over_rows) == bool(plain)


@pytest.mark.parametrize("make", [ranges, averages])
@pytest.mark.parametrize("wrong", ERRORS)
def test_errors_of_a_list_over_rows_are_those_of_a_list(
    make: Callable[[], EventList], wrong: str
) -> None:
    over_rows = make()
    with pytest.raises((IndexError, ValueError, TypeError)) as plain:
        ERRORS[wrong](list(over_rows))
    with pytest.raises(plain.type):
        ERRORS[wrong](over_rows)
    assert len(over_rows) == 4


def test_events_of_a_changed_list_live_on_without_it() -> None:
    """What was read of an event, and changed in place, stays with it as long as its relatives are known."""
    events = ranges()
    events[1].kernels.append("mine")
    assert events[1].kernels == []  # an event that nobody held was made anew
    child = events[1]
    child.kernels.append("mine")  # type: ignore[arg-type]
    events.append(event("more", 20, 21))
    del child, events[1]
    gc.collect()
    assert [e.name for e in events] == ["a", "c", "b", "more"]
    assert events[0].cpu_children[0].kernels == ["mine"]
    assert events[1].cpu_parent is events[0].cpu_children[0]
