# SPDX-License-Identifier: Apache-2.0
"""EventList: a list of events, computed lazily from an EventTable, with its tree, sums and averages.

list_outputs.py has its text and exports, row_list.py the items that are created on access.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from typing import Any, SupportsIndex

from fastprof.base import errors
from fastprof.model.instants import InstantEvent, instants
from fastprof.model.launching import device_name
from fastprof.model.table import EventKind, EventTable
from fastprof.model.tree import EventTree
from fastprof.views.averages import average, group_rows
from fastprof.views.backward_stacks import set_forward_stacks
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
from fastprof.views.function_event_avg import FROM_FIRST, SUMMED, FunctionEventAvg
from fastprof.views.list_outputs import ListOutputs
from fastprof.views.row_list import T
from fastprof.views.table_of_events import table_of_events
from fastprof.views.table_rows import AverageRows, TableRows

__all__ = ["EventList"]


class EventList(ListOutputs[T]):
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
        use_device: str | None = "auto",
        profile_memory: bool = False,
        with_flops: bool = False,
        dedupe: bool = True,
        kineto_metadata: bool = False,
    ) -> EventList[FunctionEvent]:
        """Return the events of a table: its ranges and device activities, in (start, -end) order.

        use_device: name of the device whose time is shown; "auto": the device of the table's activities; None:
        no device times. Rows of the profiler's own machinery (views.names.MACHINERY_NAMES) are left out. dedupe:
        leave out the repeated rows of wrappers (EventTree.dedupe). kineto_metadata: events
        have their number in traces as metadata_json.
        """
        if use_device == "auto":
            use_device = device_name(table)
        hidden, tree = machinery_rows(table), None
        if dedupe:
            tree = EventTree.of_capture(table, hidden, display_codes_by_site(table.sites))
        if tree is None:
            tree = EventTree.by_thread(table, hidden=hidden)
            if dedupe:
                tree = tree.dedupe(display_codes(tree)[0])
        events: EventList[FunctionEvent] = EventList(
            use_device=use_device, profile_memory=profile_memory, with_flops=with_flops
        )
        events._rows = TableRows(tree, use_device, kineto_metadata)
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

    def to_table(self) -> EventTable:
        """Return the list's EventTable, or one made of its events (us rounded to ns).

        Raises errors.StateError for averages.
        """
        if self._of_averages():
            raise errors.StateError(
                "averages have no times, of which a table of events is made. Use events(), or write the averages"
                ' as CSV: export("averages.csv").'
            )
        rows = self._columnar()
        if isinstance(rows, TableRows):
            return rows.tree.table
        return table_of_events(self)

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

    def unlinked(self) -> list[T]:
        """Return copies of the events, without parents and children."""
        return _unlinked(self)

    def _linked_copy(self, events: Iterable[T]) -> EventList[T]:
        copied = self._like(_unlinked(events))
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
        if not isinstance(group_by_stack_n, SupportsIndex):
            raise errors.ValueError(
                f"invalid group_by_stack_n {group_by_stack_n!r}. Use a number of frames, 0 for none."
            )
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
            for name in FROM_FIRST:
                setattr(total, name, getattr(last, name))
            frame = rows.frame
            for name in SUMMED:
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

    # ---- copying ------------------------------------------------------------------------------

    def __copy__(self) -> EventList[T]:
        copied = self._like(() if self._rows is not None else self)
        copied._rows, copied._tree_built = self._rows, self._tree_built
        copied._made = dict(self._made)
        return copied

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        options = (self._use_device, self._profile_memory, self._with_flops, self._tree_built)
        rows = self._columnar()
        if isinstance(rows, TableRows) and rows.kept:
            rows = None  # attributes that were added are copied too
        if rows is not None:
            return _of_rows, (rows, *options)
        if all(type(event) is FunctionEvent for event in self):
            return _of_states, (*flat_states(_untyped(self)), *options)
        return _of_events, (list(self), *options)


def _unlinked(events: Iterable[T]) -> list[T]:
    copied: list[Any] = []
    for event in events:
        if isinstance(event, FunctionEvent):
            copied.append(event.unlinked())
            continue
        other: Any = copy.copy(event)
        other.cpu_parent, other.cpu_children = None, []
        copied.append(other)
    return copied


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
