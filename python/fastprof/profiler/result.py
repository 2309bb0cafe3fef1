# SPDX-License-Identifier: Apache-2.0
"""Result: the events of one recording, read on first use."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastprof import _core
from fastprof.base.cached_property import cached_property
from fastprof.profiler.at_exit import keep_readable_at_exit
from fastprof.profiler.options import Options

if TYPE_CHECKING:
    from fastprof.analysis.memory_categories import MemoryProfile
    from fastprof.model.sampled_stacks import SampledStacks
    from fastprof.model.table import EventTable
    from fastprof.views import EventList, FunctionEvent

__all__ = ["Result", "event_list"]


class Result:
    """The events of one recording. Immutable; the table and the list are computed on first use."""

    def __init__(
        self,
        capture: _core.Capture | None,
        options: Options,
        metadata: Mapping[str, Any],
        pauses: Sequence[tuple[int | None, int | None]] = (),
    ) -> None:
        self.capture = capture
        self.options = options
        self.metadata = dict(metadata)
        self.pauses = tuple(pauses)
        # distributed_info() during the recording: the process groups may be destroyed before a trace is written.
        self.distributed: dict[str, Any] | None = None
        self.device_members: dict[str, str] = {}
        # Addresses of parameters at the end, for the categories of memory.
        self.parameters: frozenset[int] = frozenset()
        self.samples: SampledStacks | None = None
        keep_readable_at_exit(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Result:
        # Copies share the capture and its tables, which are immutable; events are assignable.
        copied = Result(self.capture, self.options, self.metadata, self.pauses)
        memo[id(self)] = copied
        copied.__dict__.update(copy.copy(self.__dict__))
        copied.metadata = copy.deepcopy(self.metadata, memo)
        if "events" in self.__dict__:
            copied.__dict__["events"] = copy.deepcopy(self.events, memo)
        return copied

    def __reduce__(self) -> Any:
        # The tables contain all of the capture, which cannot be pickled.
        arguments = (
            self._recorded, self.table, self.options, self.metadata, self.distributed, self.device_members,
            self.parameters, self.samples,
        )  # fmt: skip
        return _result_of, arguments

    @cached_property
    def _recorded(self) -> EventTable:
        """The capture's columns, without events that began in a pause."""
        from fastprof.decode.consolidate import table_of, without_pauses
        from fastprof.model.table import EventTable
        from fastprof.views.names import keeps_stack_entry

        if self.capture is None:
            return EventTable({"start_ns": [], "end_ns": [], "site": []}, sites=())
        table = table_of(
            self.capture,
            with_stack=self.options.with_stack,
            with_modules=self.options.with_modules,
            with_shapes=self.options.record_shapes,
            with_flops=self.options.with_flops,
            with_storages=self.options.profile_memory and self.options.record_shapes,
            keeps_frame=keeps_stack_entry,
            metadata=self.metadata,
        )
        if self.pauses:
            table = without_pauses(table, self.pauses)
        if self._min_call_ns > 0:
            from fastprof.decode.short_calls import fold_short_calls

            table = fold_short_calls(table, self._min_call_ns)
        if self._has_sample_rows and self.samples is not None:
            from fastprof.decode.sample_rows import with_samples

            table = with_samples(table, self.samples)
        return table

    @property
    def recorded(self) -> EventTable:
        """The recorded events, before memory is attributed to ranges."""
        return self._recorded

    @cached_property
    def table(self) -> EventTable:
        """The recorded events, with memory attributed to ranges if profile_memory is on."""
        if not self.options.profile_memory:
            return self._recorded
        from fastprof.analysis.memory_attribution import attribute_memory

        return attribute_memory(self._recorded, self.options.memory_attribution)

    @cached_property
    def memory_profile(self) -> MemoryProfile:
        """The table's memory by category; errors.ValueError without allocations and shapes."""
        from fastprof.adapters.torch.schemas import written_inputs
        from fastprof.analysis.memory_categories import MemoryProfile
        from fastprof.analysis.memory_categories.mutability import written_by_name

        return MemoryProfile(self.table, written_inputs() or written_by_name, self.parameters)

    @cached_property
    def events(self) -> EventList[FunctionEvent]:
        """The table's events as objects."""
        return event_list(self.table, self.options)

    @property
    def _min_call_ns(self) -> int:
        chosen = self.options.python_calls
        return 0 if chosen is None else math.ceil(1000 * chosen.min_duration_us)

    @property
    def _has_sample_rows(self) -> bool:
        """Whether samples are rows. Beside recorded calls, which say the same exactly, they are not."""
        return self.samples is not None and self.options.python_calls is None

    @cached_property
    def capture_to_write(self) -> _core.Capture:
        """The capture to export: the session's own, or, if rows were left out, one made from the table."""
        changed = self.pauses or self._min_call_ns or self._has_sample_rows
        if self.capture is not None and not changed:
            return self.capture
        from fastprof.exporters.trace_writers import capture_of_table

        return capture_of_table(self._recorded, self.options.counters)

    def write_chrome_trace(self, path: str | os.PathLike[str], members: Mapping[str, str]) -> None:
        """Write Kineto's JSON, gzipped if the path ends in .gz. members: name -> JSON text."""
        from fastprof.exporters.trace_writers import write_chrome_capture

        write_chrome_capture(self.capture_to_write, path, members, call_stacks=self.options.verbose)

    def write_perfetto_trace(
        self, path: str | os.PathLike[str], members: Mapping[str, str]
    ) -> None:
        """Write Perfetto's protobuf format, gzipped if the path ends in .gz. members: as of Chrome's."""
        from fastprof.exporters.trace_writers import write_perfetto_capture

        write_perfetto_capture(self.capture_to_write, path, members)


def _result_of(
    recorded: EventTable,
    table: EventTable,
    options: Options,
    metadata: dict[str, Any],
    distributed: dict[str, Any] | None,
    device_members: dict[str, str],
    parameters: frozenset[int],
    samples: SampledStacks | None,
) -> Result:
    result = Result(None, options, metadata)
    result.distributed, result.device_members = distributed, device_members
    result.parameters, result.samples = parameters, samples
    result.__dict__.update(_recorded=recorded, table=table)
    return result


def event_list(
    table: EventTable, options: Options, *, dedupe: bool = True
) -> EventList[FunctionEvent]:
    """Return the EventList of a table, with the columns that the options request. dedupe: see EventList.from_table."""
    from fastprof.views import EventList

    return EventList.from_table(
        table,
        use_device=options.use_device,
        profile_memory=options.profile_memory,
        with_flops=options.with_flops,
        kineto_metadata=options.kineto_metadata,
        dedupe=dedupe,
    )
