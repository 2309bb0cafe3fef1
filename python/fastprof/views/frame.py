# SPDX-License-Identifier: Apache-2.0
"""EventFrame: the columns from which averages and tables are computed.

One row per event or average, from either source: rows of an EventTable (integer ns, no object per
event) or FunctionEvent / FunctionEventAvg objects (float us, as given).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastprof.base.device_type import as_device_type
from fastprof.base.measure_names import MEMORY_FIELDS
from fastprof.base.native_numbers import INCOMPLETE_CAUSES
from fastprof.model.sites import TASK_CATEGORIES, SiteTable
from fastprof.model.table import CodedColumn, EventTable
from fastprof.model.tree import EventTree
from fastprof.views.names import MACHINERY_NAMES, display_names

__all__ = [
    "METRIC_FIELDS",
    "EventFrame",
    "display_codes",
    "display_codes_by_site",
    "machinery_rows",
    "sequential_sum",
    "table_notes",
]

Array: TypeAlias = NDArray[Any]


_CODED = ("overload_name", "input_shapes", "stack")


@dataclass(frozen=True)
class EventFrame:
    """Columns of equal length. Times are in ns if `unit_per_us` is 1000, in us if it is 1.

    key: displayed names, wildcards applied. If annotation_in_key, rows that differ in
    is_user_annotation have different codes even for the same text.
    order: row numbers in list order; None: rows are stored in list order.
    notes: lines for the table's footer.
    A column that is None is all default: 0 for times and memory, 1 for count, unknown for flops,
    empty for coded columns.
    """

    size: int
    unit_per_us: int
    key: CodedColumn
    annotation_in_key: bool
    cpu_time_total: Array
    self_cpu_time_total: Array
    device_time_total: Array | None
    self_device_time_total: Array | None
    cpu_memory_usage: Array | None
    self_cpu_memory_usage: Array | None
    device_memory_usage: Array | None
    self_device_memory_usage: Array | None
    count: Array | None
    flops: Array | None
    node_id: Array
    device_type: Array
    is_async: Array
    is_legacy: Array
    is_user_annotation: Array
    has_parent: Array
    overload_name: CodedColumn | None
    input_shapes: CodedColumn | None
    stack: CodedColumn | None
    use_device: str | None
    order: Array | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def from_tree(
        cls,
        tree: EventTree,
        use_device: str | None = None,
        order: Array | None = None,
        *,
        times: bool = True,
    ) -> EventFrame:
        """Return the columns of a tree's events, without one Python object per event.

        times=False is for averages: CPU times, memory, FLOPs, parents and the coded columns are left
        out (zeros or None), because averages sum the former directly from the tree and read the
        coded columns they group by themselves.
        """
        table = tree.table
        size = len(tree)
        per_row_annotation = table.has("is_user_annotation")
        key = CodedColumn(*display_codes(tree, split_annotations=not per_row_annotation))
        device_self: Array | None = None
        device_total: Array | None = None
        if use_device and tree.has_device_time:
            device_self, device_total = tree.device_self_and_total_ns
        memory: list[Array | None] = [None] * 4
        if times and table.has("cpu_memory_usage"):
            memory[:2] = tree.column("cpu_memory_usage"), tree.self_of("cpu_memory_usage")
        if times and table.has("device_memory_usage"):
            memory[2:] = tree.column("device_memory_usage"), tree.self_of("device_memory_usage")
        coded: dict[str, CodedColumn] = {}
        if times:
            coded = {name: table.coded[name] for name in _CODED if name in table.coded}
            if tree.rows is not None:
                coded = {name: column.take(tree.rows) for name, column in coded.items()}
        none = np.broadcast_to(np.False_, (size,))
        zeros = np.broadcast_to(np.int64(0), (size,))
        # Without this column the flag is a property of the site, thus part of the key. It is read only if there
        # are device annotations, whose time must not be added to that of the activities that they span.
        spans_work = "gpu_user_annotation" in table.sites.field("category")
        reads_annotation = per_row_annotation or spans_work
        annotation = tree.column("is_user_annotation") if reads_annotation else none
        return cls(
            size=size,
            unit_per_us=1000,
            key=key,
            annotation_in_key=not per_row_annotation,
            cpu_time_total=tree.total_ns if times else zeros,
            self_cpu_time_total=tree.self_cpu_ns if times else zeros,
            device_time_total=device_total,
            self_device_time_total=device_self,
            cpu_memory_usage=memory[0],
            self_cpu_memory_usage=memory[1],
            device_memory_usage=memory[2],
            self_device_memory_usage=memory[3],
            count=None,
            flops=tree.column("flops") if times and table.has("flops") else None,
            node_id=_uniform(tree, "node_id"),
            device_type=_uniform(tree, "device_type"),
            is_async=none if tree.is_async is None else tree.is_async,
            is_legacy=_uniform(tree, "is_legacy"),
            is_user_annotation=annotation,
            has_parent=tree.parent >= 0 if times else none,
            overload_name=coded.get("overload_name"),
            input_shapes=coded.get("input_shapes"),
            stack=coded.get("stack"),
            use_device=use_device,
            order=order,
            notes=table_notes(tree),
        )

    @classmethod
    def from_events(cls, events: Sequence[Any]) -> EventFrame:
        """Return the columns of FunctionEvent or FunctionEventAvg objects, in us as given."""
        size = len(events)

        def numbers(field: str) -> Array:
            return np.array([getattr(e, field) for e in events], np.float64)

        def integers(field: str) -> Array:
            values = [getattr(e, field) for e in events]
            try:
                return np.array(values, np.int64)
            except (OverflowError, TypeError, ValueError):
                return np.array(values, object)

        def flags(field: str) -> Array:
            return np.fromiter((bool(getattr(e, field, False)) for e in events), np.bool_, size)

        flops = [getattr(e, "flops", None) for e in events]
        open_ranges = sum(not getattr(e, "finished", True) for e in events)
        return cls(
            size=size,
            unit_per_us=1,
            key=CodedColumn.encode([str(e.key) for e in events]),
            annotation_in_key=False,
            cpu_time_total=numbers("cpu_time_total"),
            self_cpu_time_total=numbers("self_cpu_time_total"),
            device_time_total=numbers("device_time_total"),
            self_device_time_total=numbers("self_device_time_total"),
            cpu_memory_usage=integers("cpu_memory_usage"),
            self_cpu_memory_usage=integers("self_cpu_memory_usage"),
            device_memory_usage=integers("device_memory_usage"),
            self_device_memory_usage=integers("self_device_memory_usage"),
            count=integers("count"),
            flops=np.array([np.nan if f is None else f for f in flops], np.float64),
            node_id=integers("node_id"),
            device_type=np.fromiter(
                (as_device_type(e.device_type) for e in events), np.int64, size
            ),
            is_async=flags("is_async"),
            is_legacy=flags("is_legacy"),
            is_user_annotation=flags("is_user_annotation"),
            has_parent=np.fromiter((e.cpu_parent is not None for e in events), np.bool_, size),
            overload_name=CodedColumn.encode([e.overload_name for e in events]),
            input_shapes=CodedColumn.encode([e.input_shapes for e in events]),
            stack=CodedColumn.encode([e.stack for e in events]),
            use_device=next((e.use_device for e in events if e.use_device), None),
            notes=(_open_note(open_ranges),) if open_ranges else (),
        )

    def metric(self, field: str) -> Array:
        """Return a numeric field by its device_* or cpu_* name; times in the frame's unit."""
        if field in ("cpu_time", "device_time"):
            total = self.cpu_time_total if field == "cpu_time" else self.metric("device_time_total")
            mean: Array = total / np.maximum(self.metric("count"), 1)
            return mean
        if field == "flops_per_s":
            return self.flops_per_s()
        value: Array | None = getattr(self, field)
        if field == "flops":
            return np.zeros(self.size) if value is None else np.nan_to_num(value)
        if value is None:
            return np.broadcast_to(np.int64(1 if field == "count" else 0), (self.size,))
        return value

    def flops_per_s(self) -> Array:
        """Return FLOPs per second of device time if there is any, else of CPU time; 0 if unknown."""
        time = self.metric("device_time_total").astype(np.float64)
        time = np.where(time > 0, time, self.cpu_time_total) / (self.unit_per_us * 1e6)
        known = time > 0
        return np.where(known, self.metric("flops") / np.where(known, time, 1.0), 0.0)


