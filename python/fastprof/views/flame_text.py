# SPDX-License-Identifier: Apache-2.0
"""flame_text: a flame graph as text, outermost ranges on top; widths are proportional to CPU time."""

from __future__ import annotations

from typing import Any

from fastprof.base import errors
from fastprof.base.formatting import format_time
from fastprof.base.text_style import TextStyle, cut_to_width
from fastprof.views.path_tree import Node, path_tree

__all__ = ["flame_text"]

_DEPTH = 40
_MIN_WIDTH = 10


def flame_text(
    events: Any, width: int, *, max_depth: int | None = None, style: TextStyle | None = None
) -> str:
    """Return the flame graph of an EventList as lines of at most `width` characters; "" without ranges.

    Ranges narrower than a character are left out, and so are async ranges and device activities, which overlap
    others. max_depth: levels to show (default: 40); a last line has the number of deeper levels. style: colours.
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
    lines = [cut_to_width(f"all: {format_time(whole_ns / 1e3)}", width)]
    limit = _DEPTH if max_depth is None else max_depth
    # (node, first column as a fraction of the width) by level
    level = [(node, begin) for node, begin in _placed(roots, 0.0, whole_ns, width)]
    depth = 0
    while level and depth < limit:
        lines.append(_level_line(level, whole_ns, width, style or TextStyle()))
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
    level: list[tuple[Node, float]], whole_ns: int, width: int, style: TextStyle
) -> str:
    line: list[str] = []
    at = 0
    for node, begin in level:
        first = max(round(begin), at)
        last = min(round(begin + max(node.total_ns, 0) * width / whole_ns), width)
        if last <= first:
            continue  # the children together are longer than their parent: no width is left
        line.append(" " * (first - at))
        if style.colour:
            number = sum(map(ord, node.name[:40]))
            line.append(style.fill(cut_to_width(node.name, last - first), number))
        else:
            line.append(
                ("|" + cut_to_width(node.name, last - first - 1)) if last - first > 1 else "|"
            )
        at = last
    return "".join(line)
