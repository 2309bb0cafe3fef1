# SPDX-License-Identifier: Apache-2.0
"""ProfileResults: the results of a profile as events, averages and tables, and its exports."""

from __future__ import annotations

import os
import sys
import types
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastprof._outputs import format_of
from fastprof.base import errors
from fastprof.profiler.at_exit import make_importable
from fastprof.profiler.memory_results import MemoryResults
from fastprof.profiler.metadata import trace_members
from fastprof.profiler.options import Options, outside_level
from fastprof.profiler.result import Result, event_list

if TYPE_CHECKING:
    from fastprof.model.table import EventTable
    from fastprof.profiler.kineto import KinetoResults
    from fastprof.views import EventList, FunctionEvent, FunctionEventAvg
    from fastprof.views.python_calls import PythonCallStats
    from fastprof.views.samples import Samples

__all__ = ["ProfileResults"]


class _NothingYetError(errors.StateError, AssertionError):
    """Results were requested before anything was recorded; an AssertionError too, as in PyTorch."""


class ProfileResults(MemoryResults):
    """Base of `profile` with the methods that return or write results; MemoryResults has those of memory."""

    acc_events: bool
    trace_id: str
    _all: Any
    _averages_calls: bool = False  # whether key_averages() contains calls by default
    _ended: bool
    _options: Options

    # Implemented by ProfileLife, which precedes this class among the bases of profile.
    def _end(self) -> None:
        raise NotImplementedError

    def _records(self) -> bool:
        raise NotImplementedError

    @property
    def missing(self) -> dict[str, str]:
        """What was requested but is not recorded here -> reason."""
        return dict(self._options.missing)

    @property
    def records_file(self) -> str:
        """Path of the backing file of the last finished recording; "" without one."""
        return self._results[-1].options.backing_file if self._results else ""

    def _finished_results(self, while_running: bool = False) -> list[Result]:
        """Return the results so far.

        while_running: during the first recording, return an empty result with a warning instead of
        raising. Raises errors.StateError during a recording and before the first.
        """
        make_importable()
        if self._stopping:
            self._end()  # completes a stop() that was interrupted
        if self._records():
            if not while_running:
                raise errors.StateError(
                    "the profiler didn't finish running: leave its block or call stop() first"
                )
            if self.acc_events and self._results:
                return self._results
            warnings.warn(
                "the profiler didn't finish running: there are no events before it is stopped",
                stacklevel=outside_level(),
            )
            return [Result(None, self._options, self._metadata)]
        if not self._results:
            if not self._ended:
                raise _NothingYetError(
                    "the profiler didn't finish running: start it, and stop it, before reading results"
                )
            return [Result(None, self._options, self._metadata)]
        return self._results

    def events(self) -> EventList[FunctionEvent]:
        """Return every event of the last recording (of all recordings with acc_events), read lazily.

        During the first recording: an empty list, with a warning. Raises errors.StateError (also an
        AssertionError, as in PyTorch) before anything was recorded, and with trace_only.
        """
        results = self._finished_results(while_running=True)
        if any(result.options.trace_only for result in results):
            raise errors.StateError(
                "events are not available with trace_only=True in the experimental config: use"
                " export_chrome_trace(), or remove trace_only"
            )
        if len(results) == 1:
            return results[0].events
        if self._all is None:
            from fastprof.model.join import join_tables

            self._all = event_list(join_tables([r.table for r in results]), self._options)
        all_events: EventList[FunctionEvent] = self._all
        return all_events

    function_events = property(events)

    @property
    def event_table(self) -> EventTable:
        """The columns of the last recording. Raises errors.StateError before it has ended."""
        return self._finished_results()[-1].table

    @property
    def kineto_results(self) -> KinetoResults | None:
        """The last recording as PyTorch's raw results, for packages that read those; None before it has ended.

        The objects that it returns are made when they are read; see fastprof.profiler.kineto.

            for event in prof.profiler.kineto_results.events():
                print(event.name(), event.duration_ns())
        """
        if self._records() or not self._results:
            return None
        from fastprof.profiler.kineto import KinetoResults

        result = self._finished_results()[-1]
        return KinetoResults(result, self.export_chrome_trace)

    def _parse_kineto_results(
        self, result: KinetoResults, timeout_s: float | None = None
    ) -> list[Any]:
        """Return the events of raw results as a list of FunctionEvents without parents and children, by start.

        As the method of torch.autograd.profiler does, for EventList(...)._build_tree(). The events are torch's once
        torch.autograd.profiler is loaded, so that torch's lists accept them; else fastprof's.
        timeout_s has no effect: results are complete. Raises errors.ValueError for results of other profilers.
        """
        from fastprof.profiler.kineto import KinetoResults

        if type(result) is not KinetoResults:
            raise errors.ValueError(
                f"cannot read {type(result).__name__}: pass the kineto_results of a fastprof profile, or let"
                " torch.autograd.profiler.profile read its own."
            )
        theirs = getattr(sys.modules.get("torch.autograd.profiler"), "profile", None)
        if theirs is not None:
            reader = types.SimpleNamespace(use_device=self._options.use_device)
            parsed: list[Any] = theirs._parse_kineto_results(reader, result)
            return parsed
        return event_list(result.event_table, self._options, dedupe=False).unlinked()

    @property
    def use_cuda(self) -> bool:
        """Whether device times are those of CUDA; an attribute of torch.autograd.profiler.profile."""
        return self._options.use_device == "cuda"

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool | None = None,
    ) -> EventList[FunctionEventAvg]:
        """Return averages grouped by name and the given criteria; see EventList.key_averages.

        include_python_functions: None: as asked for by %fastprof --calls in a notebook, else False.
        """
        return self.events().key_averages(
            group_by_input_shape,
            group_by_stack_n,
            group_by_overload_name,
            self._averages_calls if include_python_functions is None else include_python_functions,
        )

    def python_calls(self) -> PythonCallStats:
        """Return the calls of the last recording by function, as cProfile counts them.

        Raises errors.StateError unless the profile was made with python_calls=True or with_stack=True.
        """
        from fastprof.views.python_calls import PythonCallStats

        result = self._finished_results()[-1]
        if result.options.python_calls is None:
            reason = self.missing.get("python_calls", "make the profile with python_calls=True")
            raise errors.StateError(f"no Python calls were recorded: {reason}")
        return PythonCallStats(result.table)

    def samples(self) -> Samples:
        """Return what was sampled in the last recording: shares of functions, lines, threads, tasks, waits.

            print(prof.samples().table("line", mode="cpu"))

        Raises errors.StateError unless the profile was made with sample_hz.
        """
        from fastprof.model.task_steps import TaskSteps
        from fastprof.views.samples import Samples

        result = self._finished_results()[-1]
        if result.samples is None:
            reason = self.missing.get("sample_hz", "make the profile with sample_hz=1000")
            raise errors.StateError(f"no stacks were sampled: {reason}")
        return Samples(result.samples, lambda: TaskSteps(result.table))

    def total_average(self) -> FunctionEventAvg:
        """Return one average of all events."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of the self CPU times of all events, in us."""
        return self.events().self_cpu_time_total

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return the events as a text table; arguments as of EventList.table."""
        return self.events().table(*args, **kwargs)

    def tree_text(self, *args: Any, **kwargs: Any) -> str:
        """Return the tree of ranges as text, merged by name; arguments as of EventList.tree_text."""
        return self.events().tree_text(*args, **kwargs)

    def plot(self, kind: str = "timeline", *, ax: Any = None, limit: int | None = None) -> Any:
        """Draw the recording with matplotlib and return the Axes; see EventList.plot."""
        return self.events().plot(kind, ax=ax, limit=limit)

    def export(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the last recording to a file, in the format of the path's suffix or in `format`; see EventTable.export.

        prof.export("trace.pftrace")
        prof.export("train.html")
        """
        kind = format_of(path, format)
        own: dict[str, Callable[..., None]] = {
            "chrome": self.export_chrome_trace,
            "perfetto": self.export_perfetto_trace,
            "html": self.export_html,
        }
        if kind in own:
            own[kind](path)
        else:
            self.event_table.export(path, kind)

    def export_chrome_trace(
        self, path: str | os.PathLike[str], use_python_export: bool = False
    ) -> None:
        """Write the last recording as Chrome JSON, compressed with gzip if `path` ends in .gz.

        The file appears once it is complete; otherwise errors.IoError is raised. use_python_export has
        no effect (a parameter of PyTorch's).
        """
        result = self._finished_results()[-1]
        result.write_chrome_trace(path, self._trace_members(result))

    def export_perfetto_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last recording in Perfetto's format (usual suffix .pftrace), gzip for .gz."""
        result = self._finished_results()[-1]
        result.write_perfetto_trace(path, self._trace_members(result))

    def _trace_members(self, result: Result) -> dict[str, str]:
        metadata = {**result.metadata, **self._metadata}
        members = trace_members(self._options, metadata, self.trace_id, result.distributed)
        members.update(result.device_members)
        return members

    def export_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "",
        sources: bool = True,
        my_code: bool = False,
    ) -> None:
        """Write the last recording as one HTML page: timeline, flame graph, table, source and more.

        The page needs no network. title: heading of the page; default: the name of the process. sources:
        embed the text of the source files that the recording names. my_code: leave out calls of functions in
        C and of installed packages; their time is their callers'. Raises errors.ValueError unless `path`
        ends in .html (or .html.gz), errors.IoError if it cannot be written.

            prof.export_html("train.html")
        """
        from fastprof.report.export import export_html

        result = self._finished_results()[-1]
        events = result.events
        if my_code:
            from fastprof.model.imports import own_code
            from fastprof.profiler.result import event_list

            events = event_list(own_code(result.table), result.options)
        export_html(events, path, **self._page_options(title, sources))

    def _html_page(self, title: str = "", sources: bool = True) -> bytes:
        """Return the page that export_html() writes."""
        from fastprof.report.export import html_page

        return html_page(self._finished_results()[-1].events, **self._page_options(title, sources))

    def _page_options(self, title: str, sources: bool) -> dict[str, Any]:
        from fastprof.analysis.memory_categories.storages import can_categorise
        from fastprof.report.facts import machine_facts

        facts = {**machine_facts(), **self._metadata}
        result = self._finished_results()[-1]
        # Here the schema of an op says which inputs it writes; from a table alone it can only be guessed by name.
        memory = self.memory_report() if can_categorise(result.table) else None
        return {
            "title": title,
            "sources": sources,
            "facts": facts,
            "missing": self.missing,
            "memory": memory,
        }

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write collapsed stacks for flame graphs; errors.StateError without with_stack=True."""
        self._finished_results()
        events = self.events()
        if not self._options.with_stack:
            raise errors.StateError("there are no stacks: make the profile with with_stack=True")
        events.export_stacks(path, metric)