METRIC_FIELDS = (
    "cpu_time",
    "cpu_time_total",
    "self_cpu_time_total",
    "device_time",
    "device_time_total",
    "self_device_time_total",
    *MEMORY_FIELDS,
    "count",
    "node_id",
    "flops",
    "flops_per_s",
)


def sequential_sum(values: Array) -> Any:
    """Return the sum, added from first to last like a Python loop, as a Python int or float."""
    if values.dtype.kind == "f":
        return float(np.cumsum(values)[-1]) if len(values) else 0.0
    return int(values.sum())


def display_codes(tree: EventTree, *, split_annotations: bool = False) -> tuple[Array, list[str]]:
    """Return (code per tree row, texts): names as the views show them.

    split_annotations: sites that differ in being a user annotation get different codes even if
    their text is the same.
    """
    codes, shown = _derived_codes(tree.table.sites, split_annotations)
    site = tree.column("site")
    return (site if codes is None else codes[site]), shown


def display_codes_by_site(sites: SiteTable) -> list[int]:
    """Return per site the code that display_codes gives to its rows."""
    codes = _derived_codes(sites, False)[0]
    return list(range(len(sites))) if codes is None else codes.tolist()


def machinery_rows(table: EventTable) -> Array | None:
    """Return a mask of the rows to hide from lists: of the profiler's own machinery and of tasks; None for none.

    Rows of tasks describe when a task ran; they are no ranges.
    """
    names, categories = table.sites.names, table.sites.field("category")
    unlisted = [
        name in MACHINERY_NAMES or category in TASK_CATEGORIES
        for name, category in zip(names, categories, strict=True)
    ]
    if not any(unlisted):
        return None
    hidden: Array = np.array(unlisted)[table.column("site")]
    return hidden if np.any(hidden) else None


