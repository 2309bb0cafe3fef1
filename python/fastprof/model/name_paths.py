# SPDX-License-Identifier: Apache-2.0
"""name_paths: merge the rows of a tree that have equal names and equal names of all ancestors, as for flame graphs."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.cached_property import cached_property
from fastprof.model.tree import EventTree

__all__ = ["NamePaths", "name_paths"]

Array: TypeAlias = NDArray[Any]


class NamePaths:
    """The distinct name paths of a tree, parents before their children; int64 arrays of equal length.

    parent: index of the parent path, -1 for roots. name: name code of the path's last range. head: code of the
    heading (a thread, a process) that the path is below. depth: 0 for roots. of_row: path index of each tree row.
    """

    def __init__(
        self, tree: EventTree, of_row: Array, parent: Array, name: Array, head: Array, depth: Array
    ) -> None:
        self._tree = tree
        self.of_row = of_row
        self.parent = parent
        self.name = name
        self.head = head
        self.depth = depth

    def __len__(self) -> int:
        return len(self.parent)

    def sums(self, values: Array) -> Array:
        """Return the sum by path of an int64 array of the tree's length."""
        total = np.zeros(len(self), np.int64)
        np.add.at(total, self.of_row, values)
        return total

    @cached_property
    def self_ns(self) -> Array:
        """Self CPU time by path, ns."""
        return self.sums(self._tree.self_ns)

    @cached_property
    def total_ns(self) -> Array:
        """CPU time by path, ns, including the ranges inside; in trees by thread, without suspensions of tasks."""
        if self._tree.away_ns is None:
            return self.sums(self._tree.total_ns)
        total: Array = self.self_ns.copy()
        for depth in range(int(self.depth.max(initial=0)), 0, -1):
            level = np.flatnonzero(self.depth == depth)
            np.add.at(total, self.parent[level], total[level])
        return total

    @cached_property
    def count(self) -> Array:
        """Number of tree rows by path."""
        return np.bincount(self.of_row, minlength=len(self))


def name_paths(
    tree: EventTree, names: Array, names_size: int, heads: Array | None = None
) -> NamePaths:
    """Return the distinct name paths of a tree, computed level by level.

    names: name code of each row, less than names_size. heads: heading code of each row, such as its thread; the code
    of the outermost row applies to the whole path. None: one heading for all.
    """
    names = names.astype(np.int64)
    path = np.zeros(len(tree), np.int64)
    root_head: Array = np.zeros(len(tree), np.int64) if heads is None else heads
    parents, name_of, head_of, depths = [], [], [], []
    count = 0
    for depth, level in enumerate(tree.levels):
        above = root_head[level] if depth == 0 else path[tree.parent[level]]
        pairs, inverse = np.unique(above * names_size + names[level], return_inverse=True)
        path[level] = inverse.reshape(-1) + count
        source = pairs // names_size
        parents.append(np.full(len(pairs), -1) if depth == 0 else source)
        name_of.append(pairs % names_size)
        head_of.append(source if depth == 0 else np.full(len(pairs), -1))
        depths.append(np.full(len(pairs), depth))
        count += len(pairs)
    if not count:
        none = np.zeros(0, np.int64)
        return NamePaths(tree, none, none, none, none, none)
    parent, head = np.concatenate(parents), np.concatenate(head_of)
    root: Array = np.where(parent < 0, np.arange(count), parent)
    while not np.array_equal(further := root[root], root):
        root = further
    return NamePaths(
        tree, path, parent, np.concatenate(name_of), head[root], np.concatenate(depths)
    )
