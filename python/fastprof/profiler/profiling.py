# SPDX-License-Identifier: Apache-2.0
"""profile: the profiler object of torch.profiler and of torch.autograd.profiler in one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fastprof._core import record_function
from fastprof.adapters.torch.tracers import install, register_profile
from fastprof.base import errors
from fastprof.compat.emitters import observer_of_environment
from fastprof.profiler.at_exit import make_importable
from fastprof.profiler.life import ProfileLife
from fastprof.profiler.metadata import check_json, check_name, trace_members
from fastprof.profiler.options import Options, make_options, outside_level
from fastprof.profiler.recording import Result, event_list

if TYPE_CHECKING:
    from fastprof.model.table import EventTable
    from fastprof.views import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["_KinetoProfile", "profile"]


class _NothingYetError(errors.StateError, AssertionError):
    """Results were asked for before anything was recorded; an AssertionError too, as in PyTorch."""


class profile(ProfileLife):  # noqa: N801 - the field's name
    """Record what happens between start() and stop(), or in a with block, and answer questions.

    Arguments are those of torch.profiler.profile and torch.autograd.profiler.profile:

    activities: what to look at (ProfilerActivity, PyTorch's own values, or {activity: [type
    names]}); default: the CPU. What this build cannot record is left out with a warning and
    told in `missing`; when nothing is left, errors.UnavailableError.
    schedule: function from step number to ProfilerAction, see schedule(); each step() is then a
    range "ProfilerStep#N". on_trace_ready: called with the profile whenever a recording is
    complete. acc_events: keep the events of all recordings, not only of the last.
    record_shapes, with_flops: shapes and FLOPs (with_flops turns record_shapes on).
    profile_memory: allocations; memory_attribution: to the innermost open range of the thread
    ("innermost"), or to every range at that time on any thread ("interval", PyTorch's rule).
    with_stack: the Python stack at the begin of each range made from Python, and of torch's ops.
    with_modules: the TorchScript modules that ops run in (eager modules are not told, as in PyTorch).
    enabled: False for a no-op whose accessors answer with nothing. use_cpu, use_cuda, use_device,
    use_kineto: the older spellings. execution_trace_observer: a torch.profiler.ExecutionTraceObserver;
    its start() and stop() are called with the recording's, its cleanup() at the end of the with
    block. Without one, ENABLE_PYTORCH_EXECUTION_TRACE=1 makes one, as in PyTorch, if torch is imported.
    experimental_config: see _ExperimentalConfig. post_processing_timeout_s has no effect: results
    are read when they are asked for, in full. What has no effect is named in `missing`, with a
    warning. These are attributes, too: what a program assigns to one counts from the next recording.

    fastprof's own: all_threads (True, the default: every thread of the process; False: the starting
    thread and what is propagated from it; None: as experimental_config says),
    max_bytes (of records held, 0: min(256 MB, 1/16 of memory)),
    overflow ("drop_newest" or "overwrite_oldest" when that is reached; drops are counted; "spill":
    records move to a file without a name in spill_folder, by default the folder for temporary
    files, and threads wait for room; see docs/results.md),
    max_name_bytes (bound of the range names and string arguments that the process holds at once,
    in bytes; 0: 64 MB, else at least 65536; the largest of the running profiles holds. At the
    bound, ranges get a shared name. A name or string longer than 1/1024 of the bound, at least 256
    bytes and at most 64 KB, is cut and ends in "... [cut: N bytes]". Both are counted in
    `event_table.dropped["names"]`. Names are freed between profiles),
    counters (up to 4 perf counters read around each range, such as ["instructions", "page-faults"];
    in traces, and in event_table.coded["counters"]; UnavailableError with the reason when they
    cannot be read. experimental_config.performance_events asks for the same, but only warns).

    Profiles may nest and overlap, on any threads; each sees all its events. One object is used by
    one thread at a time; it may be started again after stop(). In a forked child a profile that
    was open in the parent ends empty. If Ctrl-C interrupts stop(), or the end of the block,
    recording has ended and the results are there; on_trace_ready is called by a second stop(), or
    when the interpreter exits.
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
        memory_attribution: str = "innermost",
        counters: Iterable[str] = (),
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
            "counters": counters if isinstance(counters, str) else tuple(counters),
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
        self.use_device = use_device if use_device is not None else _first_device(self.activities)
        self._made_from = self._attributes()

    def _asked(self) -> dict[str, Any]:
        """Arguments of make_options as they stand now, but for the activities."""
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
        """What a program may have changed: a copy of it."""
        return {
            **self._asked(),
            "activities": set(self.activities),
            "activity_filters": {a: set(names) for a, names in self.activity_filters.items()},
            "use_device": self.use_device,
        }

    def _current_options(self) -> Options:
        """The options of the next recording: attributes that the program has set count from here."""
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
        ):  # after start(): the block is not entered, and nobody would stop it
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
        """Leave out (False) or record again (True) what begins from here on.

        `activities` as in the constructor; only CPU can be recorded here, so others do nothing.
        """
        from fastprof.record.activities import ProfilerActivity, as_activity

        if self._recording is None or not self._running:
            raise errors.StateError("collection can be toggled while the profile records: start it")
        if ProfilerActivity.CPU in {as_activity(activity) for activity in activities}:
            self._recording.pause(not enable)

    # ---- metadata ------------------------------------------------------------------------------

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the exported traces, under `key`.

        errors.ValueError when the trace format has a member of that name itself.
        """
        self._metadata[check_name(key)] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a JSON text into the exported traces; errors.ValueError when it is none."""
        self._metadata[check_name(key)] = check_json(key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Put a JSON text into the traces of recordings that begin from here on.

        errors.ValueError when it is none. `preset_metadata` has what was given.
        """
        check_json(check_name(key), value)
        self.preset_metadata[key] = value

    @property
    def profiler(self) -> profile | None:
        """Itself, where PyTorch has an object of torch.autograd.profiler; None before the first start."""
        return self if self._was_prepared else None

    @property
    def missing(self) -> dict[str, str]:
        """What was asked for and is not recorded here, with the reason."""
        return dict(self._options.missing)

    # ---- results -------------------------------------------------------------------------------

    def _finished_results(self, while_running: bool = False) -> list[Result]:
        """The results so far. while_running: empty ones, with a warning, while the first is recorded.

        errors.StateError when there are none, and for a recording that goes on.
        """
        make_importable()
        if self._stopping:
            self._end()  # a stop() that was interrupted
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
        """Every event of the last recording (of all of them with acc_events), lazily.

        While it records there are none yet: an empty list, with a warning. errors.StateError (and
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
        """The columns of the last recording."""
        return self._finished_results()[-1].table

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList[FunctionEventAvg]:
        """Averages by name and what else is asked for; see EventList.key_averages."""
        return self.events().key_averages(
            group_by_input_shape,
            group_by_stack_n,
            group_by_overload_name,
            include_python_functions,
        )

    def total_average(self) -> FunctionEventAvg:
        """One average of all events."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of self CPU times, us."""
        return self.events().self_cpu_time_total

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The events as a text table; arguments of EventList.table."""
        return self.events().table(*args, **kwargs)

    def export_chrome_trace(
        self, path: str | os.PathLike[str], use_python_export: bool = False
    ) -> None:
        """Write the last recording as Chrome JSON; gzip when `path` ends in .gz.

        The file appears only when it is whole; errors.IoError else. use_python_export is accepted
        for PyTorch's sake.
        """
        result = self._finished_results()[-1]
        metadata = {**result.metadata, **self._metadata}
        members = trace_members(self._options, metadata, self.trace_id, result.distributed)
        result.write_chrome_trace(path, members)

    def export_perfetto_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last recording in Perfetto's format (customary suffix .pftrace)."""
        self._finished_results()[-1].write_perfetto_trace(path)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write collapsed stacks for flame graphs; needs with_stack=True, else errors.StateError."""
        self._finished_results()
        events = self.events()
        if not self._options.with_stack:
            raise errors.StateError("there are no stacks: make the profile with with_stack=True")
        events.export_stacks(path, metric)

    def export_memory_timeline(
        self, path: str | os.PathLike[str], device: str | None = None
    ) -> None:
        """Write memory over time per device, as JSON, CSV or HTML by the suffix of `path`.

        Totals; see exporters.memory_timeline. device: only this one ("cpu", "cuda:0"). Needs
        profile_memory=True; errors.ValueError when no memory was reported.
        """
        from fastprof.exporters.memory_timeline import export_memory_timeline

        export_memory_timeline(self.event_table, path, device)

    def __getstate__(self) -> dict[str, Any]:
        # For copy.copy, copy.deepcopy and pickle.
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


def _first_device(activities: Iterable[Any]) -> str | None:
    """The device that PyTorch names in use_device for these activities."""
    names = {activity.name for activity in activities}
    return next(
        (name.lower() for name in ("CUDA", "XPU", "MTIA", "HPU", "PrivateUse1") if name in names),
        None,
    )


install(record_function)
register_profile(profile)

# PyTorch's base of profile, which its integrations name in annotations and subclass checks.
_KinetoProfile = profile
