# SPDX-License-Identifier: Apache-2.0
"""Work that takes much of a program's time and is often avoidable: kinds of calls, small calls, loops. Any thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.source_hints import hint_of
from fastprof.analysis.steps import StepTimes
from fastprof.base.distinct import distinct
from fastprof.base.formatting import counted, format_time
from fastprof.base.short_paths import is_installed

__all__ = ["Cost", "by_own_code", "find_costs"]

Array: TypeAlias = NDArray[Any]
_KIND, _SMALL, _OWN = (
    0.25,
    0.3,
    0.4,
)  # share of the steps' time from which each sort of cost is claimed
_LEAST_NS = 10_000_000
_CALLS, _TYPICAL_NS = 1000, 200_000  # a small call: at least so many, in the median at most so long
_FUNCTION = re.compile(r"(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)


_COMPREHENSION = re.compile(r": <(listcomp|dictcomp|setcomp|genexpr|lambda)>$")


class Cost(NamedTuple):
    """What takes the time, in words; its rows, longest first; its time without waits; what to do."""

    text: str
    rows: Array
    ns: int
    remedy: str


class _Work(NamedTuple):
    what: str
    names: re.Pattern[str]
    remedy: str


_WORK = (
    _Work(
        "regular expressions",
        re.compile(r"of re\.Pattern object|[/\\]re[/\\]__init__\.py\(|[/\\]re\.py\("),
        "Simplify the pattern: nested repetition backtracks; test for a substring first",
    ),
    _Work(
        "queries of a database",
        re.compile(
            r"\b(execute(many|script)?|fetch(one|many|all)|commit) of [\w.]*(cursor|connection)\b",
            re.I,
        ),
        "Read many rows with one query, instead of a query for each",
    ),
    _Work(
        "copies of objects", re.compile(r"[/\\]copy\.py\("), "Copy only what changes, or not at all"
    ),
    _Work(
        "JSON and pickles",
        re.compile(r"[/\\]json[/\\]\w+\.py\(|[/\\]pickle\.py\(|function (dumps?|loads?)>"),
        "Write and read less, less often, or in a binary format",
    ),
    _Work(
        "logging",
        re.compile(r"[/\\]logging[/\\]\w+\.py\("),
        "Log less in loops, or raise the level",
    ),
    _Work(
        "dates from text",
        re.compile(r"[/\\]_strptime\.py\(|method strptime of|: strptime$"),
        "Use datetime.fromisoformat(), or keep what was parsed",
    ),
    _Work(
        "rows of a pandas frame one by one",
        re.compile(r"[/\\]pandas[/\\].*: (iterrows|itertuples|apply|applymap)$"),
        "Compute on whole columns",
    ),
    _Work(
        "arrays that grow by copies",
        re.compile(r"[/\\]numpy[/\\].*: (append|insert|delete)$|[/\\]pandas[/\\].*: concat$"),
        "Collect the parts in a list and concatenate them once",
    ),
    _Work(
        "compiling code at run time",
        re.compile(r"^<built-in function (eval|compile)>|^<string>\("),
        "Compile the code once, or use a function",
    ),
)


def find_costs(times: StepTimes, total_ns: int) -> list[Cost]:
    """Return the costs inside of steps, most time first. total_ns: time that the shares are of."""
    waits = times.events.outermost(np.flatnonzero((times.wait_kind >= 0) & (times.step_of >= 0)))
    found = list(_kinds(times, waits, total_ns))
    claimed = np.concatenate([np.zeros(0, np.int64), waits, *(cost.rows for cost in found)])
    if not found:
        found += _small_calls(times, claimed, total_ns)
    found += _own_code(times, total_ns)
    return sorted(found, key=lambda cost: -cost.ns)


def _share(ns: float, total_ns: int) -> str:
    return f"{format_time(ns / 1000)} ({100 * ns / max(total_ns, 1):.1f} %)"


def _kinds(times: StepTimes, waits: Array, total_ns: int) -> Iterator[Cost]:
    events = times.events
    for work in _WORK:
        rows = events.where(lambda name: work.names.search(name) and not _is_own(name))  # noqa: B023
        rows = events.outermost(rows[times.step_of[rows] >= 0])
        ns = int(events.total_ns(rows) - events.total_ns(events.inside(waits, rows)))
        more, more_ns = _counted_only(times, rows)
        ns += more_ns
        if ns < max(_KIND * total_ns, _LEAST_NS):
            continue
        rows = rows[np.argsort(events.start[rows] - events.end[rows], kind="stable")]
        text = f"{work.what}: {_share(ns, total_ns)} in {counted(len(rows) + more, 'call')}"
        text += by_own_code(times, rows)
        yield Cost(text, rows, ns, work.remedy)


def _counted_only(times: StepTimes, rows: Array) -> tuple[int, int]:
    """Return the number of calls of the rows' functions that were counted only, and their time by the rows' mean."""
    events = times.events
    summed = _summed(times)
    calls, ns = 0, 0
    for code in distinct(events.name_id[rows]).tolist() if summed else ():
        more = summed.get(events.names[code], 0)
        same = rows[events.name_id[rows] == code]
        calls += more
        ns += int(more * events.total_ns(same) / len(same))
    return calls, ns


def _summed(times: StepTimes) -> dict[str, int]:
    found = times.events.table.metadata.get("summed_calls")
    if not isinstance(found, dict):  # the metadata of a file may contain any value here
        return {}
    return {str(name): calls for name, calls in found.items() if isinstance(calls, int)}


def by_own_code(times: StepTimes, rows: Array) -> str:
    """Return " by FUNCTION", the function of the program in which the rows took most; "" without one.

    A comprehension counts as the function that contains it.
    """
    events = times.events
    functions = events.where(lambda name: _is_own(name) and not _COMPREHENSION.search(name))
    outer = events.nearest(rows, functions)
    inside = outer >= 0
    if not inside.any():
        return ""
    length = (events.end - events.start)[rows[inside]]
    sums = np.bincount(events.name_id[outer[inside]], length)
    return f" by {events.names[int(np.argmax(sums))]}"


def _is_own(name: str) -> bool:
    """Return whether a name is that of a call of the program's own code."""
    found = _FUNCTION.fullmatch(name)
    return (
        found is not None and not found["file"].startswith("<") and not is_installed(found["file"])
    )


