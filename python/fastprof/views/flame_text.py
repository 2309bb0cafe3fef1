# SPDX-License-Identifier: Apache-2.0
"""flame_text: a flame graph as text, outermost ranges on top; widths are proportional to CPU time."""

from __future__ import annotations

from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import format_time
from fastprof.base.short_paths import call_label
from fastprof.base.text_style import TextStyle, cut_to_width, text_width
from fastprof.views.path_tree import Node, path_tree

__all__ = ["flame_text"]

_DEPTH = 40
_MIN_WIDTH = 10
_READABLE = 12  # characters of a name that was cut


def flame_text(
    events: Any, width: int, *, max_depth: int | None = None, style: TextStyle | None = None
) -> str:
    """Return the flame graph of an EventList as lines of at most `width` characters; "" without ranges.

    Ranges narrower than a character are left out, and so are async ranges and device activities, which overlap
    others. A call is shown as "function (file:line)", or as its function where that does not fit. max_depth: levels
    to show (default: 40). style: colours, by kind of event. Last lines have the number of deeper levels, that of ranges
    that overlap others of their thread, and what to do if most names do not fit.
    Raises errors.ValueError for a width below 10. Any thread.
    """
    if width < _MIN_WIDTH:
        raise errors.ValueError(
            f"the width of a flame graph must be at least {_MIN_WIDTH} characters, not {width}"
        )
    roots = [n for n in path_tree(events, visible=True) if not n.name.startswith("[") or n.own_ns]
    whole_ns = sum(max(node.total_ns, 0) for node in roots)
    if whole_ns <= 0:
        return ""
    lines = [f"all: {format_time(whole_ns / 1e3)}"[:width]]
    fits: list[bool] = []
    cut: list[Node] = []
    limit = _DEPTH if max_depth is None else max_depth
    # (node, first column as a fraction of the width) by level
    level = [(node, begin) for node, begin in _placed(roots, 0.0, whole_ns, width)]
    depth = 0
    while level and depth < limit:
        lines.append(_level_line(level, whole_ns, width, style or TextStyle(), fits, cut))
        level = [
            placed
            for node, begin in level
            for placed in _placed(node.children, begin, whole_ns, width)
        ]
        depth += 1
    if level:
        deepest = 0
        while level:
            level = [(child, 0.0) for node, _ in level for child in node.children]
            deepest += 1
        lines.append(f"{deepest} deeper levels: use a larger depth")
    if cut:
        lines.append(
            f"too narrow or not drawn, because ranges of a thread overlap without nesting: {len(cut)}"
        )
    if len(fits) > 3 and fits.count(False) > len(fits) / 2:
        lines.append(
            f"{fits.count(False)} of {len(fits)} names do not fit into {width} columns:"
            " use a wider terminal, or the HTML report (--html)"
        )
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _placed(nodes: list[Node], begin: float, whole_ns: int, width: int) -> list[tuple[Node, float]]:
    """Return the nodes that are at least half a character wide, with their begins."""
    placed = []
    for node in nodes:
        size = max(node.total_ns, 0) * width / whole_ns
        if round(begin + size) > round(begin):
            placed.append((node, begin))
        begin += size
    return placed


def _level_line(
    level: list[tuple[Node, float]],
    whole_ns: int,
    width: int,
    style: TextStyle,
    fits: list[bool],
    cut: list[Node],
) -> str:
    """Return the line of a level.

    Appends to `fits` whether each name is readable, to `cut` the nodes that have less than their width.
    """
    line: list[str] = []
    at = 0
    for node, begin in level:
        end = round(begin + max(node.total_ns, 0) * width / whole_ns)
        first, last = max(round(begin), at), min(end, width)
        if first > round(begin) or last < end:  # the children together are longer than their parent
            cut.append(node)
        if last <= first:
            continue
        room = last - first - 1
        label, shorter = call_label(node.name)
        name = label if text_width(label) <= room else shorter
        fits.append(text_width(name) <= max(room, 0) or room >= _READABLE)
        line.append(" " * (first - at))
        line.append(style.fill("|" + cut_to_width(name, room), node.kind))
        at = last
    return "".join(line)
