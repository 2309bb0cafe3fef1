# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks ("outer;inner 12"), the input of flame graph tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from fastprof import errors
from fastprof.exporters.atomic_file import atomic_text

__all__ = ["STACK_METRICS", "collapsed_stacks", "export_stacks"]

STACK_METRICS = (
    "self_cpu_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
)
# "device" is ours: it reads the same field for whatever device there is.
_FIELDS = {
    "self_cpu_time_total": "self_cpu_time_total",
    "self_device_time_total": "self_device_time_total",
    **dict.fromkeys(STACK_METRICS[1:], "self_device_time_total"),
}
_SEPARATORS = str.maketrans(" ;\t\n", "____")


def collapsed_stacks(events: Iterable[Any], metric: str = "self_cpu_time_total") -> Iterator[str]:
    """One line for each event with a stack whose metric is at least 1 us.

    Frames outermost first joined by ";" with separators inside them replaced by "_", a space, and
    the metric in whole us. Format: the folded form of Brendan Gregg's flame graph scripts. An
    unknown metric raises errors.ValueError listing the valid ones.
    """
    field = _FIELDS.get(metric)
    if field is None:
        raise errors.ValueError(f"metric should be one of: {list(STACK_METRICS)}, not {metric!r}")
    return _lines(events, field)


def _lines(events: Iterable[Any], field: str) -> Iterator[str]:
    folded: dict[tuple[str, ...], str] = {}
    for event in events:
        stack = event.stack
        if not stack:
            continue
        value = int(getattr(event, field))
        if value <= 0:
            continue
        key = tuple(stack)
        text = folded.get(key)
        if text is None:
            text = folded[key] = ";".join(frame.translate(_SEPARATORS) for frame in reversed(stack))
        yield f"{text} {value}"


def export_stacks(
    events: Iterable[Any], path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
) -> None:
    """Write collapsed_stacks of the events, one a line; gzip when the path ends in .gz."""
    lines = collapsed_stacks(events, metric)
    with atomic_text(path) as file:
        for line in lines:
            file.write(line + "\n")