def _small_calls(times: StepTimes, claimed: Array, total_ns: int) -> Iterator[Cost]:
    """The function whose many short calls take most, if that is much."""
    events = times.events
    summed = _summed(times)
    inside = np.flatnonzero(times.step_of >= 0)
    count = np.bincount(events.name_id[inside], minlength=len(events.names))
    length = np.bincount(
        events.name_id[inside], (events.end - events.start)[inside], minlength=len(events.names)
    )
    best: Cost | None = None
    for code in np.flatnonzero(count).tolist():
        name = events.names[code]
        calls = int(count[code]) + summed.get(name, 0)
        mean = length[code] / count[code]
        if calls < _CALLS or calls * mean < max(_SMALL * total_ns, _LEAST_NS):
            continue
        rows = inside[events.name_id[inside] == code]
        # Not the mean: on a busy machine, few of the calls have the time of all other programs.
        if float(np.median(events.end[rows] - events.start[rows])) > _TYPICAL_NS:
            continue
        rows = events.outermost(rows)
        if not _is_own(name) or _COMPREHENSION.search(name) or len(np.intersect1d(rows, claimed)):
            continue
        ns = int(events.total_ns(rows) * calls / count[code])
        if best is None or ns > best.ns:
            text = f"{name} is called {calls:,} times" + by_own_code(times, rows)
            remedy = f"Call {name} less often: keep its result, or let one call do the work of many"
            best = Cost(f"{text}: {_share(ns, total_ns)}", rows, ns, remedy)
    if best is not None:
        yield best


def _own_code(times: StepTimes, total_ns: int) -> Iterator[Cost]:
    """Functions of the program whose own code takes much, where the source says why."""
    events = times.events
    if not len(times.names):
        return
    sums = times.self_ns.sum(axis=0)
    for code, ns in zip(times.names.tolist(), sums.tolist(), strict=True):
        if ns < max(_OWN * total_ns, _LEAST_NS):
            break
        function = _FUNCTION.fullmatch(events.names[code])
        if function is None or is_installed(function["file"]):
            continue
        hint = hint_of(function["file"], int(function["line"]))
        if hint is not None:
            text = f"{events.names[code]}: {_share(ns, total_ns)} in its own code: {hint.what} (line {hint.line})"
            yield Cost(text, times.events_of(code), int(ns), hint.remedy)
