# SPDX-License-Identifier: Apache-2.0
"""tree_text: the tree of ranges as text, merged by name path: total and self time, share and count."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastprof.base import errors
from fastprof.base.formatting import TIME_UNITS, format_time
from fastprof.base.short_paths import shorten_paths
from fastprof.base.text_style import TextStyle, cut_to_width, share_role
from fastprof.views.path_tree import Node, path_tree

__all__ = ["TreeOptions", "tree_text"]

_LEAST_REST = 0.0005  # a smaller share is printed as 0.0 %
_MAX_LINES = 10_000
_BAR_WIDTH = 10
_MIN_NAME_WIDTH = 12
_NUMBERS_WIDTH = 12 + 12 + 9 + 10 + 2
_DEEPEST_INDENT = 60  # levels below are not indented further


class TreeOptions(NamedTuple):
    """Options of tree_text.

    max_depth: levels; None: all. min_percent: leave out branches with less of the total time, in percent.
    time_unit: "s", "ms" or "us"; None: by magnitude. max_width: characters per line. style: add colours and bars.
    """

    max_depth: int | None = None
    min_percent: float = 0.0
    time_unit: str | None = None
    max_width: int | None = None
    style: TextStyle | None = None


def tree_text(events: Any, options: TreeOptions) -> str:
    """Return the tree of an EventList as text; "" without ranges.

    Shares are relative to the CPU time of all outermost ranges. Branches that are left out are summed in a line at
    their place. Raises errors.ValueError for an unknown time_unit. Any thread.
    """
    if options.time_unit is not None and options.time_unit not in TIME_UNITS:
        units = ", ".join(TIME_UNITS)
        raise errors.ValueError(f"unknown time_unit {options.time_unit!r}. Use one of {units}.")
    roots = path_tree(events, visible=True)
    if not roots:
        return ""
    return _Writer(roots, options).text()


class _Writer:
    """Lines of one tree."""

    def __init__(self, roots: list[Node], options: TreeOptions) -> None:
        self._roots = roots
        self._options = options
        self._whole_ns = sum(node.total_ns for node in roots if not node.name.startswith("["))
        width = options.max_width
        self._bar_width = _BAR_WIDTH + 2 if options.style is not None else 0
        if width is not None and width < _NUMBERS_WIDTH + self._bar_width + 2 * _MIN_NAME_WIDTH:
            self._bar_width = 0
        self._name_width = None
        if width is not None:
            used = _NUMBERS_WIDTH + self._bar_width
            self._name_width = max(width - used, _MIN_NAME_WIDTH)
        self._more = 0

    def text(self) -> str:
        style = self._options.style
        bar = " " * self._bar_width
        head = f"{'Total':>12}{'Self':>12}{'Share':>9}{bar}{'Count':>10}  Name"
        lines = [head if style is None else style.paint(head, "head")]
        # A list instead of recursion: recursive programs are deeper than Python's stack.
        stack = [(node, 0) for node in reversed(self._roots)]
        while stack:
            node, depth = stack.pop()
            if len(lines) > _MAX_LINES:
                self._more += 1
                continue
            lines.append(self._line(node, depth))
            kept = self._kept(node, depth + 1)
            left = len(node.children) - len(kept)
            if left and (kept or self._share(node.children[0]) * 100 >= self._options.min_percent):
                rest = self._rest(node, len(kept))
                if self._share(rest) >= _LEAST_REST or not self._options.min_percent:
                    stack.append((rest, depth + 1))
            stack += [(child, depth + 1) for child in reversed(kept)]
        if self._more:
            lines.append(
                f"{self._more:,} more lines: use a smaller depth or a larger minimal share"
            )
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def _kept(self, node: Node, depth: int) -> list[Node]:
        options = self._options
        if options.max_depth is not None and depth >= options.max_depth:
            return []
        return [c for c in node.children if self._share(c) * 100 >= options.min_percent]

    @staticmethod
    def _rest(node: Node, kept: int) -> Node:
        rest = node.children[kept:]
        calls, total, own = (
            sum(getattr(child, field) for child in rest)
            for field in ("calls", "total_ns", "own_ns")
        )
        return Node(f"[{len(rest):,} more]", calls, total, own, [])

    def _share(self, node: Node) -> float:
        return node.total_ns / self._whole_ns if self._whole_ns > 0 else 1.0

    def _line(self, node: Node, depth: int) -> str:
        unit, style = self._options.time_unit, self._options.style
        share = self._share(node)
        total, own = (format_time(ns / 1e3, unit) for ns in (node.total_ns, node.own_ns))
        percent = f"{share * 100:.1f}%" if self._whole_ns > 0 else ""
        count = f"{node.calls:,}" if node.calls else ""
        name = "  " * min(depth, _DEEPEST_INDENT) + node.name
        if self._name_width is not None:
            name = shorten_paths(name)
            name = cut_to_width(name, self._name_width).rstrip()
        if style is None:
            return f"{total:>12}{own:>12}{percent:>9}{count:>10}  {name}"
        role = share_role(share)
        bar = ""
        if self._bar_width:
            bar = "  " + style.paint(style.bar(share, _BAR_WIDTH).ljust(_BAR_WIDTH), "bar")
        return (
            f"{style.paint(f'{total:>12}', role)}{own:>12}{style.paint(f'{percent:>9}', role)}"
            f"{bar}{count:>10}  {style.paint(name, role if node.calls else 'head')}"
        )
