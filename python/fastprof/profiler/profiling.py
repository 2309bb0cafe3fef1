# SPDX-License-Identifier: Apache-2.0
"""profile: the profiler object of torch.profiler and of torch.autograd.profiler in one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fastprof import errors
from fastprof._core import record_function
from fastprof.profiler.lifecycle import closed, opened
from fastprof.profiler.metadata import check_json, check_name, trace_members
from fastprof.profiler.options import make_options
from fastprof.profiler.recording import Recording, Result, event_list
from fastprof.step_schedule import ProfilerAction, as_action, transition
from fastprof.step_tracker import PROFILER_STEP, KinetoStepTracker

if TYPE_CHECKING:
    from fastprof.table import EventTable
    from fastprof.views import EventList, FunctionEventAvg

__all__ = ["profile"]


class profile:  # noqa: N801 - the field's name
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
    use_kineto: the older spellings. execution_trace_observer: its start() and stop() are called.
    post_processing_timeout_s is not needed and ignored.

    fastprof's own: all_threads (True: every thread of the process; False: the starting thread and
    what is propagated from it), max_bytes (of records held, 0: min(256 MB, 1/16 of memory)),
    overflow ("drop_newest" or "overwrite_oldest" when that is reached; drops are counted),
    counters (up to 4 perf counters read around each range, such as ["instructions", "page-faults"];
    in traces, and in event_table.coded["counters"]; UnavailableError with the reason when they
    cannot be read. experimental_config.performance_events asks for the same, but only warns).

    Profiles may nest and overlap, on any threads; each sees all its events. One object is used by
    one thread at a time; it may be started again after stop(). In a forked child a profile that
    was open in the parent ends empty.
    """

    def __init__(
        self,
        enabled: bool = True,
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
        all_threads: bool = True,
        max_bytes: int = 0,
        overflow: str = "drop_newest",
        memory_attribution: str = "innermost",
        counters: Iterable[str] = (),
    ) -> None:
        self.enabled = bool(enabled)
        if not self.enabled:
            activities, activity_filters, use_cpu, use_cuda, use_device = (
                None,
                None,
                True,
                None,
                None,
            )
            with_modules, execution_trace_observer = False, None
        self._options = make_options(
            activities=activities,
            activity_filters=activity_filters,
            use_cpu=use_cpu,
            use_cuda=use_cuda,
            use_device=use_device,
            use_kineto=use_kineto,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            memory_attribution=memory_attribution,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            all_threads=all_threads,
            max_bytes=max_bytes,
            overflow=overflow,
            counters=counters if self.enabled else (),
        )
        self.on_trace_ready = on_trace_ready
        self.execution_trace_observer = execution_trace_observer
        self.record_steps = schedule is not None
        self.schedule: Callable[[int], Any] = schedule if schedule is not None else _always
        self.step_num = 0
        self.current_action = as_action(self.schedule(0))
        self.step_rec_fn: Any = None
        self.post_processing_timeout_s = post_processing_timeout_s
        self._trace_id_callback = custom_trace_id_callback
        self._trace_id: str | None = None
        self._metadata: dict[str, Any] = {}
        self._recording: Recording | None = None
        self._results: list[Result] = []
        self._running = False
        self._ended = False
        self._all: EventList | None = None

    # ---- the life of a profile -----------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except Exception as failure:
            if error is None:
                raise
            # The block's own exception must not be replaced.
            warnings.warn(f"the profile could not be finished: {failure!r}", stacklevel=2)

    def start(self) -> None:
        """Begin with the schedule's action for the current step. errors.StateError when it runs."""
        if self._running:
            raise errors.StateError(
                "this profile runs already and is not reentrant: stop it, or make another one"
            )
        self._running = True
        self._ended = False
        if not self.enabled:
            return
        opened(self)
        try:
            self._transit_action(ProfilerAction.NONE, self.current_action)
        except BaseException:
            self._running = False
            closed(self)
            raise
        self._open_step()

    def stop(self) -> None:
        """End; calls on_trace_ready when something was recorded. Nothing when it does not run."""
        if not self._running:
            return
        self._running = False
        self._ended = True
        if not self.enabled:
            return
        closed(self)
        KinetoStepTracker.erase_step_count(PROFILER_STEP)
        if self._recording is not None and not self._recording.in_its_process:
            self._recording = None  # the parent's: its records are not here
            self._close_step()
            return
        self._close_step()
        if self.current_action is ProfilerAction.WARMUP:
            self._recording = None  # there is nothing to warm up for: the last cycle's result stays
        else:
            self._transit_action(self.current_action, None)

    def step(self) -> None:
        """Tell that the next step of the program begins."""
        if not self.enabled:
            return
        self._close_step()
        following = as_action(self.schedule(self.step_num + 1))  # before anything is changed
        previous, self.current_action = self.current_action, following
        self.step_num += 1
        KinetoStepTracker.increment_step(PROFILER_STEP)
        if not self._running:
            return
        self._transit_action(previous, following)
        self._open_step()

    def _open_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _close_step(self) -> None:
        if self.step_rec_fn is not None:
            step, self.step_rec_fn = self.step_rec_fn, None
            step.__exit__(None, None, None)

    def _transit_action(self, previous: ProfilerAction, following: ProfilerAction | None) -> None:
        for name in transition(previous, following):
            if name == "warn":
                assert following is not None
                warnings.warn(
                    f"Incorrect schedule: {previous.name} followed by {following.name}",
                    stacklevel=3,
                )
            else:
                getattr(self, name)()

    def prepare_trace(self) -> None:
        """Make a session ready and give the trace its id."""
        self._trace_id = self.create_trace_id()
        self._recording = Recording(self._options)

    def start_trace(self) -> None:
        """Begin to record."""
        if self._recording is None:
            self.prepare_trace()
        assert self._recording is not None
        if not self._options.acc_events:
            self._results.clear()
            self._all = None
        observer = self.execution_trace_observer
        if hasattr(observer, "start"):
            observer.start()
        self._recording.start()

    def stop_trace(self) -> None:
        """End the recording and keep its result."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        result = recording.stop(self._metadata)
        observer = self.execution_trace_observer
        if hasattr(observer, "stop"):
            observer.stop()
        self._results.append(result)
        self._all = None

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Leave out (False) or record again (True) what begins from here on.

        `activities` as in the constructor; only CPU can be recorded here, so others do nothing.
        """
        from fastprof.activities import ProfilerActivity, as_activity

        if self._recording is None or not self._running:
            raise errors.StateError("collection can be toggled while the profile records: start it")
        if ProfilerActivity.CPU in {as_activity(activity) for activity in activities}:
            self._recording.pause(not enable)

    # ---- identity and metadata -----------------------------------------------------------------

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """From the next recording on, its id is what `callback()` returns."""
        self._trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """Id of the current or last recording; None before the first."""
        return self._trace_id

    def create_trace_id(self) -> str:
        """A new id for a recording: the callback's, else 32 hexadecimal digits."""
        if self._trace_id_callback is not None:
            return str(self._trace_id_callback())
        return os.urandom(16).hex().upper()

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the exported traces, under `key`.

        errors.ValueError when the trace format has a member of that name itself.
        """
        self._metadata[check_name(key)] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a JSON text into the exported traces; errors.ValueError when it is none."""
        self._metadata[check_name(key)] = check_json(key, value)

    preset_metadata_json = add_metadata_json

    @property
    def profiler(self) -> profile:
        """Itself: PyTorch has the object of torch.autograd.profiler here."""
        return self

    @property
    def missing(self) -> dict[str, str]:
        """What was asked for and is not recorded here, with the reason."""
        return dict(self._options.missing)

    # ---- results -------------------------------------------------------------------------------

    def _finished_results(self) -> list[Result]:
        if self._recording is not None and (self._running or not self._ended) and not self._results:
            raise errors.StateError(
                "the profiler didn't finish running: leave its block or stop() it"
            )
        if not self._results:
            if not self._ended:
                raise errors.StateError(
                    "the profiler didn't finish running: start it, then stop it, before asking"
                )
            return [Result(None, self._options, self._metadata)]
        return self._results

    def events(self) -> EventList:
        """Every event of the last recording (of all of them with acc_events), lazily."""
        results = self._finished_results()
        if len(results) == 1:
            return results[0].events
        if self._all is None:
            from fastprof.table_join import join_tables

            self._all = event_list(join_tables([r.table for r in results]), self._options)
        return self._all

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
    ) -> EventList:
        """Averages by name and what else is asked for; see EventList.key_averages."""
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
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
        members = trace_members(self._options, metadata, self._trace_id or "")
        result.write_chrome_trace(path, members)

    def export_perfetto_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last recording in Perfetto's format (customary suffix .pftrace)."""
        self._finished_results()[-1].write_perfetto_trace(path)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write collapsed stacks for flame graphs; needs with_stack=True, else errors.StateError."""
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

    def __repr__(self) -> str:
        if not self._ended and not self._results:
            return f"<unfinished {type(self).__module__.split('.')[0]}.{type(self).__name__}>"
        return repr(self.events())

    def __str__(self) -> str:
        if not self._ended and not self._results:
            return repr(self)
        return str(self.events())


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD
