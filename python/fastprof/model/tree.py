# SPDX-License-Identifier: Apache-2.0
"""EventTree: parents, children and self times of a table's rows. Every view derives from it.

Only synchronous CPU ranges nest; async ranges and device activities have neither parent nor children.
The underlying table is never modified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof import _core
from fastprof.base.cached_property import cached_property
from fastprof.base.device_type import DeviceType
from fastprof.base.record_scope import is_op_scope
from fastprof.model.nesting import BLOCK_ROWS, nest_intervals, sum_by
from fastprof.model.parents import new_numbers, skip_rows
from fastprof.model.sites import TASK_SAMPLE
from fastprof.model.table import EventKind, EventTable
from fastprof.model.thread_time import task_tracks, thread_time

__all__ = ["EventTree", "nest_intervals", "nesting_rows", "sum_by"]

Array: TypeAlias = NDArray[Any]


class EventTree:
    """Parents and self times of those rows of a table that are events of an EventList.

    rows: the table rows in the tree, in table order; None: all.
    parent: index *within the tree* of each row's enclosing range, int32, -1 for none.
    kernel_rows: for each tree row, the table row whose kernels it has; None: its own. Set by `dedupe`.
    away_ns: for trees by thread (thread_time.py), (suspended_ns, given_ns) of each row; None: both are 0.
    Build with `EventTree.by_thread`, or with `EventTree.of` where only rows of one track nest. Safe to read from any
    number of threads.
    """

    def __init__(
        self,
        table: EventTable,
        rows: Array | None,
        parent: Array,
        kernel_rows: Array | None = None,
        away_ns: tuple[Array, Array] | None = None,
    ) -> None:
        self.table = table
        self.rows = rows
        self.parent = parent
        self.kernel_rows = kernel_rows
        self.away_ns = away_ns

    @classmethod
    def by_thread(cls, table: EventTable, *, hidden: Array | None = None) -> EventTree:
        """Return EventTree.of(...) with the work of tasks as work of their threads, so that time counts once.

        The parent of a task's outermost row is the row of the thread that ran it, and no row's self time includes
        suspensions of its task or work of another one. Parameters as of `of`.
        """
        whole = cls.of(table)
        if task_tracks(table) is not None:
            found = thread_time(table, whole.parent_rows(), nesting_rows(table))
            if found is not None:
                parent, *away = found
                parent = parent if whole.rows is None else parent[whole.rows]
                if whole.rows is not None:
                    parent = new_numbers(whole.rows, len(table), np.int32)[parent]
                suspended, given = (whole.take(each) for each in away)
                whole = cls(table, whole.rows, parent, away_ns=(suspended, given))
        if hidden is None:
            return whole
        if whole.away_ns is None:
            return cls.of(table, hidden=hidden)
        return whole.without(whole.take(hidden))

    @classmethod
    def of(cls, table: EventTable, *, hidden: Array | None = None) -> EventTree:
        """Return the tree of a table, from its own parents if it has them, else from its times.

        Captured tables have parents, from the order of begins and ends of their records. For other
        tables, nest_intervals is applied within threads; in tables without processes, as those made by hand, within
        (thread, node_id), as in PyTorch.
        hidden: mask of rows to leave out; their children get the next enclosing range as parent.
        """
        unlisted = hidden
        if table.has("kind"):
            kind = table.column("kind")
            if len(kind) and int(kind.max()) > EventKind.ASYNC_RANGE:
                others = kind > EventKind.ASYNC_RANGE
                unlisted = others if hidden is None else others | hidden
        listed = None if unlisted is None else np.flatnonzero(~unlisted)
        nests = nesting_rows(table)
        if table.has("parent"):
            parent = table.column("parent")
            kept = nests
            if listed is not None:
                kept = np.zeros(len(table), np.bool_)
                kept[listed] = True
                if nests is not None:
                    kept &= nests
            if kept is not None:
                parent = skip_rows(parent, kept)
                if nests is not None:
                    parent = np.where(nests, parent, np.int32(-1))
        else:
            chosen = np.flatnonzero(nests) if nests is not None else None
            if listed is not None:
                chosen = (
                    listed if chosen is None else np.intersect1d(listed, chosen, assume_unique=True)
                )
            parent = _nest_rows(table, chosen)
        if listed is None:
            return cls(table, None, parent)
        position = new_numbers(listed, len(table), np.int32)
        return cls(table, listed, position[parent[listed]])

    @classmethod
    def of_capture(
        cls, table: EventTable, hidden: Array | None, name_of_site: Sequence[int]
    ) -> EventTree | None:
        """Return EventTree.of(table, hidden=hidden).dedupe(...), computed by native code.

        name_of_site: name code of each site. Returns None if the table does not qualify: no parents, not
        begin_ordered, tasks, scopes of rows, or device activities attached to rows.
        """
        if not (table.begin_ordered and table.has("parent")) or table.kernels is not None:
            return None
        if table.has("scope"):
            return None
        are_ops = is_op_scope(table.sites.column("scope"))
        if task_tracks(table) is not None:
            return None
        rows, parent = _core.listed_rows(
            parent=table.column("parent"),
            kind=table.column("kind") if table.has("kind") else None,
            nests=nesting_rows(table),
            hidden=hidden,
            site=table.column("site"),
            name_of_site=np.where(are_ops, np.asarray(name_of_site, np.int32), -1).tolist(),
        )
        return cls(table, rows, parent)

    def without(self, hidden: Array) -> EventTree:
        """Return the tree without the rows for which `hidden`, a mask by tree index, is true.

        Their children get the next enclosing row as parent, so that their times become part of its
        self time.
        """
        kept = ~hidden
        listed = np.flatnonzero(kept)
        position = new_numbers(listed, len(self), np.int32)
        return EventTree(
            self.table,
            listed if self.rows is None else self.rows[listed],
            position[skip_rows(self.parent, kept)[listed]],
            None if self.kernel_rows is None else self.kernel_rows[listed],
            self._away_of(kept, listed),
        )

    def _away_of(self, kept: Array, listed: Array) -> tuple[Array, Array] | None:
        """Return away_ns of the rows that stay; what removed rows gave is given by the rows above them."""
        if self.away_ns is None:
            return None
        suspended, given = self.away_ns
        gone = np.flatnonzero(~kept & (given != 0))
        if len(gone):
            above = skip_rows(self.parent, kept)[gone]
            given = given.copy()
            np.add.at(given, above[above >= 0], given[gone][above >= 0])
        return suspended[listed], given[listed]

    def parent_rows(self) -> Array:
        """Return, by table row, the table row of its parent; -1 for none and for rows not in the tree."""
        if self.rows is None:
            return self.parent
        parent = np.full(len(self.table), -1, np.int64)
        parent[self.rows] = np.append(self.rows, -1)[self.parent]
        return parent

    def __reduce__(self) -> Any:
        return EventTree, (self.table, self.rows, self.parent, self.kernel_rows, self.away_ns)

    def __len__(self) -> int:
        return len(self.parent)

    def __repr__(self) -> str:
        return f"<EventTree events={len(self)} roots={int(np.count_nonzero(self.parent < 0))}>"

    def column(self, name: str) -> Array:
        """Return a column of the table for the tree's rows."""
        return self.take(self.table.column(name))

    def take(self, column: Array) -> Array:
        """Select the tree's rows from an array of the table's length; a broadcast value stays one."""
        if self.rows is None:
            return column
        if column.strides == (0,) and len(column):
            return np.broadcast_to(column[0], (len(self.rows),))
        return column[self.rows]

    def table_row(self, index: int) -> int:
        """Return the table row of a tree index."""
        return int(index) if self.rows is None else int(self.rows[index])

    # ---- structure -----------------------------------------------------------------------------

    @property
    def n_children(self) -> Array:
        """Number of direct children of each row, int64."""
        return np.bincount(self.parent + 1, minlength=len(self) + 1)[1:]

    @cached_property
    def _child_index(self) -> tuple[Array, Array]:
        """Children grouped by parent: (offsets, indices), in begin order within a parent."""
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.n_children, out=offsets[1:])
        children = np.flatnonzero(self.parent >= 0)
        if self.table.begin_ordered:
            order = np.argsort(self.parent[children], kind="stable")
        else:
            start, end = self.column("start_ns")[children], self.column("end_ns")[children]
            order = np.lexsort((-end, start, self.parent[children]))
        return offsets, children[order]

    def children(self, index: int) -> Array:
        """Return the indices of a row's direct children, in begin order."""
        offsets, indices = self._child_index
        return indices[offsets[index] : offsets[index + 1]]

    @cached_property
    def depth(self) -> Array:
        """Number of ancestors of each row, int32.

        By pointer doubling, O(n log depth): one step per level would be quadratic in deep trees.
        """
        size = len(self)
        ancestor = np.append(np.where(self.parent < 0, size, self.parent), size).astype(np.int64)
        depth = (ancestor < size).astype(np.int32)
        while bool((ancestor[:-1] < size).any()):
            depth += depth[ancestor]
            ancestor = ancestor[ancestor]
        return depth[:-1]

    @cached_property
    def levels(self) -> list[Array]:
        """Indices of the rows of each depth, roots first."""
        depth = self.depth
        order = np.argsort(depth, kind="stable")
        counts = np.bincount(depth) if len(self) else np.zeros(0, np.int64)
        return np.split(order, np.cumsum(counts)[:-1]) if len(counts) else []

    def sum_children(self, values: Array) -> Array:
        """Return the sum of `values` over the direct children of each row."""
        if len(self) and int(self.parent.max()) < 0:
            return np.zeros(len(self), values.dtype)
        # Code 0 collects the roots and is dropped, so the children need not be selected.
        return sum_by(self.parent + 1, values, len(self) + 1)[1:]

    def sum_subtree(self, values: Array, closed: Array | None = None) -> Array:
        """Return the sum of `values` over each row and all its descendants.

        Rows where `closed` is true keep their own value, without their descendants'.
        """
        total: Array = values.copy()
        for level in reversed(self.levels[1:]):
            giving = level if closed is None else level[~closed[self.parent[level]]]
            np.add.at(total, self.parent[giving], total[giving])
        return total

    # ---- measures ------------------------------------------------------------------------------

    @cached_property
    def on_cpu(self) -> Array | None:
        """Mask of the rows that are not device activities; None if all are on the CPU."""
        if not self.table.has("device_type"):
            return None
        mask: Array = self.column("device_type") == DeviceType.CPU
        return None if np.all(mask) else mask

    @cached_property
    def is_async(self) -> Array | None:
        """Mask of the async rows; None if there are none."""
        if not any(self.table.has(name) for name in ("is_async", "kind", "flags")):
            return None
        mask: Array = self.column("is_async")
        return mask if np.any(mask) else None

    @cached_property
    def total_ns(self) -> Array:
        """CPU time of each row including its children, int64 ns; 0 for device activities."""
        duration = self.take(self.table.duration_ns)
        return duration if self.on_cpu is None else np.where(self.on_cpu, duration, 0)

    @cached_property
    def self_ns(self) -> Array:
        """Time in which the row is the innermost that runs, int64 ns; 0 for async and device rows.

        total_ns minus that of the direct children; in trees by thread, also without suspensions of the row's task
        and of work that other rows have (thread_time.py). Not clamped: children that overlap make it negative.
        """
        if self.away_ns is None:
            return self._without_children(self.total_ns)
        suspended, given = self.away_ns
        own = self._without_children(self.total_ns - suspended)
        return np.where(self._sums_nothing, 0, own - given)

    @cached_property
    def self_cpu_ns(self) -> Array:
        """self_ns, but 0 for the rows of suspended tasks, which use no CPU."""
        return self.self_ns if self.suspended is None else np.where(self.suspended, 0, self.self_ns)

    @cached_property
    def suspended(self) -> Array | None:
        """Mask of the rows that are samples of suspended tasks; None if there are none."""
        categories = self.table.sites.field("category")
        if TASK_SAMPLE not in categories:
            return None
        return np.array([c == TASK_SAMPLE for c in categories], np.bool_)[self.column("site")]

    @property
    def _sums_nothing(self) -> Array:
        """Mask of the async rows and device activities."""
        mask: Array = np.zeros(len(self), np.bool_)
        if self.is_async is not None:
            mask |= self.is_async
        if self.on_cpu is not None:
            mask |= ~self.on_cpu
        return mask

    def self_of(self, column: str) -> Array:
        """Return the self value of a column that includes children, such as cpu_memory_usage."""
        return self._without_children(self.column(column))

    def _without_children(self, values: Array) -> Array:
        if len(values) and values.strides == (0,) and not values[0]:
            return values
        own = values - self.sum_children(values)
        if self.is_async is not None:
            own = np.where(self.is_async, 0, own)
        if self.on_cpu is not None:
            own = np.where(self.on_cpu, own, 0)
        return own

    @cached_property
    def has_device_time(self) -> bool:
        """Whether there are kernels or device activities."""
        return self.on_cpu is not None or bool(self.table.kernels)

    @cached_property
    def device_self_and_total_ns(self) -> tuple[Array, Array]:
        """Device time of each row, int64 ns: (self, total).

        CPU rows: total is the time of their and their descendants' kernels (legacy rows: of their
        own only), self is total minus the children's total. Device rows: both are the duration.
        Async rows: 0.
        """
        own: Array = np.zeros(len(self), np.int64)
        kernels = self.table.kernels
        if kernels:
            per_row = sum_by(kernels.row, kernels.duration_ns, len(self.table))
            if self.kernel_rows is None:
                own = self.take(per_row)
            else:
                own = np.where(self.kernel_rows >= 0, per_row[self.kernel_rows], 0)
        if self.is_async is not None:
            own = np.where(self.is_async, 0, own)
        total = own
        if kernels:
            legacy = self.column("is_legacy") if self.table.has("is_legacy") else None
            total = self.sum_subtree(own, legacy)
        own = total - self.sum_children(total)
        if self.on_cpu is not None:
            duration: Array = self.take(self.table.duration_ns)
            if self.is_async is not None:
                duration = np.where(self.is_async, 0, duration)
            own = np.where(self.on_cpu, own, duration)
            total = np.where(self.on_cpu, total, duration)
        return own, total

    # ---- deduplication -------------------------------------------------------------------------

    def dedupe(self, names: Array | None = None) -> EventTree:
        """Return a tree without the repeated rows of wrappers, as PyTorch's EventList removes them.

        A row of an op with its parent's name that is its parent's only child is removed; its children
        and its kernels (replacing the parent's own) move to the parent. Rows of RecordScope.USER_SCOPE
        stay: ranges, calls and rows of other tools that nest in one of their name are recursion, not
        the wrappers that autograd puts around ops. PyTorch repeats this pass until
        nothing changes; merging preserves both the name and the number of children that the rule
        tests, so one pass over the original tree removes the same rows.

        names: name code of each tree row; default: the table's. The table and this tree stay
        unchanged.
        """
        if len(self) == 0:
            return self
        if names is None:
            names = self.take(self.table.name_id)
        candidates = self._named_as_parent(names)
        if not len(candidates):
            return self
        scope = self.column("scope")
        candidates = candidates[
            (self.n_children[self.parent[candidates]] == 1)
            & is_op_scope(scope[candidates])
            & is_op_scope(scope[self.parent[candidates]])
        ]
        if not len(candidates):
            return self
        kept = np.ones(len(self), np.bool_)
        kept[candidates] = False
        parent = skip_rows(self.parent, kept)
        keep_index = np.flatnonzero(kept)
        kernel_rows = None
        if self.table.kernels:
            # The deepest removed row of a chain passes its kernels to the row that stays: removed
            # rows are visited from the roots down, so the last write wins.
            source = np.arange(len(self)) if self.kernel_rows is None else self.kernel_rows.copy()
            if self.rows is not None and self.kernel_rows is None:
                source = self.rows.copy()
            original = source.copy()
            removed = ~kept
            for level in self.levels[1:]:
                gone = level[removed[level]]
                source[parent[gone]] = original[gone]
            kernel_rows = source[keep_index]
        position = new_numbers(keep_index, len(self), np.int32)
        rows = keep_index if self.rows is None else self.rows[keep_index]
        away = self._away_of(kept, keep_index)
        return EventTree(self.table, rows, position[parent[keep_index]], kernel_rows, away_ns=away)

    def _named_as_parent(self, names: Array) -> Array:
        """Return the rows with their parent's name. They are rare, so blocks are scanned."""
        found = []
        for low in range(0, len(self), BLOCK_ROWS):
            parent = self.parent[low : low + BLOCK_ROWS]
            if int(parent.max()) < 0:
                continue
            same = names[parent] == names[low : low + BLOCK_ROWS]  # parent -1 reads the last row
            same &= parent >= 0
            if same.any():
                found.append(np.flatnonzero(same) + low)
        return np.concatenate(found) if found else np.zeros(0, np.int64)


def nesting_rows(table: EventTable) -> Array | None:
    """Return the mask of rows that can be parents or children; None for all."""
    mask: Array | None = None
    if any(table.has(name) for name in ("is_async", "kind", "flags")):
        asynchronous = table.column("is_async")
        if asynchronous.strides != (0,) and bool(asynchronous.any()):
            mask = ~asynchronous
    if table.has("device_type"):
        on_cpu = table.column("device_type") == DeviceType.CPU
        if not bool(on_cpu.all()):
            mask = on_cpu if mask is None else mask & on_cpu
    return mask


def _nest_rows(table: EventTable, chosen: Array | None) -> Array:
    """Return parents computed from times, for the chosen rows (None: all), within threads; see EventTree.of."""
    thread = table.thread
    group = thread if chosen is None else thread[chosen]
    if table.has("node_id") and not any(track.pid > 0 for track in table.tracks):
        node = table.column("node_id") if chosen is None else table.column("node_id")[chosen]
        _, thread_code = np.unique(group, return_inverse=True)
        nodes, node_code = np.unique(node, return_inverse=True)
        group = thread_code * len(nodes) + node_code
    if chosen is None:
        return nest_intervals(table.start_ns, table.end_ns, group)
    parent = np.full(len(table), -1, np.int32)
    local = nest_intervals(table.start_ns[chosen], table.end_ns[chosen], group)
    found = local >= 0
    parent[chosen[found]] = chosen[local[found]]
    return parent
