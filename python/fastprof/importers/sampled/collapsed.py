# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks, as flamegraph.pl reads them: `main;f;g 17` (py-spy record --format raw, perf, austin, ...).

austin's lines begin with the process and the thread (`P1;T0:7;...`), and its numbers are microseconds. Those of
Python's profiling.sampling begin with the thread (`tid:7;...`). Other numbers have no unit (fastprof writes ns, most
tools numbers of samples) and are shown as ns. Frames such as `f (a.py:3)` and `a.py:f:3` have their file and line.
"""

from __future__ import annotations

import re
from collections import defaultdict

from fastprof.base import errors
from fastprof.importers.sampled.stack_rows import StackRows, StackTree, malformed
from fastprof.importers.sampled.whole_file import text_lines
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["read_collapsed"]

_LINE = re.compile(r"(.*?) (\d+(?:\.\d+)?)\s*")  # py-spy writes " 3" for samples without a frame
_AUSTIN = re.compile(r"P(\d+);T(?:\d+:)?(\w+)(?:;|$)")
_PYTHON = re.compile(r"tid:(\d+)(?:;|$)")
_PLACES = (
    re.compile(r"(?P<name>.+) \((?P<file>[^()]+?):(?P<line>\d+)(?::\d+)?\)"),
    re.compile(r"(?P<file>[^:]+\.\w+|<[^:]+>):(?P<name>.+):(?P<line>\d+)"),
)


def read_collapsed(source: Source) -> EventTable:
    """Return the rows of collapsed stacks, laid one after the other: the files have no times."""
    rows = StackRows(source, "collapsed")
    trees: dict[tuple[int, int], tuple[StackTree, dict[int, int]]] = {}
    frames: dict[str, int] = {}
    left_out: dict[str, int] = defaultdict(int)
    with malformed(source):
        for number, line in enumerate(text_lines(source), 1):
            if not line.strip() or line.startswith("#"):
                continue
            found = _LINE.fullmatch(line)
            if found is None:
                if number == 1:
                    raise errors.FormatError("line 1 is not a stack and a number")
                left_out["line without a number"] += 1
                continue
            stack, weight_ns = found[1], round(float(found[2]))
            austin = _AUSTIN.match(stack)
            python = _PYTHON.match(stack)
            key = (0, 0)
            if python:
                stack, key = stack[python.end() :], (0, int(python[1]))
            elif austin:
                stack, weight_ns = stack[austin.end() :], round(1000 * float(found[2]))
                key = (int(austin[1]), int(austin[2], 0 if austin[2].isdigit() else 16))
            tree, weights = trees.setdefault(key, (StackTree(), defaultdict(int)))
            node = -1
            for text in stack.split(";") if stack else ():
                frame = frames.get(text)
                if frame is None:
                    frame = frames[text] = _frame(rows, text)
                node = tree.child(node, frame)
            rows.samples += 1  # also a thread's without frames
            if node >= 0:
                weights[node] += weight_ns
        for (pid, tid), (tree, weights) in trees.items():
            rows.add_weights(rows.track("", pid, tid), tree, weights)
        return rows.finish(skipped_events=dict(left_out))


def _frame(rows: StackRows, text: str) -> int:
    for pattern in _PLACES:
        place = pattern.fullmatch(text)
        if place:
            return rows.frame(place["name"], place["file"], int(place["line"]))
    return rows.frame(text)