def _derived_codes(sites: SiteTable, split: bool) -> tuple[Array | None, list[str]]:
    name = f"display codes, annotations {'split' if split else 'merged'}"
    found: tuple[Array | None, list[str]] = sites.derived(name, lambda: _site_codes(sites, split))
    return found


def _site_codes(sites: SiteTable, split: bool) -> tuple[Array | None, list[str]]:
    """Return (code per site, texts); codes are None if they equal the site numbers."""
    texts: list[str] = sites.derived("display names", lambda: display_names(sites.names))
    if len(set(texts)) == len(texts):
        return None, texts
    index: dict[Any, int] = {}
    keys: Any = texts
    if split:
        keys = zip(texts, sites.column("is_user_annotation").tolist(), strict=True)
    codes = np.fromiter((index.setdefault(key, len(index)) for key in keys), np.int32, len(texts))
    return codes, [key[0] if split else key for key in index]


def _uniform(tree: EventTree, name: str) -> Array:
    if tree.table.has(name):
        return tree.column(name)
    return np.broadcast_to(tree.table.column(name)[:1], (len(tree),)) if len(tree) else _EMPTY


_EMPTY = np.zeros(0, np.int64)


def _open_note(count: int) -> str:
    return f"Unfinished ranges: {count} (counted up to the end of the session)"


def table_notes(tree: EventTree) -> tuple[str, ...]:
    """Return footer lines on what is incomplete: unfinished ranges, dropped events, cut names, lost ends."""
    notes = []
    open_ranges = tree.table.unfinished
    if open_ranges:
        notes.append(_open_note(open_ranges))
    dropped = dict(tree.table.dropped)
    renamed, endless = (dropped.pop(cause.name.lower(), 0) for cause in INCOMPLETE_CAUSES)
    if dropped:
        causes = ", ".join(f"{cause} {n}" for cause, n in sorted(dropped.items()))
        notes.append(f"Dropped events: {sum(dropped.values())} ({causes})")
    if renamed:
        notes.append(f"Names or string arguments shared or cut at the bound of names: {renamed}")
    if endless:
        notes.append(f"Ends that found no room: {endless} (shown as unfinished)")
    return tuple(notes)
