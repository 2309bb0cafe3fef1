# SPDX-License-Identifier: Apache-2.0
"""The critical path by op and rank, and steps with faster ops, as lines for a terminal and as values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import counted, format_time
from fastprof.base.number_list import number_list
from fastprof.base.visible_text import short_text, shortened, visible_text
from fastprof.ranks.job import Job
from fastprof.ranks.step_graph import StepGraph

__all__ = ["parse_what_if", "path_lines", "path_values"]

_STEPS = 20
_MOST_EVENTS = 200_000  # of all ranks; with more, the path by op is found only on request
_SHOWN = 12
_NO_PATH: dict[str, Any] = {"path_by_op": [], "path_steps": 0, "inferred_waits": [], "what_if": []}


def parse_what_if(texts: Sequence[str]) -> list[tuple[str, float]]:
    """Return (name, factor) of each "NAME=K". Raises errors.ValueError for anything else."""
    found = []
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            factor = float(number.removesuffix("x"))
        except ValueError:
            factor = 0.0
        if not name or not 1e-6 <= factor <= 1e6:
            raise errors.ValueError(
                f"invalid what-if {text!r}. Write a name or a pattern and how many times faster, such as 'aten::mm=2':"
                " 1e-6 to 1e6."
            )
        found.append((name, factor))
    return found


def _checked(what_if: Any) -> list[tuple[str, float]]:
    """Return pairs of a name and a number. Raises errors.ValueError for anything else."""
    pairs = (
        list(what_if) if isinstance(what_if, Sequence) and not isinstance(what_if, str) else None
    )
    if pairs is None or not all(
        isinstance(pair, Sequence) and len(pair) == 2 and isinstance(pair[0], str)
        and isinstance(pair[1], Real) for pair in pairs
    ):  # fmt: skip
        raise errors.ValueError(
            f"invalid what_if {short_text(what_if)}. Pass pairs of a name and how many times faster it is, such as "
            "[('aten::mm', 2)]; () for none."
        )
    return [(name, float(factor)) for name, factor in pairs]


def path_values(job: Job, what_if: Sequence[tuple[str, float]] = ()) -> dict[str, Any]:
    """Return the critical path of the first steps by op and rank, most first, and the length of faster steps.

    what_if: names with how many times faster they are: each by itself, then all together. Times are integer ns, means
    of a step. The path is left out of jobs with many events unless what_if is given. Raises errors.ValueError for a
    name that no event of these steps has, or for anything but pairs of a name and a number.
    """
    what_if = _checked(what_if)
    events = sum(int(each.get("events") or 0) for each in job.manifests)
    steps = job.complete_steps[:_STEPS].tolist() if job.clocks else []
    if what_if and not steps:
        raise errors.ValueError(
            "there is no step of all ranks with known clocks to replay. Leave --what-if out."
        )
    if not steps or (events > _MOST_EVENTS and not what_if):
        return dict(_NO_PATH)
    try:
        graphs = [job.step_graph(step) for step in steps]
    except errors.FormatError:  # no shard has what graphs need
        if job.strict or what_if:
            raise
        return dict(_NO_PATH)
    spent: dict[tuple[int, str, str], int] = {}
    for graph in graphs:
        for piece in graph.path():
            key = piece.rank, piece.what, piece.name
            spent[key] = spent.get(key, 0) + piece.end_ns - piece.start_ns
    total = max(sum(spent.values()), 1)
    cases = [{name: factor} for name, factor in what_if]
    if len(cases) > 1:
        cases.append(dict(what_if))
    return {
        "path_by_op": [
            {"rank": rank, "what": what, "name": name, "ns": ns // len(steps), "percent": 100 * ns / total}
            for (rank, what, name), ns in sorted(spent.items(), key=lambda each: -each[1])
        ],
        "path_steps": len(steps),
        "inferred_waits": sorted({rank for graph in graphs for rank in graph.inferred}),
        "what_if": [_case(graphs, case) for case in cases],
    }  # fmt: skip


def _case(graphs: Sequence[StepGraph], faster: dict[str, float]) -> dict[str, Any]:
    before = sum(graph.length_ns for graph in graphs)
    after, failure, found = 0, None, False
    for graph in graphs:
        try:
            after += graph.length_if_ns(faster)
            found = True
        except errors.ValueError as error:  # not in this step
            failure = error
            after += graph.length_ns
    if failure is not None and not found:
        raise failure
    return {
        "faster": faster,
        "step_ns": before // len(graphs),
        "new_step_ns": after // len(graphs),
        "percent": 100 * (before - after) / max(before, 1),
    }


def path_lines(values: dict[str, Any]) -> list[str]:
    """Return path_values() as lines."""
    lines: list[str] = []
    if values["path_by_op"]:
        lines += ["", f"critical path by op and rank (mean of {counted(values['path_steps'], 'step')}):"]  # fmt: skip
    for each in values["path_by_op"][:_SHOWN]:
        name = shortened(each["name"], 70) or "(outside of ranges)"
        lines.append(
            f"  {_ms(each['ns']):>12}{each['percent']:7.1f} %  rank {each['rank']:<6}{each['what']:<11}{name}"
        )
    if values["inferred_waits"]:
        lines.append(
            f"  waits between streams are inferred from times on rank {number_list(values['inferred_waits'])}: "
            "record them with enable_cuda_sync_events"
        )
    if values["what_if"]:
        lines += ["", "what if, replayed:"]
    for each in values["what_if"]:
        what = ", ".join(
            f"{shortened(name, 60)} {factor:g} times faster"
            for name, factor in each["faster"].items()
        )
        lines.append(
            f"  {what}: steps of {_ms(each['step_ns'])} take {_ms(each['new_step_ns'])}, {each['percent']:.1f} % less"
        )
    return [visible_text(line) for line in lines]


def _ms(ns: float) -> str:
    return format_time(ns / 1000, "ms")
