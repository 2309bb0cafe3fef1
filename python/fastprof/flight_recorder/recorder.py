# SPDX-License-Identifier: Apache-2.0
"""FlightRecorder: a profile that overwrites its oldest records in a file, so that the last seconds are always there."""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import sys
import threading
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

from fastprof import _core
from fastprof._outputs import FORMATS
from fastprof.base import errors
from fastprof.base.sample_rate import MAX_SAMPLE_HZ
from fastprof.decode.sample_file import SAMPLE_FILE_BYTES, samples_path
from fastprof.flight_recorder import workers
from fastprof.flight_recorder.aggregation import Aggregation
from fastprof.flight_recorder.dumps import Dumps, read_dump, write_dump
from fastprof.flight_recorder.step_times import StepTimes
from fastprof.flight_recorder.step_work import StepWork
from fastprof.flight_recorder.thread_stacks import thread_stacks
from fastprof.profiler import profile, recording
from fastprof.record.activities import ProfilerActivity
from fastprof.record.process_folder import FOLDER_VARIABLE, ProcessFolder, stored_bytes
from fastprof.record.ranges import record_function
from fastprof.record.thread_names import follow_names, stop_following_names

__all__ = ["FlightOptions", "FlightRecorder"]

# A slab of 2 MB more than the records: the file's header, and what is handed out while the oldest are taken back.
_MIN_BYTES = 4 << 20
# A step is not slow for less than this beyond the median: short steps vary by more than a factor.
_MIN_SLOW_S = 0.05
# Numbers of "ProfilerStep#N" wrap here, since a name is kept as long as the recorder runs.
_STEP_NAMES = 4096
_MAX_RUNS = 1 << 20  # more than the file of samples has room for
_OPTIONAL_NUMBERS = ("slow_step", "max_step_s", "hang_s", "max_rss_bytes", "sample_hz", "min_op_us")
_NUMBERS = (
    *("seconds", "max_bytes", "max_dump_bytes", "min_dump_interval_s", "dump_delay_s"),
    *_OPTIONAL_NUMBERS,
)


