# SPDX-License-Identifier: Apache-2.0
"""plot: draw an EventList with matplotlib. One function per kind of plot.

Every kind draws a bounded number of parts, the largest ones, and its title says how many were left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base import errors
from fastprof.base.distinct import distinct
from fastprof.base.optional_package import optional_package
from fastprof.base.visible_text import shortened, visible_text
from fastprof.exporters.memory_timeline import memory_in_use
from fastprof.model.memory_rows import missing_text
from fastprof.model.tree import EventTree
from fastprof.views.frame import display_codes
from fastprof.views.table_rows import tree_of

__all__ = ["KINDS", "MAX_SLICES", "plot"]

Array: TypeAlias = NDArray[Any]

MAX_SLICES = 5000
_MAX_POINTS = 20_000
_NAME_CHARS = 40
_LANE_GAP = 0.5


def plot(events: Any, kind: str, ax: Any, limit: int | None) -> Any:
    """Draw an EventList and return the Axes; see EventList.plot for parameters and errors."""
    if kind not in KINDS:
        raise errors.ValueError(f"cannot plot {kind!r}. Use one of {', '.join(KINDS)}.")
    if limit is not None and limit < 1:
        raise errors.ValueError(f"invalid limit {limit}. Use 1 or more.")
    if ax is None:
        ax = optional_package("matplotlib.pyplot", "plot").subplots(layout="constrained")[1]
    KINDS[kind](events, ax, limit)
    return ax


def _name(text: str) -> str:
    # matplotlib reads text between $ as mathematics.
    return visible_text(shortened(text, _NAME_CHARS)).replace("$", r"\$")


def _write_message(ax: Any, text: str) -> None:
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)


# ---- averages and steps ----------------------------------------------------------------------------


def _averages(events: Any, ax: Any, limit: int | None) -> None:
    """Bars by self CPU time, the longest on top."""
    averages = events if events._of_averages() else events.key_averages()
    frame = averages._frame()
    own_ms = frame.self_cpu_time_total / frame.unit_per_us / 1e3
    order = np.argsort(-own_ms, kind="stable")[: limit or 20]
    positions = np.arange(len(order))
    ax.barh(positions, own_ms[order])
    ax.set_yticks(positions, [_name(str(frame.key[row])) for row in order.tolist()])
    ax.invert_yaxis()
    ax.set_xlabel("self CPU time [ms]")
    left = frame.size - len(order)
    ax.set_title(f"self CPU time: {len(order)} of {frame.size} names" if left else "self CPU time")
    if not frame.size:
        _write_message(ax, "no events")


def _steps(events: Any, ax: Any, limit: int | None) -> None:
    """A bar for each ProfilerStep, by begin."""
    tree = tree_of(events)
    is_step = np.array([name.startswith("ProfilerStep#") for name in tree.table.sites.names])
    rows = np.flatnonzero(is_step[tree.column("site")]) if len(tree) else np.zeros(0, np.int64)
    rows = rows[np.argsort(tree.column("start_ns")[rows], kind="stable")]
    shown = rows[: limit or 1000]
    names = [tree.table.name(tree.table_row(row)) for row in shown.tolist()]
    duration_ms = tree.take(tree.table.duration_ns)[shown] / 1e6
    numbers = [name.partition("#")[2] for name in names]
    ax.bar(np.arange(len(shown)), duration_ms)
    if len(shown) <= 40:
        ax.set_xticks(np.arange(len(shown)), numbers)
    if len(shown):
        ax.axhline(float(np.median(duration_ms)), linestyle="--", linewidth=1, color="gray")
    else:
        _write_message(ax, "no steps: make the profile with a schedule and call step()")
    ax.set_xlabel("step")
    ax.set_ylabel("time [ms]")
    cut = f": first {len(shown):,} of {len(rows):,}" if len(shown) < len(rows) else ""
    ax.set_title(f"steps{cut} (line: median)")


# ---- timeline --------------------------------------------------------------------------------------


def _timeline(events: Any, ax: Any, limit: int | None) -> None:
    """Ranges by track and depth, coloured by name; only the longest if there are more than the limit."""
    tree = tree_of(events)
    table = tree.table
    total = len(tree)
    duration = tree.take(table.duration_ns)
    most = limit or MAX_SLICES
    rows: Array = np.arange(total)
    if total > most:
        rows = np.sort(np.argpartition(-duration, most - 1)[:most])
    begin_ms = (tree.column("start_ns")[rows] - table.t0_ns) / 1e6
    line, labels = _lines(tree, rows)
    codes, _ = display_codes(tree)
    colours = optional_package("matplotlib", "plot").colormaps["tab20"](
        (codes[rows] * 7 % 20) / 20 + 0.01
    )
    ax.barh(line, duration[rows] / 1e6, left=begin_ms, height=0.9, color=colours, linewidth=0)
    ax.set_yticks([at for at, _ in labels], [text for _, text in labels])
    ax.invert_yaxis()
    ax.set_xlim(0, max((table.t1_ns - table.t0_ns) / 1e6, 1e-6))
    ax.set_xlabel("time [ms]")
    ax.set_title(
        f"the {len(rows):,} longest of {total:,} ranges" if len(rows) < total else "timeline"
    )
    if not total:
        _write_message(ax, "no events")


def _lines(tree: EventTree, rows: Array) -> tuple[Array, list[tuple[float, str]]]:
    """Return (line of each row, (line, label) of each track): tracks below each other, by depth within."""
    track, depth = tree.column("track")[rows].astype(np.int64), tree.depth[rows]
    line = np.zeros(len(rows), np.float64)
    labels = []
    at = 0.0
    tracks = tree.table.tracks
    for number in distinct(track).tolist():
        mine = track == number
        line[mine] = at + depth[mine]
        text = tracks[number].name if number < len(tracks) else ""
        labels.append((at, _name(text or f"track {number}")))
        at += float(depth[mine].max()) + 1 + _LANE_GAP
    return line, labels


# ---- memory ----------------------------------------------------------------------------------------


def _memory(events: Any, ax: Any, limit: int | None) -> None:
    """Memory in use, a step curve for each device."""
    table = events.event_table
    curves = [] if table is None else memory_in_use(table)
    most = limit or _MAX_POINTS
    cut = False
    for memory, in_use in curves:
        times = (memory.time_ns - table.t0_ns) / 1e6
        at, values = _thinned(times, in_use / 2**20, most)
        cut |= len(at) < len(times)
        ax.step(at, values, where="post", label=memory.device)
    ax.set_xlabel("time [ms]")
    ax.set_ylabel("in use [MiB]")
    title = f"memory (at most {most:,} points a device: the extremes)" if cut else "memory"
    missing = missing_text(table) if curves else ""
    ax.set_title(f"{title}\n{missing}" if missing else title)
    if len(curves) > 1:
        ax.legend()
    if not curves:
        _write_message(ax, "no memory was recorded: profile_memory=True")


def _thinned(times: Array, values: Array, most: int) -> tuple[Array, Array]:
    """Return at most `most` points (and the last): the lowest and highest of each stretch."""
    if len(times) <= most:
        return times, values
    size = -(-2 * len(times) // max(most - 1, 2))
    kept = {len(times) - 1}
    for low in range(0, len(times), size):
        part = values[low : low + size]
        kept |= {low + int(part.argmin()), low + int(part.argmax())}
    chosen = np.array(sorted(kept))
    return times[chosen], values[chosen]


KINDS: dict[str, Callable[[Any, Any, int | None], None]] = {
    "timeline": _timeline,
    "averages": _averages,
    "steps": _steps,
    "memory": _memory,
}
