# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks ("outer;inner 12"), the input of flame graph tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fastprof.base import errors
from fastprof.base.atomic_file import atomic_text
from fastprof.base.distinct import distinct

__all__ = ["STACK_METRICS", "collapsed_stacks", "export_stacks"]

STACK_METRICS = (
    "self_cpu_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
)
# "device" is fastprof's own spelling: it reads the same field for any device.
_FIELDS = {
    "self_cpu_time_total": "self_cpu_time_total",
    "self_device_time_total": "self_device_time_total",
    **dict.fromkeys(STACK_METRICS[1:], "self_device_time_total"),
}
_MAX_CHARS = 64 << 20
_SEPARATORS = str.maketrans(" ;\t\n", "____")


def collapsed_stacks(events: Iterable[Any], metric: str = "self_cpu_time_total") -> Iterator[str]:
    """Yield a line for each event with a stack whose metric is at least 1 us.

    A line is the frames, outermost first, joined by ";" (separators inside a frame become "_"), a
    space, and the metric in whole us: the folded format of Brendan Gregg's flame graph scripts.
    If the lines would have more than 64 million characters, equal stacks are summed to one line.
    Raises errors.ValueError, listing the metrics, for an unknown one.
    """
    field = _FIELDS.get(metric)
    if field is None:
        raise errors.ValueError(
            f"unknown metric {metric!r}. metric should be one of: {list(STACK_METRICS)}"
        )
    # An EventList computes on its columns; any other iterable is read event by event.
    columns = getattr(events, "_frame", None)
    return _lines(events, field) if columns is None else _column_lines(columns(), field)


def _column_lines(frame: Any, field: str) -> Iterator[str]:
    if frame.stack is None:
        return
    rows = np.arange(frame.size) if frame.order is None else frame.order
    values = np.asarray(frame.metric(field) / frame.unit_per_us)[rows]
    codes = frame.stack.codes[rows]
    written = (codes >= 0) & (values >= 1)
    codes, values = codes[written], values[written].astype(np.int64)
    used = distinct(codes).tolist()
    texts = {code: _folded(frame.stack.values[code]) for code in used}
    sizes = np.bincount(codes, minlength=1)
    if sum(int(sizes[code]) * len(texts[code]) for code in used) > _MAX_CHARS:
        # Write each distinct stack once with the sum; readers sum equal stacks anyway.
        sums = np.zeros(len(sizes), np.int64)
        np.add.at(sums, codes, values)
        codes, values = np.array(used), sums[used]
    for code, value in zip(codes.tolist(), values.tolist(), strict=True):
        if texts[code]:
            yield f"{texts[code]} {value}"


def _lines(events: Iterable[Any], field: str) -> Iterator[str]:
    for event in events:
        if event.stack:
            value = int(getattr(event, field))
            if value > 0:
                yield f"{_folded(event.stack)} {value}"


def _folded(stack: Sequence[str]) -> str:
    return ";".join(frame.translate(_SEPARATORS) for frame in reversed(stack))


def export_stacks(
    events: Iterable[Any], path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
) -> None:
    """Write collapsed_stacks of the events, one per line; gzip if the path ends in .gz.

    Raises errors.ValueError for an unknown metric, errors.IoError if the file cannot be written.
    """
    lines = collapsed_stacks(events, metric)
    with atomic_text(path) as file:
        for line in lines:
            file.write(line + "\n")
