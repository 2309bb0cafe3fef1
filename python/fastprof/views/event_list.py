# SPDX-License-Identifier: Apache-2.0
"""EventList: a list of events with averages, tables and exports, computed lazily from an EventTable."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable
from typing import Any, SupportsIndex

from fastprof.base import errors
from fastprof.model.instants import InstantEvent, instants
from fastprof.model.nesting import TableKernels
from fastprof.model.table import EventKind, EventTable
from fastprof.model.tree import EventTree, NestKernel
from fastprof.views.averages import average, group_rows
from fastprof.views.backward_stacks import set_forward_stacks
from fastprof.views.event_columns import table_of_events
from fastprof.views.event_copies import events_of_states, flat_states
from fastprof.views.event_nesting import link_events, without_repeats
from fastprof.views.frame import (
    EventFrame,
    display_codes,
    display_codes_by_site,
    machinery_rows,
    sequential_sum,
)
from fastprof.views.function_event import FunctionEvent
from fastprof.views.function_event_avg import FunctionEventAvg
from fastprof.views.outputs import output
from fastprof.views.row_list import RowList, T
from fastprof.views.table_rows import AverageRows, TableRows

__all__ = ["EventList"]


class EventList(RowList[T]):
    """A list of FunctionEvents or FunctionEventAvgs (type checkers: EventList[FunctionEvent]).

    Constructed from objects (`EventList([FunctionEvent(...), ...])`) it is a plain list of them.
    Constructed from a table (`EventList.from_table`, or a profile's results) it holds only columns:
    an event object is created when it is first read, averages and tables are computed from the
    columns, and the first call that modifies the list turns it into a plain one.

    use_device: name of the device whose time is shown ("cuda", ...); use_cuda=True is the older
    spelling. profile_memory, with_flops: show these columns. Reading a list never modifies it; only
    `_build_tree` links and deduplicates the events of a hand-made one.

    Threads may read one list at the same time; a list that is being changed belongs to one thread.
    """

    def __init__(
        self,
        iterable: Iterable[T] = (),
        *,
        use_device: str | None = None,
        use_cuda: bool = False,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(iterable)
        self._use_device = "cuda" if use_cuda and use_device is None else use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self._tree_built = False

    @classmethod
    def from_table(
        cls,
        table: EventTable,
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        dedupe: bool = True,
        kernel: NestKernel | None = None,
        kernels: TableKernels | None = None,
    ) -> EventList[FunctionEvent]:
        """Return the events of a table: its ranges and device activities, in (start, -end) order.

        Rows of the profiler's own machinery (views.names.MACHINERY_NAMES) are left out. dedupe:
        leave out the repeated rows of wrappers (EventTree.dedupe). kernel: native replacement for
        NumPy nesting, for tables without parents. kernels: native replacements for further passes,
        for tables of captures.
        """
        hidden, tree = machinery_rows(table), None
        if dedupe and kernels is not None:
            names = display_codes_by_site(table.sites)
            tree = EventTree.by_kernels(table, kernels, hidden, names)
        if tree is None:
            tree = EventTree.of(table, kernel=kernel, hidden=hidden)
            if dedupe:
                tree = tree.dedupe(display_codes(tree)[0])
        events: EventList[FunctionEvent] = EventList(
            use_device=use_device, profile_memory=profile_memory, with_flops=with_flops
        )
        events._rows = TableRows(tree, use_device)
        events._tree_built = True
        return events

    # ---- the underlying columns ----------------------------------------------------------------

    @property
    def event_tree(self) -> EventTree | None:
        """The tree that the list was made from; None for a list of objects or of averages."""
        return self._rows.tree if isinstance(self._rows, TableRows) else None

    @property
    def event_table(self) -> EventTable | None:
        """The table that the list was made from; None for a list of objects or of averages."""
        tree = self.event_tree
        return None if tree is None else tree.table

    def instants(self, kinds: Collection[EventKind] | None = None) -> list[InstantEvent]:
        """Return events with a time but no duration (marks, counters, flows, memory reports), by time.

        kinds: only these EventKinds; default: all. Instants are neither entries of the list nor part
        of its averages, as in PyTorch. Empty for a list of objects or of averages.
        """
        table = self.event_table
        return [] if table is None else instants(table, kinds)

    def _columnar(self) -> TableRows | AverageRows | None:
        """Return the rows to compute from; None if objects apply (hand-made, or assigned to)."""
        rows = self._rows
        if isinstance(rows, TableRows) and rows.pinned:
            return None
        if isinstance(rows, AverageRows) and self._made:
            return None  # a caller may have assigned to an average that was handed out
        return rows

    def _frame(self) -> EventFrame:
        rows = self._columnar()
        return EventFrame.from_events(list(self)) if rows is None else rows.frame

    def _like(self, iterable: Iterable[Any] = ()) -> EventList[Any]:
        return EventList(
            iterable,
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )

    # ---- the tree ------------------------------------------------------------------------------

    def _build_tree(self) -> None:
        """Link parents and children, remove repeated events, assign stacks to backward ops.

        For a list of objects this sets `cpu_parent`, `cpu_children`, `kernels` and `stack` of the
        events and removes repeats from the list, by the rules of nest_intervals and
        EventTree.dedupe. Has no effect on a list made from a table, or when called again.
        """
        if self._tree_built:
            return
        link_events(self)
        list.__setitem__(self, slice(None), without_repeats(self))
        set_forward_stacks(self)
        self._tree_built = True

    def _built(self) -> EventList[T]:
        """Return this list if its tree is built, else a copy of it with copied, linked events."""
        return self if self._tree_built else self._linked_copy(self)

    def _linked_copy(self, events: Iterable[T]) -> EventList[T]:
        copied = self._like(copy.copy(event) for event in events)
        for event in copied:
            event.cpu_parent, event.cpu_children = None, []
        copied._build_tree()
        return copied

    def _without_python_functions(self) -> EventList[T]:
        """Return this list, or a copy without calls of Python functions if there are any."""
        others = [e for e in _untyped(self) if not getattr(e, "is_python_function", False)]
        return self if len(others) == len(self) else self._linked_copy(others)

    # ---- sums ----------------------------------------------------------------------------------

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of the self CPU times, in us."""
        rows = self._columnar()
        if rows is not None:
            total_ns: int = sequential_sum(rows.frame.self_cpu_time_total)
            return total_ns / rows.frame.unit_per_us
        return float(sum(event.self_cpu_time_total for event in _untyped(self)))

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
        *,
        group_by_input_shape: bool = False,
    ) -> EventList[FunctionEventAvg]:
        """Return averages by (name, node, device type, legacy, annotation) and the given criteria.

        group_by_input_shapes (or ..._shape): also by input shapes. group_by_stack_n: also by the
        first n stack entries. group_by_overload_name: also by overload. include_python_functions:
        include the calls of Python functions (is_python_function), which profiles with stacks contain;
        without them the self times are those of a profile without calls.

        The result is in the order of each group's first event; fields not grouped by are blank. If
        the tree is not built, it is built on a copy.

            print(prof.events().key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
        """
        by_shapes = group_by_input_shapes or group_by_input_shape
        rows = self._columnar()
        if isinstance(rows, TableRows):
            options = (by_shapes, group_by_stack_n, group_by_overload_name)
            if not include_python_functions:
                rows = rows.without_python_functions
            frame = rows.keys_frame(by_shapes, group_by_stack_n > 0, group_by_overload_name)
            grouping = group_rows(frame, rows.tree, *options)
            summed, first = average(frame, grouping, rows.tree, *options), grouping.first
            averages = self._like()
            averages._rows = AverageRows(summed, first, rows)
            averages._tree_built = True
            return averages
        groups: dict[tuple[str, ...], FunctionEventAvg] = {}
        events = self if self._is_averages() else self._built()
        if not include_python_functions:
            events = events._without_python_functions()
        for event in _untyped(events):
            key = [
                str(event.key),
                str(event.node_id),
                str(event.device_type),
                str(event.is_legacy),
                str(event.is_user_annotation),
            ]
            if group_by_overload_name:
                key.append(str(event.overload_name))
            if by_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n > 0:
                key += (event.stack or [])[:group_by_stack_n]
            groups.setdefault(tuple(key), FunctionEventAvg()).add(event)
        averages = self._like(groups.values())
        averages._tree_built = True
        for event in averages:
            event.stack = list(event.stack or [])[:group_by_stack_n]
            if not by_shapes:
                event.input_shapes = ""
            if not group_by_overload_name:
                event.overload_name = ""
        return averages

    def _is_averages(self) -> bool:
        return len(self) > 0 and isinstance(self[0], FunctionEventAvg)

    def total_average(self) -> FunctionEventAvg:
        """Return one average of all events, named "Total"; its other fields are the last event's."""
        total = FunctionEventAvg()
        rows = self._columnar()
        if rows is not None and len(rows):
            last = self[-1]
            for name in ("_cpu_parent", "_cpu_children", *_DESCRIBING):
                setattr(total, name, getattr(last, name.removeprefix("_")))
            frame = rows.frame
            for name in _TOTALS:
                value = sequential_sum(frame.metric(name))
                setattr(total, name, value / frame.unit_per_us if "time" in name else value)
            flops = sequential_sum(frame.metric("flops"))
            total.flops = int(flops) if float(flops).is_integer() else flops
            total.key = "Total"
            return total
        for event in self if self._is_averages() else self._built():
            total.key = None
            total.add(event)
        total.key = "Total"
        return total

    # ---- text ----------------------------------------------------------------------------------

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int | None = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        *,
        max_stack_lines: int | None = None,
        flops_per_s: bool = False,
        max_width: int | None = None,
    ) -> str:
        """Return the list as a text table; "" if it is empty.

        sort_by: a key of render.SORT_KEYS, in descending order; default: list order; errors.ValueError
        for another key. row_limit: rows to print, -1 for all. max_*_column_width: in characters, None
        for no limit. header: a line above. top_level_events_only: only rows without a parent.
        time_unit: "s", "ms" or "us" for all times. max_stack_lines: stack lines per row.
        flops_per_s: add a column of FLOPs per second. max_width: characters per line, for example of
        a terminal: names are cut and, if necessary, columns are left out and named in a last line.
        """
        options = output("options")(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
            time_unit,
            max_stack_lines,
            flops_per_s,
            self._profile_memory,
            self._with_flops,
            max_width,
        )
        return str(output("table")(self._frame(), options))

    def tree_text(
        self,
        max_depth: int | None = None,
        min_percent: float = 0.0,
        time_unit: str | None = None,
        *,
        max_width: int | None = None,
    ) -> str:
        """Return the tree of ranges as text, merged by name: total and self time, share and count.

        max_depth: levels; default: all. min_percent: leave out branches with less of the total time.
        time_unit: "s", "ms" or "us" for all times. max_width: characters per line. Control characters
        of names appear as symbols. "" if the list is empty; errors.StateError for a list of averages.

            print(prof.events().tree_text(max_depth=4, min_percent=1))
        """
        if self._of_averages():
            raise errors.StateError("averages have no tree. Use prof.events().tree_text().")
        options = output("tree_options")(max_depth, min_percent, time_unit, max_width)
        return str(output("tree")(self, options))

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"

    def _repr_html_(self) -> str:
        """Return the first 100 rows as a sortable HTML table, for notebooks; averages by self time."""
        options = output("options")(
            sort_by="self_cpu_time_total" if self._of_averages() else None,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        return str(output("html")(self._frame(), options))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the first rows where IPython shows text; repr() would make an object of every event."""
        printer.text(self._short_text())

    def _short_text(self) -> str:
        if len(self) == 0:
            return "[]"
        by_time = "self_cpu_time_total" if self._of_averages() else None
        text = self.table(sort_by=by_time, row_limit=_SHORT_ROWS)
        more = len(self) - _SHORT_ROWS
        return text + (
            f"{more:,} more rows: print(events.table(row_limit=...))" if more > 0 else ""
        )

    def _of_averages(self) -> bool:
        return isinstance(self._rows, AverageRows) or (self._rows is None and self._is_averages())

    def plot(self, kind: str = "timeline", *, ax: Any = None, limit: int | None = None) -> Any:
        """Draw the list with matplotlib and return the Axes.

        kind: "timeline" (ranges by track and depth), "averages" (bars by self CPU time), "steps" (a bar
        for each ProfilerStep) or "memory" (bytes held over time). ax: Axes to draw on; default: new ones.
        limit: parts to draw (default: 5000 slices, 20 averages, 1000 steps, 20,000 points); the title
        says if there were more. errors.UnavailableError without matplotlib: pip install 'fastprof[plot]'.

            prof.plot("averages").figure.savefig("averages.png")
        """
        return output("plot")(self, kind, ax, limit)

    # ---- export --------------------------------------------------------------------------------

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the metrics that export_stacks accepts."""
        return list(output("stack_metrics"))

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write collapsed stacks ("outer;inner 12", us) of the events that have a stack.

        metric: one of supported_export_stacks_metrics(), else errors.ValueError. Stacks are recorded
        by profiles with with_stack=True.
        """
        output("stacks")(self, path, metric)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a Chrome trace (JSON object), compressed with gzip if `path` ends in .gz.

        Events appear as the list has them; profile.export_chrome_trace writes the whole recording.
        Raises errors.IoError if the file cannot be written.
        """
        output("chrome")(self, path)

    def to_table(self) -> EventTable:
        """Return the list's EventTable, or one made of its events (us rounded to ns)."""
        rows = self._columnar()
        if isinstance(rows, TableRows):
            return rows.tree.table
        return table_of_events(self)

    def to_columns(self) -> dict[str, Any]:
        """Return column name -> NumPy array or list, the data of to_pandas() and the other exports."""
        columns: dict[str, Any] = output("columns")(self)
        return columns

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, one row per event or average. Requires pandas."""
        return output("pandas")(self)

    def to_polars(self) -> Any:
        """Return a polars DataFrame, one row per event or average. Requires polars."""
        return output("polars")(self)

    def to_arrow(self) -> Any:
        """Return a pyarrow Table, one row per event or average. Requires pyarrow."""
        return output("arrow")(self)

    def export_csv(self, path: str | os.PathLike[str]) -> None:
        """Write to_columns() as CSV with a header line, compressed with gzip if `path` ends in .gz."""
        output("csv")(self, path)

    def export_json(self, path: str | os.PathLike[str]) -> None:
        """Write to_columns() as a JSON array of objects, compressed with gzip if `path` ends in .gz."""
        output("json")(self, path)

    # ---- copying ------------------------------------------------------------------------------

    def __copy__(self) -> EventList[T]:
        copied = self._like(() if self._rows is not None else self)
        copied._rows, copied._tree_built = self._rows, self._tree_built
        copied._made = dict(self._made)
        return copied

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        options = (self._use_device, self._profile_memory, self._with_flops, self._tree_built)
        rows = self._columnar()
        if rows is not None:
            return _of_rows, (rows, *options)
        if all(type(event) is FunctionEvent for event in self):
            return _of_states, (*flat_states(_untyped(self)), *options)
        return _of_events, (list(self), *options)


def _untyped(events: EventList[Any]) -> list[Any]:
    return events


def _of_events(
    events: list[Any], use_device: str | None, memory: bool, flops: bool, built: bool
) -> EventList[Any]:
    made = EventList(events, use_device=use_device, profile_memory=memory, with_flops=flops)
    made._tree_built = built
    return made


def _of_rows(rows: TableRows | AverageRows, *options: Any) -> EventList[Any]:
    made = _of_events([], *options)
    made._rows = rows
    return made


def _of_states(states: list[dict[str, Any]], listed: int, *options: Any) -> EventList[Any]:
    return _of_events(events_of_states(states)[:listed], *options)


_SHORT_ROWS = 30
_DESCRIBING = (
    "node_id",
    "is_async",
    "is_remote",
    "overload_name",
    "input_shapes",
    "stack",
    "scope",
    "device_type",
    "is_legacy",
    "use_device",
    "is_user_annotation",
)
_TOTALS = (
    "cpu_time_total",
    "self_cpu_time_total",
    "device_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_memory_usage",
    "self_device_memory_usage",
    "count",
)
