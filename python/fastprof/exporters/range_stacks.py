# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks of nested ranges: a flame graph without captured Python stacks."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from fastprof.exporters.atomic_file import atomic_text
from fastprof.table import EventTable
from fastprof.tree import EventTree

__all__ = ["collapsed_ranges", "export_range_stacks"]

_SEPARATORS = str.maketrans(";\t\n\r", "____")


def collapsed_ranges(
    table: EventTable | EventTree, *, threads: bool = False
) -> Iterator[tuple[str, int]]:
    """("outer;inner", self time in ns) for each distinct path of nested ranges, summed.

    `threads` puts the thread's name in front. Paths whose self time is not positive are left out:
    flame graphs have no place for them. Async rows and device activities have no self time.
    """
    tree = table if isinstance(table, EventTree) else EventTree.of(table)
    names = tree.take(tree.table.name_id).astype(np.int64)
    texts = [text.translate(_SEPARATORS) for text in tree.table.names]
    size = max(len(texts), 1)
    above: list[str] = [""]
    path = np.zeros(len(tree), np.int64)
    labels: list[str] = []
    if threads and len(tree):
        numbers, inverse = np.unique(tree.take(tree.table.thread), return_inverse=True)
        known = {track.id: track.name for track in tree.table.tracks}
        above = [known.get(n) or f"thread {n}" for n in numbers.tolist()]
        above = [text.translate(_SEPARATORS) + ";" for text in above]
        path = inverse.astype(np.int64)
    for depth, level in enumerate(tree.levels):
        # One code for each (path of the parent, name); level by level, so parents are known.
        parent_path = path[level] if depth == 0 else path[tree.parent[level]]
        pairs, inverse = np.unique(parent_path * size + names[level], return_inverse=True)
        path[level] = inverse + len(labels)
        for pair in pairs.tolist():
            head = above[pair // size] if depth == 0 else labels[pair // size] + ";"
            labels.append(head + texts[pair % size])
    own = np.zeros(len(labels), np.int64)
    np.add.at(own, path, tree.self_ns)
    for label, value in zip(labels, own.tolist(), strict=True):
        if value > 0:
            yield label, value


def export_range_stacks(
    table: EventTable | EventTree, path: str | os.PathLike[str], *, threads: bool = False
) -> None:
    """Write collapsed_ranges, a line each with the self time in ns; gzip when path ends in .gz."""
    with atomic_text(path) as file:
        for label, value in collapsed_ranges(table, threads=threads):
            file.write(f"{label} {value}\n")
