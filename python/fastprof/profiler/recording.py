# SPDX-License-Identifier: Apache-2.0
"""Recording: one native session from start to stop. Result: what it saw, read when asked for."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from fastprof import _core
from fastprof.adapters.torch.ops import Observation
from fastprof.profiler.at_exit import keep_readable_at_exit
from fastprof.profiler.gc_events import GcEvents
from fastprof.profiler.metadata import distributed_info
from fastprof.profiler.options import Options, tell_missing

if TYPE_CHECKING:
    from fastprof.adapters.torch.ops import Part
    from fastprof.adapters.torch.threads import TorchThreads
    from fastprof.model.table import EventTable
    from fastprof.views import EventList, FunctionEvent

__all__ = ["Recording", "Result"]

# category::user and category::op of csrc/include/fastprof/base/scope.hpp.
_OP_CATEGORIES = 1 << 0 | 1 << 1


class Recording:
    """A running session. Not for two threads at once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session = _core.Session(
            categories=options.categories,
            thread_local_only=not options.all_threads,
            max_bytes=options.max_bytes,
            max_name_bytes=options.max_name_bytes,
            overflow=options.overflow,
            python_stacks=options.with_stack,
            counters=list(options.counters),
            record_shapes=options.record_shapes,
            spill_folder=os.fsencode(options.spill_folder),
        )
        self._pauses: list[list[int | None]] = []
        self._pid = os.getpid()
        self._torch_ops: Observation | None = None
        self._gc_events = GcEvents()
        self._result: Result | None = None
        self._distributed: dict[str, Any] | None = None

    def warm_up(self) -> None:
        """Fault in memory for records, so that the first ranges cost what later ones do."""
        self._session.warm_up()

    def start(self) -> None:
        """Begin to record. errors.StateError when it runs. After an exception call abandon()."""
        self._distributed = distributed_info()
        threads: TorchThreads | None = None
        if self._options.categories & _OP_CATEGORIES:
            parts: list[Part] = []
            tell = partial(tell_missing, self._options)
            if not self._options.all_threads:
                from fastprof.adapters.torch.threads import TorchThreads

                threads = TorchThreads(partial(tell, "torch_threads"))
                parts.append(threads)
            if self._options.profile_memory:
                from fastprof.adapters.torch.memory import TorchMemory

                parts.append(TorchMemory(partial(tell, "profile_memory")))
            if self._options.with_modules:
                from fastprof.adapters.torch.modules import TorchModules

                parts.append(TorchModules(partial(tell, "with_modules")))
            self._torch_ops = Observation(tell, parts, inputs=self._options.record_shapes)
            self._torch_ops.start()
        if self._options.gc_events:
            self._gc_events.start()
        self._session.start()
        if threads is not None:
            threads.session_started()

    def _stop_observing(self) -> None:
        if self._torch_ops is not None:
            self._torch_ops.stop()
        self._gc_events.stop()

    @property
    def started(self) -> bool:
        """Whether start() has begun to record; stays true after stop()."""
        return self._session.running or self._session.has_capture

    def abandon(self) -> None:
        """End without a result. Called again, or when it does not run: no effect."""
        self._stop_observing()
        if self._session.running:
            self._session.stop({})

    @property
    def in_its_process(self) -> bool:
        """False in a forked child, where the session does not exist."""
        return self._pid == os.getpid()

    def _warn_of_spill(self) -> None:
        """Tell why records are missing when the spill file could not be written."""
        reason = self._session.spill_error
        if reason:
            tell_missing(
                self._options,
                "spill",
                f"the spill file could not be written ({reason}): events are missing, which are "
                "counted as dropped under spill_failed; choose another spill_folder, or a larger "
                "max_bytes",
            )

    def pause(self, paused: bool) -> None:
        """Leave out what begins from here on, or record it again."""
        now_ns = _core.now_ns()
        open_pause = bool(self._pauses) and self._pauses[-1][1] is None
        if paused and not open_pause:
            self._pauses.append([now_ns, None])
        elif not paused and open_pause:
            self._pauses[-1][1] = now_ns

    def stop(self, metadata: Mapping[str, Any]) -> Result:
        """End and read everything. Called again, also after an interrupt: the same result.

        errors.StateError in a forked child.
        """
        if self._result is None:
            names = {t.native_id: t.name for t in threading.enumerate() if t.native_id is not None}
            try:
                capture = self._session.stop(names)
            finally:
                self._stop_observing()
            self._warn_of_spill()
            pauses = [(a, b) for a, b in self._pauses]
            result = Result(capture, self._options, metadata, pauses)
            result.distributed = distributed_info() or self._distributed
            self._result = result
        return self._result


