# SPDX-License-Identifier: Apache-2.0
"""Recording: one native session from start to stop. Result: what it saw, read when asked for."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastprof import _core
from fastprof.profiler.options import Options, tell_missing
from fastprof.profiler.torch_ops import observe_torch_ops

if TYPE_CHECKING:
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
        )
        self._pauses: list[list[int | None]] = []
        self._pid = os.getpid()
        self._torch_ops: Any = None

    def start(self) -> None:
        """Begin to record. errors.StateError when it runs."""
        if self._options.categories & _OP_CATEGORIES:
            self._torch_ops = observe_torch_ops(self._torch_ops_missing)
        try:
            self._session.start()
        except BaseException:
            self._stop_torch_ops()
            raise

    def _stop_torch_ops(self) -> None:
        if self._torch_ops is not None:
            self._torch_ops.stop()
            self._torch_ops = None

    def _torch_ops_missing(self, reason: str) -> None:
        tell_missing(self._options, "torch_ops", reason)

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
    def table(self) -> EventTable:
        """The columns; they are the capture's own."""
        from fastprof.consolidate import table_of, without_pauses
        from fastprof.memory_attribution import attribute_memory
        from fastprof.table import EventTable

        if self.capture is None:
            return EventTable({"start_ns": [], "end_ns": [], "site": []}, sites=())
        options = self.options
        table = table_of(
            self.capture,
            with_stack=options.with_stack,
            metadata=self.metadata,
        )
        if self.pauses:
            table = without_pauses(table, self.pauses)
        if options.profile_memory:
            table = attribute_memory(table, options.memory_attribution)
        return table

    @cached_property
    def events(self) -> EventList:
        """The events of the table."""
        return event_list(self.table, self.options)

    def write_chrome_trace(self, path: str | os.PathLike[str], members: Mapping[str, str]) -> None:
        """Kineto's JSON, gzipped when the path ends in .gz. `members`: JSON texts by name."""
        from fastprof.exporters.atomic_file import atomic_binary
        from fastprof.exporters.chrome_python import export_chrome_trace

        target = os.fspath(path)
        if self.capture is None or self.pauses:
            export_chrome_trace(self.events, target)
            return
        pairs = list(members.items())
        if not target.endswith(".gz"):
            self.capture.write_chrome_trace(os.fsencode(target), pairs, target)
            return
        with tempfile.TemporaryDirectory(prefix="fastprof-") as folder:
            plain = Path(folder, "trace.json")
            self.capture.write_chrome_trace(os.fsencode(plain), pairs, target)
            with atomic_binary(target) as packed, plain.open("rb") as text:
                shutil.copyfileobj(text, packed, 1 << 20)

    def write_perfetto_trace(self, path: str | os.PathLike[str]) -> None:
        """Perfetto's protobuf format."""
        target = os.fspath(path)
        if self.capture is None:
            Path(target).write_bytes(b"")
            return
        self.capture.write_perfetto_trace(os.fsencode(target))


def event_list(table: EventTable, options: Options) -> EventList:
    """The EventList of a table with the columns that the options ask for."""
    from fastprof.views import EventList

    return EventList.from_table(
        table,
        use_device=options.use_device,
        profile_memory=options.profile_memory,
        with_flops=options.with_flops,
    )
