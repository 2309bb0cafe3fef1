# SPDX-License-Identifier: Apache-2.0
"""profile: one class for torch.profiler.profile and torch.autograd.profiler.profile."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fastprof import _core
from fastprof._core import record_function
from fastprof.adapters.torch.tracers import install, register_profile
from fastprof.base import errors
from fastprof.compat.execution_trace import observer_of_environment
from fastprof.profiler.at_exit import make_importable
from fastprof.profiler.life import ProfileLife
from fastprof.profiler.memory_results import MemoryResults
from fastprof.profiler.metadata import check_json, check_name, trace_members
from fastprof.profiler.options import Options, make_options, outside_level
from fastprof.profiler.recording import Result, event_list

if TYPE_CHECKING:
    from fastprof.model.table import EventTable
    from fastprof.record.python_calls import CallFilter
    from fastprof.views import EventList, FunctionEvent, FunctionEventAvg
    from fastprof.views.python_calls import PythonCallStats

__all__ = ["_KinetoProfile", "profile"]


class _NothingYetError(errors.StateError, AssertionError):
    """Results were requested before anything was recorded; an AssertionError too, as in PyTorch."""


class profile(MemoryResults, ProfileLife):  # noqa: N801 - the field's name
    """Record a program between start() and stop(), or in a with block; then read the results.

        with fastprof.profile(record_shapes=True) as prof:
            work()
        print(prof.key_averages().table(sort_by="self_cpu_time_total"))
        prof.export_chrome_trace("trace.json")

    Parameters of torch.profiler.profile and torch.autograd.profiler.profile:

    activities: what to record (ProfilerActivity, PyTorch's own values, or {activity: [type
    names]}); default: the CPU. An activity that this build cannot record is left out with a warning
    and listed in `missing`; if none is left, errors.UnavailableError.
    activity_filters: {activity: type names}, another form of the type names in `activities`.
    schedule: function from step number to ProfilerAction, see schedule(); each step() is then a
    range "ProfilerStep#N".
    on_trace_ready: called with the profile whenever a recording is complete.
    acc_events: keep the events of all recordings, not only of the last.
    record_shapes, with_flops: record input shapes, estimate FLOPs (with_flops implies record_shapes).
    profile_memory: record allocations. memory_attribution: attribute them to the innermost open
    range of the thread ("innermost") or to every range open at that time on any thread
    ("interval", PyTorch's rule).
    with_stack: record the Python stack at the begin of each range made from Python and of torch's ops,
    and every call of a function (see python_calls; python_calls=False leaves the calls out).
    with_modules: record calls of torch.nn.Module objects as events "nn.Module: Linear_0" of category
    python_function, and the modules that each op runs in: of TorchScript as PyTorch does, else the
    path of eager ones ("Net_0.Linear_0", column module_hierarchy). No other call is traced.
    enabled: False makes a no-op profile whose results are empty.
    use_cpu, use_cuda, use_device, use_kineto: older spellings of `activities`.
    execution_trace_observer: an ExecutionTraceObserver (ours or torch's); its start() and stop() are
    called with each recording's, its cleanup() at the end of the with block. Without one,
    ENABLE_PYTORCH_EXECUTION_TRACE=1 creates one, as in PyTorch, if torch is imported.
    custom_trace_id_callback: returns the id of each recording; default: 32 hexadecimal digits.
    experimental_config: see _ExperimentalConfig.
    post_processing_timeout_s: no effect, because results are read in full when requested.
    Options without an effect are listed in `missing` and reported by a warning. All of these are
    also attributes; a new value applies from the next recording.

    Parameters of fastprof's own:

    all_threads: True (default): every thread of the process; False: the starting thread, the threads
    and tasks that it starts, what it hands to thread pools and event loops, and functions wrapped
    by propagate(); None: as experimental_config says.
    max_bytes: bound of the records held, in bytes; 0: min(256 MB, 1/16 of memory).
    overflow: what happens at that bound: "drop_newest" or "overwrite_oldest" (drops are counted), or
    "spill": records move to an unnamed file in spill_folder (default: the folder for temporary
    files), and threads wait for room; see docs/results.md.
    backing_file: path of a file to make, in which the records lie while the profile runs, so that
    `recover(path)` or `fastprof recover` can read them if the process is killed; see
    docs/backing_file.md. Removed at stop(). Not with overflow="spill".
    max_name_bytes: bound of the range names and string arguments that the process holds at once, in
    bytes; 0: 64 MB, else at least 65536. The largest value of the running profiles applies. At the
    bound, ranges get a shared name. A name or string longer than 1/1024 of the bound (at least 256
    bytes, at most 64 KB) is cut and ends in "... [cut: N bytes]". Both are counted in
    `event_table.dropped["names"]`. Names are freed between profiles.
    counters: up to 4 perf counters read around each range, such as ["instructions", "page-faults"];
    they appear in traces and in event_table.coded["counters"]. errors.UnavailableError with the
    reason if they cannot be read (experimental_config.performance_events only warns).

    python_calls: True, or a CallFilter: record every call of a function, written in Python or C, on
    all threads, as an event of category python_function; see python_calls(). These events are in
    events(), event_table and traces, but in key_averages() only on request. None: as with_stack.
    native: with with_stack, put the frames of C++ (and other compiled code) into the stacks, between the
    Python frames that they lie between, as "function (library)". Ranges of annotated C++ code then
    have stacks, too. Frames of the interpreter and of fastprof are left out.
    follow_children: also record the processes that this one starts while it records, and theirs, each
    from its start: by os.fork, multiprocessing, ProcessPoolExecutor, DataLoader workers, and
    subprocesses that run Python with fastprof installed. Their events are in all results, as those of
    other processes; see docs/children.md.
    python_memory: also record what Python's own allocators allocate and free (the domains raw, mem and
    object of CPython: objects, their contents, buffers of bytearray and array), on all threads, as devices
    "python:raw", "python:mem" and "python:object"; implies profile_memory. A record a block: expect a slower
    program, and pass max_bytes. Data of NumPy's arrays and memory of C libraries come from malloc and are not seen.
    tasks: True (default): what runs in a task (asyncio, trio) nests by task: each is a track of its
    own. False: everything nests by thread; see docs/tasks.md.

    Threads: profiles may nest and overlap on any threads; each records all its events. One object is
    used by one thread at a time; it may be started again after stop(). In a forked child, a profile
    opened by the parent stops and contains no events; with follow_children, the parent's has them. If
    Ctrl-C interrupts stop() or the end of the block, recording has ended and the results are
    available; on_trace_ready is then called by a second stop(), or when the interpreter exits.
    """

    def __init__(
        self,
        enabled: Any = True,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cpu: bool = True,
        use_cuda: bool | None = None,
        use_device: str | None = None,
        use_kineto: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Mapping[Any, Any] | None = None,
        all_threads: bool | None = None,
        max_bytes: int = 0,
        max_name_bytes: int = 0,
        overflow: str = "drop_newest",
        spill_folder: str | os.PathLike[str] | None = None,
        backing_file: str | os.PathLike[str] | None = None,
        memory_attribution: str = "innermost",
        counters: Iterable[str] = (),
        python_calls: bool | CallFilter | None = None,
        native: bool = False,
        follow_children: bool = False,
        tasks: bool = True,
        python_memory: bool = False,
    ) -> None:
        if not isinstance(enabled, (bool, int)) and isinstance(enabled, Iterable):
            raise TypeError(
                f"profile() takes activities by name, not {enabled!r} as its first argument, which is"
                " `enabled`: write profile(activities=[...])"
            )
        self.enabled = bool(enabled)
        if not self.enabled:
            activities, activity_filters, use_cpu, use_cuda, use_device = (
                None,
                None,
                True,
                None,
                None,
            )
            with_modules, execution_trace_observer, experimental_config = False, None, None
            counters = ()
        elif execution_trace_observer is None:
            execution_trace_observer = observer_of_environment()
        super().__init__(schedule)
        self._own: dict[str, Any] = {
            "memory_attribution": memory_attribution,
            "all_threads": all_threads,
            "max_bytes": max_bytes,
            "max_name_bytes": max_name_bytes,
            "overflow": overflow,
            "spill_folder": spill_folder,
            "backing_file": backing_file,
            "counters": counters if isinstance(counters, str) else tuple(counters),
            "python_calls": python_calls if self.enabled else False,
            "native": native and self.enabled,
            "follow_children": follow_children and self.enabled,
            "tasks": bool(tasks) and self.enabled,
            "python_memory": bool(python_memory) and self.enabled,
        }
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.on_trace_ready = on_trace_ready
        self.preset_metadata: dict[str, str] = {}
        self.trace_id = ""
        self._options = make_options(
            activities=activities,
            activity_filters=activity_filters,
            use_cpu=use_cpu,
            use_cuda=use_cuda,
            use_device=use_device,
            use_kineto=use_kineto,
            **self._asked(),
        )
        self.activities = set(self._options.asked)
        self.activity_filters = {a: set(names) for a, names in self._options.filters.items()}
        self.use_device = use_device or self._options.use_device or _first_device(self.activities)
        self._made_from = self._attributes()

    def _asked(self) -> dict[str, Any]:
        """Return the current values of make_options' arguments, except for the activities."""
        return {
            "record_shapes": self.record_shapes,
            "profile_memory": self.profile_memory,
            "with_stack": self.with_stack,
            "with_flops": self.with_flops,
            "with_modules": self.with_modules,
            "experimental_config": self.experimental_config,
            "execution_trace_observer": self.execution_trace_observer,
            "acc_events": self.acc_events,
            "post_processing_timeout_s": self.post_processing_timeout_s,
            **self._own,
        }

    def _attributes(self) -> dict[str, Any]:
        """Return a copy of every attribute that a program may have changed."""
        return {
            **self._asked(),
            "activities": set(self.activities),
            "activity_filters": {a: set(names) for a, names in self.activity_filters.items()},
            "use_device": self.use_device,
        }

    def _current_options(self) -> Options:
        """Return the options of the next recording, made anew if an attribute has changed."""
        attributes = self._attributes()
        if attributes != self._made_from:
            self._options = make_options(
                **attributes, use_cpu=True, use_cuda=None, use_kineto=False
            )
            self._made_from = attributes
        return self._options

    # ---- the life of a profile -----------------------------------------------------------------

    def __enter__(self) -> profile:
        try:
            self.start()
            return self
        except (
            KeyboardInterrupt
        ):  # after start(): the block is not entered, so __exit__ would never run
            self._abandon()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except KeyboardInterrupt:
            if self._is_open() and self.enabled:
                self._end()  # interrupted before stop() had begun
            raise
        except Exception as failure:
            if error is None:
                raise
            # The block's own exception must not be replaced.
            warnings.warn(f"the profile could not be finished: {failure!r}", stacklevel=2)
        finally:
            if hasattr(self.execution_trace_observer, "cleanup"):
                self.execution_trace_observer.cleanup()  # completes its file, as in PyTorch

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Pause (False) or resume (True) recording; events that begin in a pause are left out.

        activities: as in the constructor; only the CPU has an effect, since nothing else is recorded.
        Raises errors.StateError unless the profile is running.
        """
        from fastprof.record.activities import ProfilerActivity, as_activity

        if self._recording is None or not self._running:
            raise errors.StateError("collection can be toggled while the profile records: start it")
        if ProfilerActivity.CPU in {as_activity(activity) for activity in activities}:
            self._recording.pause(not enable)

    # ---- metadata ------------------------------------------------------------------------------

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the exported traces under `key`.

        Raises errors.ValueError if the trace format itself has a member of that name.
        """
        self._metadata[check_name(key)] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON text to the exported traces; errors.ValueError if it is invalid JSON."""
        self._metadata[check_name(key)] = check_json(key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON text to the traces of later recordings; kept in `preset_metadata`.

        Raises errors.ValueError if it is invalid JSON.
        """
        check_json(check_name(key), value)
        self.preset_metadata[key] = value

    @property
    def profiler(self) -> profile | None:
        """This profile, where PyTorch has an inner profiler object; None before the first start."""
        return self if self._was_prepared else None

    @property
    def missing(self) -> dict[str, str]:
        """What was requested and is not recorded here -> reason."""
        return dict(self._options.missing)

    # ---- results -------------------------------------------------------------------------------

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
                    "the profiler didn't finish running: leave its block or stop() it"
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
                    "the profiler didn't finish running: start it, then stop it, before asking"
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
                " export_chrome_trace(), or leave it out"
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

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList[FunctionEventAvg]:
        """Return averages grouped by name and the given criteria; see EventList.key_averages."""
        return self.events().key_averages(
            group_by_input_shape,
            group_by_stack_n,
            group_by_overload_name,
            include_python_functions,
        )

    def python_calls(self) -> PythonCallStats:
        """Return the calls of the last recording by function, as cProfile counts them.

        Raises errors.StateError unless the profile was made with python_calls=True or with_stack=True.
        """
        from fastprof.views.python_calls import PythonCallStats

        result = self._finished_results()[-1]
        if result.options.python_calls is None:
            reason = self.missing.get("python_calls", "make the profile with python_calls=True")
            raise errors.StateError(f"no calls were recorded: {reason}")
        return PythonCallStats(result.table, _core)

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

    def export_chrome_trace(
        self, path: str | os.PathLike[str], use_python_export: bool = False
    ) -> None:
        """Write the last recording as Chrome JSON, compressed with gzip if `path` ends in .gz.

        The file appears once it is complete; otherwise errors.IoError is raised. use_python_export has
        no effect (a parameter of PyTorch's).
        """
        result = self._finished_results()[-1]
        metadata = {**result.metadata, **self._metadata}
        members = trace_members(self._options, metadata, self.trace_id, result.distributed)
        result.write_chrome_trace(path, members)

    def export_perfetto_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last recording in Perfetto's format (usual suffix .pftrace), gzip for .gz."""
        self._finished_results()[-1].write_perfetto_trace(path)

    def export_html(
        self, path: str | os.PathLike[str], *, title: str = "", sources: bool = True
    ) -> None:
        """Write the last recording as one HTML page: timeline, flame graph, table, source and more.

        The page needs no network. title: above it; default: the name of the process. sources: embed the
        text of the source files that the recording names. Raises errors.ValueError unless `path` ends in
        .html (or .html.gz), errors.IoError if it cannot be written.

            prof.export_html("train.html")
        """
        from fastprof.report.export import export_html

        export_html(self._finished_results()[-1].events, path, **self._page_options(title, sources))

    def _html_page(self, title: str = "", sources: bool = True) -> bytes:
        """Return the page that export_html() writes."""
        from fastprof.report.export import html_page

        return html_page(self._finished_results()[-1].events, **self._page_options(title, sources))

    def _page_options(self, title: str, sources: bool) -> dict[str, Any]:
        from fastprof.analysis.memory_categories.storages import can_categorise
        from fastprof.report.facts import machine_facts

        facts = {**machine_facts(), **self._metadata}
        result = self._finished_results()[-1]
        # Which inputs an op writes is known here by its schema; a table alone has only names.
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

    def __getstate__(self) -> dict[str, Any]:
        # Used by copy.copy, copy.deepcopy and pickle.
        if self._running or self._stopping or self._records():
            raise errors.StateError("a running profile cannot be copied: stop() it first")
        of_a_run = ("_recording", "step_rec_fn", "_due", "_due_for")
        return {**self.__dict__, **dict.fromkeys(of_a_run)}

    def __repr__(self) -> str:
        if not self._ended and not self._results:
            return f"<unfinished {type(self).__module__.split('.')[0]}.{type(self).__name__}>"
        return repr(self.events())

    def __str__(self) -> str:
        if not self._ended and not self._results:
            return repr(self)
        return str(self.events())

    def _repr_html_(self) -> str:
        """Return what was recorded and the averages as HTML, for notebooks; reads nothing that still runs."""
        from fastprof.profiler.summary_html import summary_html

        return summary_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the averages where IPython shows text; repr() would make an object of every event."""
        from fastprof.profiler.summary_html import summary_text

        printer.text(summary_text(self))


def _first_device(activities: Iterable[Any]) -> str | None:
    """Return the device that PyTorch puts into use_device for these activities; None for the CPU."""
    names = {activity.name for activity in activities}
    return next(
        (
            name.lower()
            for name in ("CUDA", "XPU", "MTIA", "HPU", "PrivateUse1", "MPS")
            if name in names
        ),
        None,
    )


install(record_function)
register_profile(profile)

# The base class of PyTorch's profile; integrations name it in annotations and issubclass checks.
_KinetoProfile = profile