class Result:
    """What one recording saw. Immutable; the table and the list are made when first read."""

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
        # The process groups while it recorded: they may be gone when a trace is written.
        self.distributed: dict[str, Any] | None = None
        keep_readable_at_exit(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Result:
        # A capture and its tables cannot change, so copies share them; events can be assigned to.
        copied = Result(self.capture, self.options, self.metadata, self.pauses)
        memo[id(self)] = copied
        copied.__dict__.update(copy.copy(self.__dict__))
        copied.metadata = copy.deepcopy(self.metadata, memo)
        if "events" in self.__dict__:
            copied.__dict__["events"] = copy.deepcopy(self.events, memo)
        return copied

    def __reduce__(self) -> Any:
        # The tables say all that the capture does, which has no form outside of its process.
        arguments = (self._recorded, self.table, self.options, self.metadata, self.distributed)
        return _result_of, arguments

    @cached_property
    def _recorded(self) -> EventTable:
        """The columns, the capture's own, without what began in a pause."""
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
            keeps_frame=keeps_stack_entry,
            metadata=self.metadata,
        )
        return without_pauses(table, self.pauses) if self.pauses else table

    @cached_property
    def table(self) -> EventTable:
        """What was recorded, with memory told to its ranges when the options ask for that."""
        if not self.options.profile_memory:
            return self._recorded
        from fastprof.analysis.memory_attribution import attribute_memory

        return attribute_memory(self._recorded, self.options.memory_attribution, _core)

    @cached_property
    def events(self) -> EventList[FunctionEvent]:
        """The events of the table."""
        return event_list(self.table, self.options)

    @cached_property
    def shown(self) -> _core.Capture:
        """What the trace writers write: the session's own capture, or that of the rows left."""
        if self.capture is not None and not self.pauses:
            return self.capture
        from fastprof.exporters.trace_writers import capture_of_table

        return capture_of_table(self._recorded, self.options.counters)

    def write_chrome_trace(self, path: str | os.PathLike[str], members: Mapping[str, str]) -> None:
        """Kineto's JSON, gzipped when the path ends in .gz. `members`: JSON texts by name."""
        from fastprof.exporters.trace_writers import write_chrome_capture

        write_chrome_capture(self.shown, path, members)

    def write_perfetto_trace(self, path: str | os.PathLike[str]) -> None:
        """Perfetto's protobuf format, gzipped when the path ends in .gz."""
        from fastprof.exporters.trace_writers import write_perfetto_capture

        write_perfetto_capture(self.shown, path)


def _result_of(
    recorded: EventTable,
    table: EventTable,
    options: Options,
    metadata: dict[str, Any],
    distributed: dict[str, Any] | None,
) -> Result:
    result = Result(None, options, metadata)
    result.distributed = distributed
    result.__dict__.update(_recorded=recorded, table=table)
    return result


def event_list(table: EventTable, options: Options) -> EventList[FunctionEvent]:
    """The EventList of a table with the columns that the options ask for."""
    from fastprof.views import EventList

    return EventList.from_table(
        table,
        use_device=options.use_device,
        profile_memory=options.profile_memory,
        with_flops=options.with_flops,
        kernels=_core,
    )
