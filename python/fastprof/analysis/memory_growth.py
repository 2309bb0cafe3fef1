# SPDX-License-Identifier: Apache-2.0
"""growing_memory(): code that goes on allocating blocks that are never freed, merged by place. Any thread.

A place is found if its blocks were allocated in most steps, or in most tenths of the recording if it has no steps:
memory that is allocated once and kept, such as parameters, is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.analysis.memory_blocks import Blocks
from fastprof.analysis.memory_origin import OUTSIDE, Origin, origin_around, place_text
from fastprof.base.distinct import distinct
from fastprof.base.formatting import counted, format_memory
from fastprof.model.table import EventKind, EventTable

__all__ = ["Growth", "growing_memory"]

Array: TypeAlias = NDArray[Any]
_LEVELS = 4  # enclosing rows that distinguish two places, beside the Python stack
_TENTHS = 10
_MOST_PLACES = 10
_LEAST_BLOCKS = 3
_LEAST_SHARE = 0.7  # of the steps or tenths in which the place allocates
_LEAST_OF_PEAK = 0.01  # of the device's peak
_ONE_SIZE = 0.9  # of a place's bytes, from which only the blocks of that size are listed


@dataclass(frozen=True)
class Growth:
    """Blocks of one place that were allocated again and again, and never freed.

    count: blocks; an estimate for a sampled device. block_bytes: the size of each, 0 if sizes differ.
    size_bytes: of all. error_bytes: standard error of size_bytes, 0 if not sampled. steps: steps in which it
    allocated, 0 for a recording without steps. row: innermost range around the largest block, in the table.
    """

    device: str
    size_bytes: int
    error_bytes: int
    count: int
    block_bytes: int
    steps: int
    ranges: tuple[str, ...]
    stack: tuple[str, ...]
    row: int = -1

    def text(self) -> str:
        """Return a sentence: "11 x 384.00 KB, never freed, in forward at model.py(20): f; ..."."""
        about = "about " if self.error_bytes else ""
        if self.block_bytes:
            what = f"{about}{self.count:,} x {format_memory(self.block_bytes)}"
        else:
            whole = with_error(self.size_bytes, self.error_bytes)
            what = f"{about}{self.count:,} blocks, {whole}"
        place = place_text(self.ranges[-2:], self.stack, OUTSIDE)
        preposition = "in " if self.ranges else ""
        if self.steps:
            grows = f"{format_memory(self.size_bytes // self.steps)} a step in {counted(self.steps, 'step')}"
        else:
            grows = "allocated all through the recording"
        return f"{what}, never freed, {preposition}{place}; {grows} ({self.device})"


def with_error(size_bytes: int, error_bytes: int) -> str:
    """Return a size as text, with its standard error if it was sampled: "40.10 MB ± 1.20 MB"."""
    error = f" ± {format_memory(error_bytes)}" if error_bytes else ""
    return format_memory(size_bytes) + error


def growing_memory(blocks: Blocks) -> list[Growth]:
    """Return the places of a device whose memory grows, most bytes first."""
    kept = np.flatnonzero((blocks.created >= 0) & (blocks.destroyed < 0))
    if len(kept) < _LEAST_BLOCKS:
        return []
    table = blocks.table
    time = blocks.record_ns[blocks.created[kept]]
    steps = _steps(table)
    if len(steps):
        window = np.searchsorted(steps[:, 0], time, "right") - 1
        inside = (window >= 0) & (time < steps[np.maximum(window, 0), 1])
        kept, window, windows = kept[inside], window[inside], len(steps)
    else:
        begin = blocks.record_ns[0]
        window = (time - begin) * _TENTHS // max(int(blocks.record_ns[-1] - begin) + 1, 1)
        windows = _TENTHS
    rows = blocks.allocating_rows(kept)
    _, code = np.unique(_places(table, rows), axis=0, return_inverse=True)
    code = code.reshape(-1)
    size = np.bincount(code, blocks.size_bytes[kept])
    # Number of distinct windows of each place.
    spread = np.bincount(distinct(code * windows + window) // windows, minlength=len(size))
    floor = _LEAST_OF_PEAK * blocks.peak_bytes
    chosen = (spread >= _LEAST_SHARE * windows) & (np.bincount(code) >= _LEAST_BLOCKS)
    found: list[Growth] = []
    for place in np.argsort(-size, kind="stable")[: 10 * _MOST_PLACES].tolist():
        if not chosen[place] or size[place] < floor or len(found) == _MOST_PLACES:
            continue
        mine = np.flatnonzero(code == place)
        own = kept[mine]
        row = int(rows[mine[int(np.argmax(blocks.size_bytes[own]))]])
        origin = origin_around(table, row) if row >= 0 else Origin((OUTSIDE,))
        block_bytes, own = _of_one_size(blocks, own)
        found.append(
            Growth(
                blocks.device,
                int(blocks.size_bytes[own].sum()),
                blocks.error_bytes(own),
                blocks.count(own),
                block_bytes,
                int(spread[place]) if len(steps) else 0,
                tuple(name for name in origin.ranges if not name.startswith("ProfilerStep#")),
                origin.stack,
                row,
            )
        )
    return found


def _of_one_size(blocks: Blocks, chosen: Array) -> tuple[int, Array]:
    """Return the size of nearly all of the bytes and the blocks of that size; (0, all blocks) if sizes differ."""
    sizes, code = np.unique(blocks.own_bytes(chosen), return_inverse=True)
    code = code.reshape(-1)
    sums = np.bincount(code, blocks.size_bytes[chosen])
    most = int(np.argmax(sums))
    if sums[most] < _ONE_SIZE * sums.sum():
        return 0, chosen
    return int(sizes[most]), chosen[code == most]


def _steps(table: EventTable) -> Array:
    """Return (begin, end) of the ranges "ProfilerStep#N" by time, int64 of shape (steps, 2); few are none."""
    named = [name.startswith("ProfilerStep#") for name in table.sites.names]
    is_step = np.array(named, np.bool_)[table.column("site")]
    if table.has("kind"):
        is_step &= table.column("kind") == EventKind.RANGE
    rows = np.flatnonzero(is_step)
    rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
    steps = np.stack([table.start_ns[rows], table.end_ns[rows]], axis=1).astype(np.int64)
    return steps if len(steps) >= _LEAST_BLOCKS else steps[:0]


def _places(table: EventTable, rows: Array) -> Array:
    """Return codes of the rows' names, of those around them, and of their Python stack, one line a row."""
    site = np.append(table.column("site").astype(np.int64), -1)
    parent = np.append(table.column("parent").astype(np.int64), -1) if table.has("parent") else None
    stacks = table.coded.get("stack")
    at = np.maximum(rows, -1)
    columns = [] if stacks is None else [np.append(stacks.codes.astype(np.int64), -1)[at]]
    names = table.sites.names
    steps = [i for i, name in enumerate(names) if name.startswith("ProfilerStep#")]
    for _ in range(_LEVELS):
        level = site[at]
        columns.append(np.where(np.isin(level, steps), -1, level))
        at = np.full(len(rows), -1) if parent is None else parent[at]
    return np.stack(columns, axis=1)