@dataclass(frozen=True)
class FlightOptions:
    """Arguments of flight_recorder.start(), which documents them."""

    seconds: float = 30.0
    max_bytes: int = 64 << 20
    dump_folder: str | None = None
    max_dump_bytes: int = 1 << 30
    min_dump_interval_s: float = 60.0
    dump_delay_s: float = 0.0
    slow_step: float | None = 3.0
    max_step_s: float | None = None
    hang_s: float | None = None
    max_rss_bytes: int | None = None
    on_exception: bool = True
    sample_hz: float | None = None
    aggregate: bool | str = False
    min_op_us: float | None = None
    profile_options: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise errors.ValueError for a value that makes no sense."""
        for name in _NUMBERS:
            value = getattr(self, name)
            optional = name in _OPTIONAL_NUMBERS
            if value is None and optional:
                continue
            number = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not number or not math.isfinite(value):
                raise errors.ValueError(
                    f"invalid {name}={value!r}. Use a number{', or None' if optional else ''}."
                )
        if self.min_op_us is not None and not 0.001 <= self.min_op_us <= 1e9:
            raise errors.ValueError(
                f"invalid min_op_us={self.min_op_us!r}. Use a number of us from 0.001 to 1e9, or None."
            )
        for name in ("seconds", "max_dump_bytes"):
            if getattr(self, name) <= 0:
                raise errors.ValueError(
                    f"invalid {name}={getattr(self, name)!r}. Use a number above 0."
                )
        for name in ("min_dump_interval_s", "dump_delay_s"):
            if getattr(self, name) < 0:
                raise errors.ValueError(
                    f"invalid {name}={getattr(self, name)!r}. Use 0 or more seconds."
                )
        for name in ("max_step_s", "hang_s", "max_rss_bytes", "sample_hz"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise errors.ValueError(
                    f"invalid {name}={getattr(self, name)!r}. Use a number above 0, or None."
                )
        if self.sample_hz is not None and self.sample_hz > MAX_SAMPLE_HZ:
            raise errors.ValueError(
                f"invalid sample_hz={self.sample_hz!r}. Use 100, and at most {MAX_SAMPLE_HZ}."
            )
        if self.slow_step is not None and self.slow_step <= 1:
            raise errors.ValueError(
                f"invalid slow_step={self.slow_step!r}. Use a factor above 1, or None."
            )
        if self.aggregate and self.min_op_us is not None:
            raise errors.ValueError(
                "aggregate=True counts ops of any duration, so min_op_us has no effect beside it: leave one out."
            )
        if self.max_bytes < _MIN_BYTES:
            raise errors.ValueError(
                f"invalid max_bytes={self.max_bytes}. A flight recorder needs {_MIN_BYTES} bytes or more."
            )


class FlightRecorder:
    """The recorder of this process. Any thread may call its methods."""

    def __init__(self, options: FlightOptions) -> None:
        options.check()
        self.options = options
        self.pid = os.getpid()
        self.started_unix_s = time.time()
        self.dumps = Dumps(options.dump_folder, options.max_dump_bytes, options.min_dump_interval_s)
        self.steps = StepTimes()
        self.step_work = StepWork()
        self.steps_by = ""  # who announces them: "program" or "optimizer"
        self.last_step_s = time.monotonic()
        self._lock = threading.RLock()
        self._step_range: Any = None
        self._sampler: _core.StackSampler | None = None
        self._sampling_problem = ""
        self._short_ops_problem = ""
        self._left_out_before = 0
        self.aggregation: Aggregation | None = None
        self._due: list[tuple[float, str, str]] = []  # (monotonic time, reason, detail)
        self.folder = ProcessFolder.open(options.max_bytes)
        self.folder.remove_old()
        self.records = self.folder.new_records(workers.parent_of_worker())
        self._profile = profile(
            activities=[ProfilerActivity.CPU],  # what devices do is collected without a bound
            overflow="overwrite_oldest",
            max_bytes=options.max_bytes,
            backing_file=self.records,
            keep_backing_file=True,
            **options.profile_options,
        )

    def start(self) -> None:
        """Begin to record. Raises what profile.start() does; nothing is left of the recorder's file then."""
        self._left_out_before = _core.torch_ops_left_out()
        if self.options.min_op_us is not None:
            shortest_ns = round(self.options.min_op_us * 1000)
            if not _core.torch_leave_out_ops_below(shortest_ns):
                self._short_ops_problem = (
                    "ops of any duration are kept: the clock is not the CPU's tick counter"
                )
        try:
            self._profile.start()
        except BaseException:
            _core.torch_leave_out_ops_below(0)
            self._remove_records()
            raise
        recording.flight_file = self.records
        if self.options.aggregate:
            folder = self.options.aggregate if isinstance(self.options.aggregate, str) else None
            # Records that wait to be read, for milliseconds: a part of the recorder's is enough.
            max_bytes = max(2 * _MIN_BYTES, self.options.max_bytes // 4)
            try:
                self.aggregation = Aggregation(self.records, folder, max_bytes)
            except BaseException:
                self.stop()
                raise
        if self.options.sample_hz is not None:
            sampler = _core.StackSampler(self.options.sample_hz, _MAX_RUNS)
            self._sampling_problem = (
                sampler.write_to(
                    samples_path(self.records), SAMPLE_FILE_BYTES, self.options.seconds
                )
                or sampler.begin()
            )
            self._sampler = sampler
            if not self._sampling_problem:
                follow_names(sampler)
            else:
                warnings.warn(
                    f"fastprof: stacks are not sampled: {self._sampling_problem}", stacklevel=5
                )

    def stop(self) -> None:
        """End the recording and remove its file. No effect when called again, or in a forked child."""
        if os.getpid() != self.pid:
            return
        for reason, detail in self.take_due(everything=True):
            self.dump_now(reason, detail)
        recording.flight_file = ""
        _core.torch_leave_out_ops_below(0)
        if self._sampler is not None:
            stop_following_names(self._sampler)
            self._sampler.end()
            self._sampler = None
        aggregation, self.aggregation = self.aggregation, None
        if aggregation is not None:
            aggregation.close()
            del aggregation  # its session ends before the recorder's does
        self._profile.stop()
        self._remove_records()
        if "exception" not in self.dumps.written:  # else they are evidence
            self.folder.remove_children(workers.killed())

    def _remove_records(self) -> None:
        for path in (self.records, samples_path(self.records)):
            with contextlib.suppress(OSError):
                os.unlink(path)

    # ---- dumps ---------------------------------------------------------------------------------

    def dump(self, path: str | None, reason: str, *, native: bool = False) -> str:
        """Write a dump to `path`, whatever the bounds are; None: to the folder of dumps. Return its path.

        With the suffix .flight (or none of a trace's) it is a copy of the records, of at most max_bytes, which costs
        the program milliseconds; with the suffix of a trace, the trace is made in this process.
        """
        self._check_records()
        stacks = thread_stacks(native=native)  # before the lock, which the program's steps need
        with self._lock:
            if path is None:
                return self._write(reason, "", stacks)
            if not _is_trace(path):
                write_dump(self.records, path, reason, "", self.options.seconds, stacks)
                return path
            copy = f"{self.records}.{os.urandom(4).hex()}.part"
            try:
                write_dump(self.records, copy, reason, "", self.options.seconds, stacks)
                read_dump(copy).export(path)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(copy)
            return path

    def dump_now(self, reason: str, detail: str) -> str | None:
        """Write a dump within the bounds of rate and size; return its path, or None. Prints one line to stderr."""
        stacks = thread_stacks(native=True) if reason == "hang" else ""
        with self._lock:
            if not self.dumps.allow(reason):
                return None
            try:
                self._check_records()
                path = self._write(reason, detail, stacks or thread_stacks())
            except (OSError, errors.Error) as error:
                self.dumps.suppressed[reason] = self.dumps.suppressed.get(reason, 0) + 1
                _say(f"fastprof: {reason}: no dump was written: {error}")
                return None
        _say(f"fastprof: {reason}: {detail}: fastprof report {path}")
        return path

    def _check_records(self) -> None:
        if not os.path.exists(self.records):
            why = self._profile.missing.get("backing_file", f"{self.records} has been removed")
            raise errors.IoError(
                f"the recorder has no records to copy: {why}. Start it again with {FOLDER_VARIABLE} set to a folder"
                " that has room."
            )

    def _write(self, reason: str, detail: str, stacks: str) -> str:
        return self.dumps.write(self.records, reason, detail, self.options.seconds, stacks)

    def trigger(self, reason: str, detail: str, at_once: bool = False) -> None:
        """Ask for a dump: now, or `dump_delay_s` later, when the watch finds it due."""
        if at_once or not self.options.dump_delay_s:
            self.dump_now(reason, detail)
            return
        with self._lock:
            self._due.append((time.monotonic() + self.options.dump_delay_s, reason, detail))

    def take_due(self, everything: bool = False) -> list[tuple[str, str]]:
        """Return and forget the delayed dumps that are due."""
        now_s = time.monotonic()
        with self._lock:
            due = [each for each in self._due if everything or each[0] <= now_s]
            self._due = [each for each in self._due if each not in due]
        return [(reason, detail) for _, reason, detail in due]

    # ---- steps ---------------------------------------------------------------------------------

    def step(self, by: str = "program") -> None:
        """Count the end of a step; ask for a dump if it was slow. The optimizer's count until the program's do."""
        now_s = time.monotonic()
        with self._lock:
            if by != self.steps_by:
                if self.steps_by == "program":
                    return
                self.steps_by, first = by, True
            else:
                first = False
            duration_s = now_s - self.last_step_s
            self.last_step_s = now_s
            if self._step_range is not None:
                self._step_range.__exit__(None, None, None)
                self._step_range = None
            median_s = self.steps.median_s()
            if not first:  # else it began when the recorder did, or with the other's last step
                self.steps.add(duration_s)
            number = self.steps.count
            due = self.step_work.take_due(number)
            if due:
                for work in due:
                    work(number)
                self.last_step_s = time.monotonic()  # the next step is not slow because of it
            self._step_range = record_function(f"ProfilerStep#{(number + 1) % _STEP_NAMES}")
            self._step_range.__enter__()
            if first:
                return
        options = self.options
        if options.max_step_s is not None and duration_s > options.max_step_s:
            detail = f"step {number} took {duration_s:.3f} s, the bound is {options.max_step_s:g} s"
        elif (
            options.slow_step is not None
            and median_s is not None
            and duration_s > max(options.slow_step * median_s, median_s + _MIN_SLOW_S)
        ):
            detail = f"step {number} took {duration_s:.3f} s, {duration_s / median_s:.1f} times the median"
        else:
            return
        self.trigger("slow step", detail)

    def _missing(self) -> dict[str, str]:
        missing = dict(self._profile.missing)
        if problem := self._shortage():
            missing.setdefault("backing_file", problem)
        if self._sampling_problem:
            missing["sample_hz"] = f"stacks are not sampled: {self._sampling_problem}"
        if self._short_ops_problem:
            missing["min_op_us"] = self._short_ops_problem
        if self.aggregation is not None and self.aggregation.problem:
            missing["aggregate"] = self.aggregation.problem
        return missing

    def _shortage(self) -> str:
        """Return what dumps lack because the folder of the records is full; "": nothing."""
        try:
            slabs, names = _core.backing_file_shortage(os.fsencode(self.records))
        except errors.IoError:
            return "the recorder has no file"
        if not slabs and not names:
            return ""
        return (
            f"dumps lack records: {self.records} had no room for {slabs} blocks of 2 MB and {names} names."
            f" Make room, or set {FOLDER_VARIABLE} to a folder with more, and start the recorder again."
        )

    # ---- state ---------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return what the recorder does, as values that JSON can represent. Times are in s, sizes in bytes."""
        with self._lock:
            steps = self.steps
            return {
                "records": self.records,
                "started_unix_s": self.started_unix_s,
                "seconds": self.options.seconds,
                "memory_bytes": stored_bytes(self.records),
                "steps": steps.count,
                "steps_by": self.steps_by,
                "step_total_s": steps.total_s,
                "step_max_s": steps.max_s,
                "step_quantiles_s": {q: steps.quantile_s(q) for q in (0.5, 0.9, 0.99)},
                "dumps": dict(self.dumps.written),
                "suppressed": dict(self.dumps.suppressed),
                "dump_bytes": self.dumps.written_bytes,
                "ops_left_out": _core.torch_ops_left_out() - self._left_out_before,
                "aggregates": None if self.aggregation is None else self.aggregation.facts(),
                "missing": self._missing(),
            }


def _is_trace(path: str) -> bool:
    name = os.path.basename(path).removesuffix(".gz")
    return any(name.endswith(suffix) for each in FORMATS.values() for suffix in each.suffixes)


def _say(line: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(line, file=sys.stderr, flush=True)
