# SPDX-License-Identifier: Apache-2.0
"""MemoryResults: the memory results of a profile: by category, over time, and while it runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from fastprof.base import errors
from fastprof.profiler.recording import Recording
from fastprof.profiler.result import Result
from fastprof.record.python_memory import own_allocations

if TYPE_CHECKING:
    from fastprof.analysis.memory_categories import MemoryProfile
    from fastprof.analysis.memory_categories.origins import Leak
    from fastprof.analysis.memory_summary import MemoryReport

__all__ = ["MemoryResults"]


class MemoryResults:
    """Base of `profile` with the methods that return or write memory results."""

    _recording: Recording | None
    _stopping: bool
    _metadata: dict[str, Any]
    _results: list[Result]

    @property
    def kineto_results(self) -> Any:
        """The last recording as PyTorch's raw results; see ProfileResults."""
        raise NotImplementedError

    def _finished_results(self, while_running: bool = False) -> list[Result]:
        raise NotImplementedError

    def export_memory_timeline(
        self, path: str | os.PathLike[str], device: str | None = None
    ) -> None:
        """Write memory over time per device, as JSON, CSV or HTML by the suffix of `path` (.gz may follow).

        With record_shapes=True, the memory of PyTorch code is split by category, and .json and .raw.json have
        PyTorch's formats (exporters.category_timeline). Otherwise, and in .csv, the file contains totals
        (exporters.memory_timeline). device: only this device ("cpu", "cuda:0"); default: all.
        Requires profile_memory=True. Raises errors.ValueError if no memory was reported, errors.IoError if the
        file cannot be written.
        """
        table = self._finished_results()[-1].table
        plain = os.fspath(path).removesuffix(".gz")
        from fastprof.analysis.memory_categories.storages import can_categorise

        if can_categorise(table) and not plain.endswith(".csv"):
            from fastprof.exporters.category_timeline import export_category_timeline

            export_category_timeline(self.memory_profile(), path, device)
            return
        from fastprof.exporters.memory_timeline import export_memory_timeline

        export_memory_timeline(table, path, device)

    def memory_profile(self) -> MemoryProfile:
        """Return the memory of the last recording by category, over time: analysis.memory_categories.

        Requires PyTorch code, profile_memory=True and record_shapes=True; else errors.ValueError.

            memory = prof.memory_profile()
            for part in explain_peak(memory)[:10]:
                print(part.size_bytes, part.category, part.origin)
        """
        return self._finished_results()[-1].memory_profile

    def _memory_profile(self) -> Any:
        """Return torch's own MemoryProfile of the last recording, as torch.profiler.profile does; see memory_profile().

        Requires what memory_profile() requires. Raises errors.UnavailableError if torch.profiler is not loaded.
        """
        make = getattr(sys.modules.get("torch.profiler._memory_profiler"), "MemoryProfile", None)
        if make is None:
            raise errors.UnavailableError(
                "_memory_profile() returns an object of torch.profiler, which is not loaded. Import torch, or call"
                " memory_profile()."
            )
        self.memory_profile()  # raises if something is missing
        return make(self.kineto_results)

    def export_memory_snapshot(
        self, path: str | os.PathLike[str], device: str | None = None
    ) -> None:
        """Write memory_snapshot() to a file (.pickle) that PyTorch's memory viewer reads.

        Also while the profile runs, on any thread. Raises errors.IoError if the file cannot be written.
        """
        from fastprof.exporters.memory_snapshot import write_snapshot

        write_snapshot(self.memory_snapshot(device), path)

    def memory_snapshot(self, device: str | None = None) -> dict[str, Any]:
        """Return allocations and frees so far and what is in use now, in the form of torch.cuda.memory._snapshot().

        While the profile runs, this reads the records so far and recording continues; any thread, also in a
        signal handler. Afterwards it describes the end of the last recording. device: only this device ("cpu",
        "cuda:0", "python"). With record_shapes=True, blocks have categories. Requires profile_memory=True.
        Raises errors.ValueError if no memory was reported, and errors.StateError while a profile with
        overflow="spill" runs.

            signal.signal(signal.SIGUSR1, lambda *_: prof.export_memory_snapshot("now.pickle"))
        """
        with own_allocations():
            from fastprof.analysis.memory_categories.storages import can_categorise
            from fastprof.exporters.memory_snapshot import memory_snapshot

            result = self._result_so_far()
            categories = result.memory_profile if can_categorise(result.table) else None
            return memory_snapshot(result.table, categories, device)

    def _result_so_far(self) -> Result:
        # Another thread may be stopping the profile: nothing here may end the recording, as _finished_results()
        # does for a stop() that was interrupted.
        stopping, recording = self._stopping, self._recording
        if recording is not None and (stopping or recording.started):
            return recording.so_far(self._metadata)  # errors.StateError if it has just ended
        if stopping:
            if not self._results:
                raise errors.StateError(
                    "another thread is stopping the profile. Call this again after stop() has returned."
                )
            return self._results[-1]
        return self._finished_results()[-1]

    def memory_report(self, device: str | None = None) -> MemoryReport:
        """Return sums, the peak and its parts, long-lived temporaries and failed requests; see analysis.memory_report.

        Requires profile_memory=True or python_memory=True; errors.ValueError if no memory was reported.

            print(prof.memory_report().text())
        """
        from fastprof.analysis.memory_summary import memory_report

        return memory_report(self, device)

    def memory_leaks(self, steps: int = 1) -> list[Leak]:
        """Return the memory that a step allocated and that was not freed within the next `steps` steps, by stack.

        Largest first. Parameters, gradients and optimizer state are left out. Requires the options of
        memory_profile(), and a call of step() after each step; otherwise raises errors.ValueError.
        """
        from fastprof.analysis.memory_categories.origins import leaks

        return leaks(self.memory_profile(), steps)
