# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks of nested ranges: a flame graph without captured Python stacks.

Each line contains the names of all enclosing ranges, so the text of a deep tree is quadratic in its
depth: 10^5 nested ranges would take 100 GB. Beyond a limit the deepest ranges are merged.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.atomic_file import atomic_text
from fastprof.base.distinct import distinct
from fastprof.model.name_paths import NamePaths, name_paths
from fastprof.model.table import EventTable
from fastprof.model.tree import EventTree

__all__ = [
    "DEEPER",
    "DEFAULT_MAX_CHARS",
    "collapsed_ranges",
    "export_range_stacks",
    "export_thread_stacks",
    "sums_below",
]

Array: TypeAlias = NDArray[Any]

DEFAULT_MAX_CHARS = 64 << 20
DEEPER = "[deeper ranges]"  # the frame of merged ranges
_SEPARATORS = str.maketrans(";\t\n\r", "____")
_VALUE_CHARS = 21  # maximum per line for a space, the time, and the line end


def collapsed_ranges(
    table: EventTable | EventTree, *, threads: bool = False, max_chars: int = DEFAULT_MAX_CHARS
) -> Iterator[tuple[str, int]]:
    """Yield ("outer;inner", self time in ns) for each distinct path of nested ranges, summed.

    threads: begin each path with the thread's name. max_chars: limit of the text of all paths, in
    characters; beyond it, ranges below the deepest level that fits are summed as one frame
    "[deeper ranges]", with a UserWarning that names the level.

    Paths with a self time of 0 or less are left out, because flame graphs cannot show them. Async
    rows and device activities have no self time.
    """
    tree = table if isinstance(table, EventTree) else EventTree.by_thread(table)
    texts = [text.translate(_SEPARATORS) for text in tree.table.names]
    heads = [""]
    if threads and len(tree):
        numbers = distinct(tree.take(tree.table.recording_thread))
        known = {track.id: track.name for track in tree.table.tracks}
        heads = [known.get(n) or f"thread {n}" for n in numbers.tolist()]
        heads = [text.translate(_SEPARATORS) + ";" for text in heads]
    names = tree.take(tree.table.name_id)
    thread = None
    if threads and len(tree):
        thread = np.unique(tree.take(tree.table.recording_thread), return_inverse=True)[1].reshape(
            -1
        )
    paths = name_paths(tree, names, max(len(texts), 1), thread)
    limit = _fold_depth(paths, texts, heads, max_chars)
    folded: Array = np.zeros(len(paths.parent), np.int64)
    if limit is not None:
        deepest = int(paths.depth.max()) + 1
        warnings.warn(
            f"ranges nest up to {deepest} deep; those below level {limit + 1} are summed as "
            f"{DEEPER!r}, because the text would exceed max_chars={max_chars} characters",
            stacklevel=2,
        )
        folded = sums_below(paths, limit, paths.self_ns)
    parent, name, head = paths.parent.tolist(), paths.name.tolist(), paths.head.tolist()
    own, below = paths.self_ns.tolist(), folded.tolist()
    kept = np.arange(len(own)) if limit is None else np.flatnonzero(paths.depth <= limit)
    for path in kept.tolist():
        if own[path] <= 0 and below[path] <= 0:
            continue
        frames = []
        at = path
        while at >= 0:
            frames.append(texts[name[at]])
            at = parent[at]
        label = heads[head[path]] + ";".join(reversed(frames))
        if own[path] > 0:
            yield label, own[path]
        if below[path] > 0:
            yield f"{label};{DEEPER}", below[path]


def _fold_depth(paths: NamePaths, texts: list[str], heads: list[str], max_chars: int) -> int | None:
    """Return the deepest level whose paths are written in full; None if all are."""
    if not len(paths.parent):
        return None
    sizes = np.array([len(text) + 1 for text in texts], np.float64)
    chars = sizes[paths.name]
    begins = np.flatnonzero(np.diff(paths.depth, prepend=-1))  # first path of each level
    for low, high in itertools.pairwise([*begins[1:].tolist(), len(chars)]):
        chars[low:high] += chars[paths.parent[low:high]]
    chars += np.array([len(text) for text in heads])[paths.head] + _VALUE_CHARS
    levels = np.bincount(paths.depth, chars * (paths.self_ns > 0))
    written = np.cumsum(levels)
    if written[-1] <= max_chars:
        return None
    # Merging below a level adds at most one line for each of the level's paths.
    folds = np.bincount(paths.depth, chars + len(DEEPER) + 1)
    fits = np.flatnonzero(written + folds <= max_chars)
    return int(fits.max()) if len(fits) else 0


def sums_below(paths: NamePaths, limit: int, values: Array) -> Array:
    """Return the sum of the positive values of the paths below each path of the level `limit`, 0 for other paths."""
    ancestor = np.where(paths.depth <= limit, np.arange(len(paths.parent)), paths.parent)
    while not np.array_equal(further := ancestor[ancestor], ancestor):
        ancestor = further
    total = np.zeros(len(paths.parent), np.int64)
    deeper = paths.depth > limit
    np.add.at(total, ancestor[deeper], np.maximum(values[deeper], 0))
    return total


def export_range_stacks(
    table: EventTable | EventTree,
    path: str | os.PathLike[str],
    *,
    threads: bool = False,
    max_chars: int = DEFAULT_MAX_CHARS,
) -> None:
    """Write collapsed_ranges, sorted, one per line with the self time in ns; gzip if the path ends in .gz.

    threads, max_chars: as of collapsed_ranges(). Raises errors.IoError if the file cannot be written.
    """
    lines = sorted(collapsed_ranges(table, threads=threads, max_chars=max_chars))
    with atomic_text(path) as file:
        for label, value in lines:
            file.write(f"{label} {value}\n")


def export_thread_stacks(table: EventTable, path: str | os.PathLike[str]) -> None:
    """Write the stacks of export_range_stacks() with the name of the thread as the first frame of each."""
    export_range_stacks(table, path, threads=True)
