# SPDX-License-Identifier: Apache-2.0
"""profile: one class for torch.profiler.profile and torch.autograd.profiler.profile.

This file has its arguments and attributes, lifecycle.py its life cycle, results.py and memory_results.py its results.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fastprof._core import record_function
from fastprof.adapters.torch.tracers import install, register_profile
from fastprof.base import errors, switch_interval
from fastprof.compat.execution_trace import observer_of_environment
from fastprof.profiler.lifecycle import ProfileLife
from fastprof.profiler.metadata import check_json, check_name
from fastprof.profiler.options import Options, make_options
from fastprof.profiler.results import ProfileResults

if TYPE_CHECKING:
    from fastprof.record.python_calls import CallFilter

__all__ = ["_KinetoProfile", "profile"]


class profile(ProfileLife, ProfileResults):  # noqa: N801 - the field's name
    """Record a program between start() and stop(), or in a with block; then read the results.

        with fastprof.profile(record_shapes=True) as prof:
            work()
        print(prof.key_averages().table(sort_by="self_cpu_time_total"))
        prof.export_chrome_trace("trace.json")

    The ten parameters of torch.profiler.profile:

    activities: what to record (ProfilerActivity, PyTorch's own values, or {activity: [type
    names]}); default: supported_activities(). An activity that cannot be recorded here is left out
    with a warning and listed in `missing`; if none is left, errors.UnavailableError is raised.
    schedule: function from step number to ProfilerAction, see schedule(); each step() is then a
    range "ProfilerStep#N".
    on_trace_ready: called with the profile whenever a recording is complete.
    record_shapes: record shapes, types and values of op inputs.
    profile_memory: record allocations.
    with_stack: record the Python stack at the begin of each range made from Python and of torch's ops,
    and every function call (see python_calls; python_calls=False leaves the calls out).
    with_flops: estimate FLOPs; implies record_shapes.
    with_modules: record calls of torch.nn.Module objects as events "nn.Module: Linear_0" of category
    python_function, and the modules that each op runs in (column module_hierarchy): TorchScript modules
    as PyTorch does, else the path of eager modules ("Net_0.Linear_0"). No other call is traced.
    experimental_config: see _ExperimentalConfig.
    execution_trace_observer: an ExecutionTraceObserver (ours or torch's); its start() and stop() are
    called with each recording's, its cleanup() at the end of the with block. Without one,
    ENABLE_PYTORCH_EXECUTION_TRACE=1 creates one, as in PyTorch, if torch is imported.

    Python calls and stacks:

    python_calls: True, or a CallFilter: record every call of a function, written in Python or C, on
    all threads, as an event of category python_function; see python_calls(). These events are in
    events(), event_table and traces, but in key_averages() only on request. None: as with_stack.
    native: also record frames of C++ and other compiled code in stacks, as "function (library)", at their
    positions between the Python frames; implies with_stack. Ranges of annotated C++ code then have stacks
    too. Frames of the interpreter and of fastprof are left out. With sample_hz, samples have native frames, threads
    without Python are sampled, and calls are not recorded unless with_stack or python_calls say so.

    sample_hz: sample the Python stacks of all threads so often a second (None: never; 1000 is usual), by a native
    thread that takes no GIL and, without native, stops no thread; see samples() and docs/sampling.md. Samples are
    also rows of category sample below the ranges of their thread, in events(), event_table and traces, unless calls
    are recorded. Followed processes are sampled, too: Python stacks of their threads.
    sample_tasks: with sample_hz, also sample where suspended tasks of asyncio and trio wait, at most 50 times a second,
    by a thread that takes the GIL; see samples().table(mode="awaits"). Each task that waits has a track of its own.

    Memory:

    python_memory: also record allocations and frees of Python's own allocators (CPython's domains raw, mem
    and object: objects, their contents, buffers of bytearray and array), on all threads, as devices
    "python:raw (sampled)", "python:mem (sampled)" and "python:object (sampled)"; implies profile_memory.
    True or "sampled": a sample of the blocks is recorded, one in 64 KiB on average, large blocks always; sums
    are scaled, and memory_report() gives their standard errors. "exact": each block is a record, of devices
    "python:raw", "python:mem" and "python:object"; the program runs several times slower, and needs max_bytes.
    Array data of NumPy and memory of C libraries come from malloc and are not recorded.
    memory_attribution: attribute allocations to the innermost open range of the thread ("innermost") or to
    every range open at that time on any thread ("interval", PyTorch's rule).

    Threads, tasks, processes, counters:

    all_threads: True (default): every thread of the process; False: the starting thread, the threads
    and tasks that it starts, what it hands to thread pools and event loops, and functions wrapped
    by propagate(); None: as experimental_config says.
    tasks: True (default): events of a task (asyncio, trio) nest by task, and each task is a track.
    False: everything nests by thread; see docs/tasks.md.
    follow_children: also record the processes that this one starts while it records, and theirs, each
    from its start: by os.fork, multiprocessing, ProcessPoolExecutor, DataLoader workers, and
    subprocesses that run Python with fastprof installed. All results contain their events, as those of
    other processes; see docs/children.md.
    counters: up to 4 perf counters read around each range, such as ["instructions", "page-faults"];
    they appear in traces and in event_table.coded["counters"]. errors.UnavailableError with the
    reason if they cannot be read (experimental_config.performance_events only warns).

    Limits, and files that records move to:

    max_bytes: bound of the records held, in bytes; 0: min(256 MB, 1/16 of memory).
    overflow: what happens at that bound: "drop_newest" or "overwrite_oldest" (drops are counted), or
    "spill": records move to an unnamed file in spill_folder, and threads wait until they fit; see
    docs/results.md.
    spill_folder: default: the folder for temporary files.
    backing_file: path of a new file that contains the records while the profile runs, so that
    `recover(path)` or `fastprof recover` can read them if the process is killed; see
    docs/backing_file.md. Removed at stop(). Not with overflow="spill".
    keep_backing_file: True: stop() leaves the backing file, so that its records survive until a trace is written;
    the program removes it. The next start() needs another name, or the file removed.
    max_name_bytes: bound of the range names and string arguments that the process holds at once, in
    bytes; 0: 64 MB, else at least 65536. The largest value of the running profiles applies. At the
    bound, ranges get a shared name. A name or string longer than 1/1024 of the bound (at least 256
    bytes, at most 64 KB) is cut and ends in "... [cut: N bytes]". Both are counted in
    `event_table.dropped["names"]`. Names are freed between profiles.

    Other parameters of PyTorch's profilers:

    enabled: False makes a no-op profile whose results are empty.
    acc_events: keep the events of all recordings, not only of the last.
    activity_filters: {activity: type names}, another form of the type names in `activities`.
    custom_trace_id_callback: returns the id of each recording; default: 32 hexadecimal digits.
    use_cpu, use_cuda, use_device, use_kineto: older spellings of `activities`.
    post_processing_timeout_s: no effect, because results are read in full when requested.

    Options without an effect are listed in `missing` and reported by a warning. PyTorch's parameters are
    also attributes; a new value applies from the next recording.

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
        keep_backing_file: bool = False,
        memory_attribution: str = "innermost",
        counters: Iterable[str] = (),
        python_calls: bool | CallFilter | None = None,
        native: bool = False,
        follow_children: bool = False,
        tasks: bool = True,
        python_memory: bool | str = False,
        sample_hz: float | None = None,
        sample_tasks: bool = False,
    ) -> None:
        if not isinstance(enabled, (bool, int)) and isinstance(enabled, Iterable):
            raise TypeError(
                f"the first positional argument of profile() is `enabled`, not {enabled!r}. Pass activities"
                " by name: profile(activities=[...])"
            )
        for name, function, use in (
            ("schedule", schedule, "of a step's number, as fastprof.schedule() returns it"),
            (
                "on_trace_ready",
                on_trace_ready,
                "of the profile, such as fastprof.tensorboard_trace_handler(folder)",
            ),
        ):
            if function is not None and not callable(function):
                raise errors.ValueError(f"{name} must be a function {use}, not {function!r}")
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
        # Arguments that PyTorch's profile does not have.
        self._own_arguments: dict[str, Any] = {
            "memory_attribution": memory_attribution,
            "all_threads": all_threads,
            "max_bytes": max_bytes,
            "max_name_bytes": max_name_bytes,
            "overflow": overflow,
            "spill_folder": spill_folder,
            "backing_file": backing_file,
            "keep_backing_file": keep_backing_file and self.enabled,
            "counters": counters if isinstance(counters, str) else tuple(counters),
            "python_calls": python_calls if self.enabled else False,
            "native": native and self.enabled,
            "follow_children": follow_children and self.enabled,
            "tasks": bool(tasks) and self.enabled,
            "python_memory": python_memory if self.enabled else False,
            "sample_hz": sample_hz if self.enabled else None,
            "sample_tasks": sample_tasks and self.enabled,
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
        try:
            switch_interval.shorten(self)  # it looks for files of drivers
            self._options = make_options(
                activities=activities,
                activity_filters=activity_filters,
                use_cpu=use_cpu,
                use_cuda=use_cuda,
                use_device=use_device,
                use_kineto=use_kineto,
                **self._arguments(),
            )
        finally:
            switch_interval.restore(self)
        self.activities = set(self._options.asked)
        self.activity_filters = {a: set(names) for a, names in self._options.filters.items()}
        self.use_device = use_device or self._options.use_device or _first_device(self.activities)
        self._made_from = self._attributes()

    def _arguments(self) -> dict[str, Any]:
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
            **self._own_arguments,
        }

    def _attributes(self) -> dict[str, Any]:
        """Return a copy of every attribute that a program may have changed."""
        return {
            **self._arguments(),
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
            warnings.warn(
                f"the profile could not be finished: {failure!r}. The exception of the block follows.",
                stacklevel=2,
            )
        finally:
            if hasattr(self.execution_trace_observer, "cleanup"):
                self.execution_trace_observer.cleanup()  # completes its file, as in PyTorch

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Pause (False) or resume (True) recording; events that begin in a pause are left out.

        activities: as in the constructor. Has no effect unless CPU is among them; a pause then applies to all
        events, those of devices included. Raises errors.StateError unless the profile is running.
        """
        from fastprof.record.activities import ProfilerActivity, as_activity

        if self._recording is None or not self._running:
            raise errors.StateError(
                "collection can be toggled only while the profile records: call start() first"
            )
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

    def calibrate(self) -> dict[str, dict[str, float]]:
        """Measure what the recording of an event costs with this profile's options, before it starts.

        Traces of later recordings have it as their member "event_cost", and `fastprof report --subtract-overhead` takes
        it out of the times, as event_table.without_overhead() does. Takes 30 to 150 ms.

        Returns {kind: {"inside_ns", "outside_ns"}} for the kinds "range", "call" and "op" that are recorded: the cost
        within the times of an event, and around them. Raises errors.StateError while this profile runs.
        """
        if self._running:
            raise errors.StateError("this profile is running. Call calibrate() before start().")
        import json

        from fastprof.model.own_cost import EVENT_COST
        from fastprof.profiler.event_cost import measure_event_cost

        arguments = self._arguments()
        names = ("record_shapes", "with_stack", "profile_memory", "python_calls", "native")
        options = {name: arguments[name] for name in names}
        cost = measure_event_cost(lambda: profile(**options))
        self.preset_metadata_json(EVENT_COST, json.dumps(cost))
        return cost

    @property
    def profiler(self) -> profile | None:
        """This profile, where PyTorch has an inner profiler object; None before the first start."""
        return self if self._was_prepared else None

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
