# SPDX-License-Identifier: Apache-2.0
"""Recording: one native session from start to stop. Result: what it saw, read when asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from fastprof import _core
from fastprof.profiler.options import Options, tell_missing
from fastprof.profiler.torch_ops import observe_torch_ops

if TYPE_CHECKING:
    from fastprof.profiler.torch_ops import Part
    from fastprof.profiler.torch_threads import TorchThreads
    from fastprof.table import EventTable
    from fastprof.views import EventList

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
            overflow=options.overflow,
            python_stacks=options.with_stack,
            counters=list(options.counters),
        )
        self._pauses: list[list[int | None]] = []
        self._pid = os.getpid()
        self._torch_ops: Any = None

    def start(self) -> None:
        """Begin to record. errors.StateError when it runs."""
        threads: TorchThreads | None = None
        if self._options.categories & _OP_CATEGORIES:
            parts: list[Part] = []
            tell = partial(tell_missing, self._options)
            if not self._options.all_threads:
                from fastprof.profiler.torch_threads import TorchThreads

                threads = TorchThreads(partial(tell, "torch_threads"))
                parts.append(threads)
            if self._options.profile_memory:
                from fastprof.profiler.torch_memory import TorchMemory

                parts.append(TorchMemory(partial(tell, "profile_memory")))
            if self._options.with_modules:
                from fastprof.profiler.torch_modules import TorchModules

                parts.append(TorchModules(partial(tell, "with_modules")))
            self._torch_ops = observe_torch_ops(tell, parts, inputs=self._options.record_shapes)
        try:
            self._session.start()
            if threads is not None:
                threads.session_started()
        except BaseException:
            self._stop_torch_ops()
            raise

    def _stop_torch_ops(self) -> None:
        if self._torch_ops is not None:
            self._torch_ops.stop()
            self._torch_ops = None

    @property
    def in_its_process(self) -> bool:
        """False in a forked child, where the session does not exist."""
        return self._pid == os.getpid()

    def pause(self, paused: bool) -> None:
        """Leave out what begins from here on, or record it again."""
        now_ns = _core.now_ns()
        open_pause = bool(self._pauses) and self._pauses[-1][1] is None
        if paused and not open_pause:
            self._pauses.append([now_ns, None])
        elif not paused and open_pause:
            self._pauses[-1][1] = now_ns

    def stop(self, metadata: Mapping[str, Any]) -> Result:
        """End and read everything. errors.StateError in a forked child."""
        names = {t.native_id: t.name for t in threading.enumerate() if t.native_id is not None}
        try:
            capture = self._session.stop(names)
        finally:
            self._stop_torch_ops()
        return Result(capture, self._options, metadata, [(a, b) for a, b in self._pauses])


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

    @cached_property
    def _recorded(self) -> EventTable:
        """The columns, the capture's own, without what began in a pause."""
        from fastprof.consolidate import table_of, without_pauses
        from fastprof.table import EventTable
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
        from fastprof.memory_attribution import attribute_memory

        return attribute_memory(self._recorded, self.options.memory_attribution, _core)

    @cached_property
    def events(self) -> EventList:
        """The events of the table."""
        return event_list(self.table, self.options)

    @cached_property
    def shown(self) -> _core.Capture:
        """What the trace writers write: the session's own capture, or that of the rows left."""
        if self.capture is not None and not self.pauses:
            return self.capture
        from fastprof.trace_writers import capture_of_table

        return capture_of_table(self._recorded, self.options.counters)

    def write_chrome_trace(self, path: str | os.PathLike[str], members: Mapping[str, str]) -> None:
        """Kineto's JSON, gzipped when the path ends in .gz. `members`: JSON texts by name."""
        from fastprof.trace_writers import write_chrome_capture

        write_chrome_capture(self.shown, path, members)

    def write_perfetto_trace(self, path: str | os.PathLike[str]) -> None:
        """Perfetto's protobuf format, gzipped when the path ends in .gz."""
        from fastprof.trace_writers import write_perfetto_capture

        write_perfetto_capture(self.shown, path)


def event_list(table: EventTable, options: Options) -> EventList:
    """The EventList of a table with the columns that the options ask for."""
    from fastprof.views import EventList

    return EventList.from_table(
        table,
        use_device=options.use_device,
        profile_memory=options.profile_memory,
        with_flops=options.with_flops,
        kernels=_core,
    )
