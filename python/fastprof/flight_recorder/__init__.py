# SPDX-License-Identifier: Apache-2.0
"""flight_recorder: the last seconds of this process, always in a file that survives it (docs/always_on.md).

from fastprof import flight_recorder

flight_recorder.start()                  # or: fastprof run --flight-recorder train.py
for batch in batches:                    # or FASTPROF_FLIGHT_RECORDER=1 in the environment
    train(batch)
    flight_recorder.step()               # steps of torch's optimizers are counted without

fastprof ps                              # in a shell: the processes that can be asked
fastprof dump PID                        # also after a SIGKILL
fastprof profile PID --seconds 5
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from typing import TYPE_CHECKING, Any

from fastprof.base import errors
from fastprof.flight_recorder.option_text import option_named, options_of
from fastprof.model.aggregates import Aggregates

# What records is imported by start(): commands that only read files of recorders are there in half the time.
if TYPE_CHECKING:
    from fastprof.flight_recorder.recorder import FlightOptions, FlightRecorder

__all__ = [
    "Aggregates",
    "aggregates",
    "dump",
    "is_running",
    "metrics",
    "start",
    "start_from_environment",
    "status",
    "step",
    "stop",
]

VARIABLE, CONTROL_VARIABLE = "FASTPROF_FLIGHT_RECORDER", "FASTPROF_CONTROL"


# Options of profile() that the recorder decides, or that collect without end outside of its file.
_NOT_OPTIONS = (
    *(
        "activities",
        "use_cpu",
        "use_cuda",
        "use_device",
        "activity_filters",
        "schedule",
        "on_trace_ready",
    ),
    *("overflow", "spill_folder", "backing_file", "keep_backing_file", "follow_children"),
    "execution_trace_observer",
)


class _Running:
    """What start() began, for stop()."""

    def __init__(self, recorder: FlightRecorder) -> None:
        from fastprof.flight_recorder.requests import Requests
        from fastprof.flight_recorder.triggers import Triggers
        from fastprof.flight_recorder.watch import Watch

        self.recorder = recorder
        self.triggers = Triggers(recorder)
        self.requests = Requests(lambda: recorder)
        self.control_problem = ""
        path = None
        if os.environ.get(CONTROL_VARIABLE, "1") != "0":
            path = recorder.folder.socket()
        self.watch = Watch(path, self.requests.answer, self.triggers.look, self.triggers.period_s)

    def begin(self) -> None:
        from fastprof.flight_recorder import workers

        self.triggers.arm()
        workers.watch(_end_of_worker)
        try:
            self.watch.open()
        except OSError as error:
            self.control_problem = f"this process cannot be asked: {error}"
            warnings.warn(f"fastprof: {self.control_problem}", stacklevel=4)

    def end(self) -> None:
        from fastprof.flight_recorder import workers

        self.triggers.disarm()
        self.watch.close()
        self.recorder.stop()
        workers.forget()


_lock = threading.RLock()
_running: _Running | None = None
_registered = False


def start(
    seconds: float = 30.0,
    max_bytes: int = 64 << 20,
    *,
    dump_folder: str | os.PathLike[str] | None = None,
    max_dump_bytes: int = 1 << 30,
    min_dump_interval_s: float = 60.0,
    dump_delay_s: float = 0.0,
    slow_step: float | None = 3.0,
    max_step_s: float | None = None,
    hang_s: float | None = None,
    max_rss_bytes: int | None = None,
    on_exception: bool = True,
    sample_hz: float | None = None,
    aggregate: bool | str | os.PathLike[str] = False,
    min_op_us: float | None = None,
    **profile_options: Any,
) -> None:
    """Record from now on into a file of fixed size, of which the oldest records are overwritten.

    The file is in the user's private folder in memory (/dev/shm/fastprof-UID; among the temporary files if there is no
    room) and outlives the process however it ends; stop() and an orderly end remove it. Forked processes get a recorder
    of their own. Ordinary profiles may run meanwhile; they are complete.

    seconds: how much of the past a dump shows, if it fits into max_bytes (64 MiB: 2.7 million ranges).
    sample_hz: also sample the Python stacks of all threads so many times a second, such as 100, into a file of 4 MiB
    beside the records: a native thread takes no GIL, so that a hang with the GIL held is sampled, too.
    aggregate: also keep statistics of all ranges per name: aggregates(). Each minute they are written beside the
    records, for `fastprof report`, or into the folder that is given, where they stay.
    min_op_us: keep only PyTorch's ops that take so long, or in which something else was recorded; the time of others
    is own time of what ran them. The same memory then reaches further back. Not with aggregate.
    profile_options: options of profile(): record_shapes, with_stack, python_calls, profile_memory, ...

    Dumps, copies of the file with the reason and the stacks of all threads, are written into dump_folder (default:
    fastprof-dumps-UID among the temporary files): never more than max_dump_bytes in all, nor two for one reason within
    min_dump_interval_s; dump_delay_s later, so that they show what followed. `fastprof report FILE` shows one. When:

    slow_step: a step took so many times the median of the last 101 (once there are 20), and 50 ms more than it.
    max_step_s: a step took longer than this.
    hang_s: no step for so long, after a first one. max_rss_bytes: more memory is resident. None: never.
    on_exception: an exception that nobody caught, on any thread or in a task. Or by `fastprof dump PID`, dump().

    Any thread. Raises errors.StateError if a recorder runs, errors.ValueError for invalid arguments,
    errors.UnavailableError if there is no folder for the file, errors.IoError if dump_folder cannot be written.
    """
    from fastprof.flight_recorder.recorder import FlightOptions

    options = FlightOptions(
        seconds=seconds,
        max_bytes=max_bytes,
        dump_folder=None if dump_folder is None else os.path.abspath(os.fsdecode(dump_folder)),
        max_dump_bytes=max_dump_bytes,
        min_dump_interval_s=min_dump_interval_s,
        dump_delay_s=dump_delay_s,
        slow_step=slow_step,
        max_step_s=max_step_s,
        hang_s=hang_s,
        max_rss_bytes=max_rss_bytes,
        on_exception=on_exception,
        sample_hz=sample_hz,
        aggregate=(
            bool(aggregate)
            if isinstance(aggregate, int)
            else os.path.abspath(os.fsdecode(aggregate))
        ),
        min_op_us=min_op_us,
        profile_options=profile_options,
    )
    _start(options)


def _start(options: FlightOptions) -> None:
    global _running, _registered
    from fastprof.flight_recorder import attached
    from fastprof.flight_recorder.recorder import FlightRecorder

    with _lock:
        if _running is not None:
            raise errors.StateError(
                "the flight recorder runs already: call flight_recorder.stop() first"
            )
        for name in _NOT_OPTIONS:
            if name in options.profile_options:
                raise errors.ValueError(
                    f"{name} is no option of a flight recorder: its records are the last seconds of this"
                    " process's CPU, in its own file. `fastprof profile PID` makes a profile with it."
                )
        for name in options.profile_options:
            option_named(name)
        recorder = FlightRecorder(options)
        attached.close()  # the recorder listens on the same socket
        recorder.start()
        _running = _Running(recorder)
        _running.begin()
        if not _registered:
            _registered = True
            atexit.register(stop)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=_before_fork,
                    after_in_parent=_after_fork_in_parent,
                    after_in_child=_after_fork_in_child,
                )


def stop() -> None:
    """End the recording and remove its file; delayed dumps are written first. No effect if none runs. Any thread."""
    global _running
    with _lock:
        running, _running = _running, None
    if running is not None:
        running.end()


def is_running() -> bool:
    """Return whether this process has a flight recorder. Any thread."""
    return _running is not None


def dump(
    path: str | os.PathLike[str] | None = None, *, reason: str = "call", native: bool = False
) -> str:
    """Write what the recorder has now, and return the file's path. Any thread.

    path: a new file: a copy of the records, in milliseconds; with the suffix of a trace (.json, .pftrace, .fastprof,
    .html, ...) a trace, made in this process. None: a new file in the folder of dumps. Bounds do not apply.
    native: the stacks of threads have C and C++ functions, too, and threads without Python are among them, as in dumps
    of a hang. It takes 30 ms and the time to find the functions' names, and sends SIGURG to running threads.

    Raises errors.StateError without a recorder, errors.IoError if the file cannot be written.
    """
    return _recorder().dump(
        None if path is None else os.path.abspath(os.fsdecode(path)), str(reason), native=native
    )


def step() -> None:
    """End a step of the program, and begin the next: a range "ProfilerStep#N" (N modulo 4096).

    The first call only begins a step, since what came before it contains the start of the program. Does nothing
    without a recorder. Call it once an iteration, on one thread. Until the first call, the steps of torch's first
    optimizer are counted.
    """
    running = _running
    if running is not None:
        running.recorder.step()


def aggregates(window: str = "all") -> Aggregates:
    """Return statistics of all ranges per name, of any number of them in fixed memory; needs start(aggregate=True).

    Counts, sums and extremes are exact; quantiles are within 1 %. A name takes at most 6 kB a window; names beyond
    5,000 share the row "other names". facts["dropped"] counts ranges that were missed.

    window: "all": since the start. "minute", "hour": the last complete one (of the Unix clock, to within 0.25 s); the
    running one before there is one.

    Any thread. Raises errors.StateError without a recorder that aggregates, errors.ValueError for another window.
    """
    aggregation = _recorder().aggregation
    if aggregation is None:
        raise errors.StateError(
            "the flight recorder does not aggregate: call flight_recorder.start(aggregate=True)"
        )
    return aggregation.now(window)


def status() -> dict[str, Any]:
    """Return what the recorder does: its file, memory, steps with quantiles (within 1 %), dumps.

    Times are in s, sizes in bytes. Raises errors.StateError without a recorder. Any thread.
    """
    return _recorder().status()


def metrics() -> str:
    """Return status() in Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats/).

    Raises errors.StateError without a recorder. Any thread.
    """
    facts = _recorder().status()
    lines = []

    def metric(name: str, kind: str, values: dict[str, float]) -> None:
        lines.append(f"# TYPE fastprof_{name} {kind}")
        lines.extend(f"fastprof_{name}{labels} {value!r}" for labels, value in values.items())

    metric("recorder_bytes", "gauge", {"": facts["memory_bytes"]})
    quantiles = {f'{{quantile="{q}"}}': s for q, s in facts["step_quantiles_s"].items()}
    metric("step_seconds", "summary", quantiles)
    lines += [
        f"fastprof_step_seconds_sum {facts['step_total_s']!r}",
        f"fastprof_step_seconds_count {facts['steps']}",
    ]
    for name in ("dumps", "suppressed"):
        metric(
            f"{name}_total" if name == "dumps" else "dumps_suppressed_total",
            "counter",
            {f'{{reason="{_label(reason)}"}}': count for reason, count in facts[name].items()},
        )
    metric("dump_bytes_total", "counter", {"": facts["dump_bytes"]})
    metric("ops_left_out_total", "counter", {"": facts["ops_left_out"]})
    return "\n".join(lines) + "\n"


def start_from_environment() -> None:
    """Start as FASTPROF_FLIGHT_RECORDER says: "1", or "seconds=60,max_step_s=2". Warns of what cannot be done.

    "" and "0": does nothing. Called by `import fastprof`.
    """
    text = os.environ.get(VARIABLE, "")
    if text in ("", "0") or is_running():
        return
    try:
        start(**options_of(text))
    except (errors.Error, OSError, TypeError) as error:
        warnings.warn(f"{VARIABLE}={text}: no flight recorder: {error}", stacklevel=2)


def _end_of_worker(error: Exception | None) -> None:
    """End the recorder of a process of multiprocessing. error: what ends it."""
    running = _running
    if running is not None and error is not None:
        running.triggers.uncaught_in_worker(error)
    stop()


def _recorder() -> FlightRecorder:
    running = _running
    if running is None:
        raise errors.StateError("no flight recorder runs: call flight_recorder.start() first")
    return running.recorder


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


# ---- forks -------------------------------------------------------------------------------------


def _before_fork() -> None:
    _lock.acquire()
    if _running is not None:
        _running.watch.pause()
        if _running.recorder.aggregation is not None:
            _running.recorder.aggregation.pause()


def _after_fork_in_parent() -> None:
    if _running is not None:
        if _running.recorder.aggregation is not None:
            _running.recorder.aggregation.resume()
        _running.watch.begin()
    _lock.release()


def _after_fork_in_child() -> None:
    """Give the child a recorder of its own, with the same options."""
    global _running, _lock
    before, _running = _running, None
    _lock = threading.RLock()
    if before is None:
        return
    from fastprof.profiler import recording
    from fastprof.profiler.followed_process import is_followed

    before.triggers.disarm()
    before.watch.close(in_child=True)
    recording.flight_file = ""
    if is_followed():  # a profile of the parent's records this process, into a file of its own
        return
    try:
        _start(before.recorder.options)
    except (errors.Error, OSError) as error:
        warnings.warn(
            f"no flight recorder in the forked process {os.getpid()}: {error}", stacklevel=2
        )
        return
