# SPDX-License-Identifier: Apache-2.0
"""Lightning: a profiler for `Trainer(profiler=FastprofProfiler(dirpath=..., filename=...))`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from lightning.pytorch.profilers import Profiler

from fastprof.profiler import profile, tensorboard_trace_handler
from fastprof.record.ranges import record_function

__all__ = ["FastprofProfiler"]

# An action that ends in one of these names is a step of the schedule.
_STEPS = ("training_step", "validation_step", "test_step", "predict_step")


class FastprofProfiler(Profiler):  # type: ignore[misc, unused-ignore]
    """Record each action of Lightning as a range of one profile; the profile ends at the summary.

    dirpath, filename: folder and name of the report, and of the traces if dirpath is set when they are
    written (Lightning sets its log folder). sort_by, row_limit: of the report's table. arguments: passed to
    fastprof.profile; with a schedule, each training, validation, test or predict step is a step of the profile.
    Read results from the attribute `profile_object`, the last profile.

        trainer = Trainer(profiler=FastprofProfiler(dirpath="log", filename="report"))
    """

    def __init__(
        self,
        dirpath: str | Path | None = None,
        filename: str | None = None,
        sort_by: str = "self_cpu_time_total",
        row_limit: int = 20,
        **arguments: Any,
    ) -> None:
        super().__init__(dirpath=dirpath, filename=filename)
        self.profile_arguments = arguments
        self.sort_by = sort_by
        self.row_limit = row_limit
        self.profile_object: profile | None = None
        self._running = False
        self._open: dict[tuple[int, str], record_function] = {}

    def start(self, action_name: str) -> None:
        """Begin an action; the first one also begins the profile."""
        if not self._running:
            arguments = {"on_trace_ready": self._write_trace, **self.profile_arguments}
            self.profile_object = profile(**arguments)
            self.profile_object.start()
            self._running = True
        key = (threading.get_ident(), action_name)
        if key not in self._open:
            action = self._open[key] = record_function(action_name)
            action.__enter__()

    def stop(self, action_name: str) -> None:
        """End an action; ignore one that was not begun, like Lightning's own profilers."""
        action = self._open.pop((threading.get_ident(), action_name), None)
        if action is not None:
            action.__exit__(None, None, None)
        if self._running and self.profile_object is not None and action_name.endswith(_STEPS):
            self.profile_object.step()

    def _write_trace(self, prof: Any) -> None:
        if self.dirpath is not None:
            name = self._prepare_filename(extension="")
            tensorboard_trace_handler(str(self.dirpath), name)(prof)

    def _end(self) -> None:
        if not self._running:
            return
        self._running = False
        for action in self._open.values():
            action.__exit__(None, None, None)
        self._open.clear()
        if self.profile_object is not None:
            self.profile_object.stop()

    def summary(self) -> str:
        """End the profile and return its averages as a table."""
        self._end()
        if self.profile_object is None:
            return ""
        averages = self.profile_object.key_averages()
        table = averages.table(sort_by=self.sort_by, row_limit=self.row_limit)
        return str(self._stats_to_str({"records": table}))

    def teardown(self, stage: str | None) -> None:
        """End the profile at the end of a Lightning stage."""
        self._end()
        super().teardown(stage)
