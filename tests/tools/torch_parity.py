# SPDX-License-Identifier: Apache-2.0
"""Compares what two profilers recorded of the same work in PyTorch.

A fact is a function of an event of either package's EventList. The comparison is of multisets of (place, fact), so a
fact must belong to the right event; `place` is name, scope, parent and depth.
"""

from __future__ import annotations

import bisect
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from known_torch import known_options, torch

import fastprof


def theirs(step: Callable[[], None], *, all_threads: bool = False, **options: Any) -> Any:
    """Return torch.profiler's profile of a step. all_threads: as fastprof's default, but without arguments of ops.

    Raises TypeError if this torch.profiler cannot record all threads.
    """
    wanted = dict.fromkeys(known_options(["capture_overload_names"]), True)
    if all_threads:
        wanted["profile_all_threads"] = True
    config = torch._C._profiler._ExperimentalConfig(**wanted)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=config, **options
    ) as p:
        step()
    return p


def ours(step: Callable[[], None], **options: Any) -> Any:
    """Return fastprof's profile of a step; fail if it could not record torch."""
    with fastprof.profile(**options) as p:
        step()
    assert not {"torch_ops", "torch_fast_ranges"} & p.missing.keys(), p.missing
    return p


def ancestors(event: Any) -> Iterator[Any]:
    """Yield the event's ancestors, innermost first."""
    parent = event.cpu_parent
    while parent is not None:
        yield parent
        parent = parent.cpu_parent


def exact_memory(profile: Any) -> list[Any]:
    """Return the events of torch.profiler's profile, each with the memory of the allocations during the event.

    This is how torch.profiler counts from 2.11 on. Earlier versions converted absolute times to microseconds as floats,
    whose resolution is a quarter of a microsecond, and missed allocations close to an op's begin or end.
    """
    raw = profile.profiler.kineto_results.events()
    allocations = sorted((e.start_ns(), e.nbytes()) for e in raw if e.name() == "[memory]")
    starts = [start for start, _ in allocations]
    usage = {}
    for e in raw:
        first = bisect.bisect_left(starts, e.start_ns())
        last = bisect.bisect_right(starts, e.end_ns())
        usage[e.correlation_id()] = sum(size for _, size in allocations[first:last])
    events = [event for event in profile.events() if event.name != "[memory]"]
    for event in events:
        event.cpu_memory_usage = usage[event.id]
        event.cpu_children = [child for child in event.cpu_children if child.name != "[memory]"]
    return events


def place(event: Any) -> tuple[Any, ...]:
    """Return name, scope, parent's name and depth of an event."""
    above = list(ancestors(event))
    return (event.name, event.scope, above[0].name if above else None, len(above))


def difference(
    left: Iterable[Any], right: Iterable[Any], fact: Callable[[Any], Any] = lambda event: None
) -> list[str]:
    """Return the pairs (place, fact) that only one of two lists of events has, as text; empty if they agree."""
    a, b = (Counter(repr((place(event), fact(event))) for event in side) for side in (left, right))
    only = [f"only left, {n} times: {row}" for row, n in (a - b).items()]
    return only + [f"only right, {n} times: {row}" for row, n in (b - a).items()]


def trees(events: Iterable[Any]) -> Counter[tuple[Any, ...]]:
    """Return each root with its descendants, in order of begin."""

    def shape(event: Any) -> tuple[Any, ...]:
        children = sorted(event.cpu_children, key=lambda child: child.time_range.start)
        return (event.name, event.scope, tuple(shape(child) for child in children))

    return Counter(shape(event) for event in events if event.cpu_parent is None)


def counts(profile: Any) -> dict[str, int]:
    """Return the number of events of each key."""
    return {row.key: row.count for row in profile.key_averages()}


def arrows(profile: Any, path: Path) -> Counter[tuple[str, str]]:
    """Return (name of the forward op, name of the backward function) of each arrow in a profile's trace."""
    profile.export_chrome_trace(str(path))
    events = json.loads(path.read_text(), parse_float=str)["traceEvents"]
    slices = {}
    for event in events:  # the last of those that begin together is the innermost
        if event["ph"] == "X" and event.get("cat") == "cpu_op":
            name = event["name"]  # PyTorch's traces have the overload in it
            base = name.split(".")[0] if name.startswith("aten::") else name
            slices[event["tid"], str(event["ts"])] = base
    ends: dict[Any, dict[str, str]] = {}
    for event in events:
        if event.get("cat") == "fwdbwd":
            name = slices.get((event["tid"], str(event["ts"])), "no slice begins there")
            ends.setdefault(event["id"], {})[event["ph"]] = name
    return Counter((pair["s"], pair["f"]) for pair in ends.values())


def sequence(events: Iterable[Any]) -> Callable[[Any], tuple[int, bool]]:
    """Fact: sequence number relative to the first of `events`, and whether the event links to a forward op."""
    first = min((e.sequence_nr for e in events if e.sequence_nr >= 0), default=0)

    def fact(event: Any) -> tuple[int, bool]:
        number = event.sequence_nr
        return (number - first if number >= 0 else -1, (event.fwd_thread or 0) > 0)

    return fact
