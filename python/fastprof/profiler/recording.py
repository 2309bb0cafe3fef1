# SPDX-License-Identifier: Apache-2.0
"""Recording: one native session from start to stop, with its observers."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fastprof import _core
from fastprof.base import errors
from fastprof.base.native_numbers import OverflowPolicy
from fastprof.base.visible_text import encodable_text
from fastprof.profiler.device_collections import ActivityReceiver, DeviceCollections
from fastprof.profiler.metadata import distributed_info
from fastprof.profiler.observers import chosen_observers
from fastprof.profiler.options import Options, report_missing
from fastprof.profiler.own_use import OwnUse
from fastprof.profiler.recovery import SAMPLE_HZ_FACT, process_facts, program_name
from fastprof.profiler.result import Result
from fastprof.record.gpus import gpu_vendor
from fastprof.record.shard_folder import FOLDER_FACT
from fastprof.record.thread_names import listed_threads, name_of

if TYPE_CHECKING:
    from fastprof.base.observer import Observer
    from fastprof.model.sampled_stacks import SampledStacks
    from fastprof.profiler.children import FollowedChildren

__all__ = ["Recording"]

T = TypeVar("T")

# The file that has all records of this process while its flight recorder runs, set by that: no other can.
flight_file = ""
_handler_pid = 0  # of the process in which a recording had a file for its handler
_KEPT = (
    "The file of a rank's trace handler has the records: give rank_trace_handler() keep_records=False, or "
    "`fastprof run --ranks` --no-keep-records"
)


class Recording:
    """One native session, and the observers that record into it while it runs. Use from one thread at a time."""

    def __init__(
        self,
        options: Options,
        *,
        facts: list[tuple[str, str]] | None = None,
        keep_file: bool = False,
        more_facts: list[tuple[str, str]] | None = None,
    ) -> None:
        """facts: metadata in the backing file; None: process_facts(). keep_file: do not remove the file at the end.

        more_facts: further metadata of a file that the handler of traces has asked for: it is not removed at the end,
        and recording begins without it if it cannot be made.
        """
        if flight_file and options.backing_file:
            options = replace(options, backing_file="")
            reason = f"the flight recorder's file has the records; `fastprof dump {os.getpid()}` reads it"
            report_missing(options, "backing_file", reason)
        self._options = options
        if facts is None:
            facts = process_facts() if options.backing_file else []
            if options.backing_file and options.sample_hz:
                facts.append((SAMPLE_HZ_FACT, f"{options.sample_hz:g}"))
        self._for_handler = more_facts is not None
        self._make_session(options, facts + (more_facts or []), keep_file or self._for_handler)
        self._children: FollowedChildren | None = None
        self._pauses: list[list[int | None]] = []
        self._pid = os.getpid()
        report = partial(report_missing, options)
        self._devices = DeviceCollections(options.device_types, report)
        self._observers = chosen_observers(options, report, self._devices)
        # One thread at a time ends it; a signal handler of the same thread may do so in between.
        self.ending = threading.RLock()
        self._result: Result | None = None
        self._distributed: dict[str, Any] | None = None
        self._own_use = OwnUse()

    def _make_session(
        self, options: Options, facts: list[tuple[str, str]], keep_file: bool
    ) -> None:
        self._session = _core.Session(
            categories=options.categories,
            thread_local_only=not options.all_threads,
            max_bytes=options.max_bytes,
            max_name_bytes=options.max_name_bytes,
            overflow=options.overflow,
            python_stacks=options.with_stack,
            native_frames=options.native,
            counters=list(options.counters),
            record_shapes=options.record_shapes,
            spill_folder=os.fsencode(options.spill_folder),
            backing_file=os.fsencode(options.backing_file),
            keep_backing_file=keep_file,
            backing_metadata=facts,
        )

    def warm_up(self) -> None:
        """Fault in memory for records and begin to instrument devices, so that the first step costs no more."""
        self._session.warm_up()
        self._devices.warm_up()

    def start(self) -> None:
        """Begin to record; errors.StateError if already running. After an exception call abandon()."""
        with self._own_use.counting("start"):
            self._start()

    def _start(self) -> None:
        self._distributed = distributed_info()
        if self._options.follow_children:  # imported before calls are recorded
            from fastprof.profiler.children import FollowedChildren

            self._children = FollowedChildren(self._options)
        for observer in self._observers:
            observer.prepare()
        self._start_session()
        for observer in self._observers:
            self._report(observer, observer.start())
            for fact in observer.facts().items():
                self.add_fact(*fact)
        self._report_backing_problem()
        if self._children is not None:
            self._children.start()
            if self._children.folder is not None:
                self.add_fact(FOLDER_FACT, self._children.folder)

    def _start_session(self) -> None:
        global _handler_pid
        try:
            self._session.start()
        except (errors.IoError, errors.StateError) as error:
            others = isinstance(error, errors.StateError) and _handler_pid == os.getpid()
            if not self._for_handler and (not others or not self._options.backing_file):
                raise
            if not self._for_handler and self._options.overflow == OverflowPolicy.OVERWRITE_OLDEST:
                raise errors.StateError(f"{error}. {_KEPT}") from error
            reason = f"if this process is killed, its records are lost: {error}"
            reason = reason if self._for_handler else _KEPT
            self._for_handler = False
            self._options = replace(self._options, backing_file="")
            self._make_session(self._options, [], False)
            self._session.start()
            report_missing(self._options, "backing_file", reason)
        if self._for_handler:
            _handler_pid = os.getpid()

    def _release_file(self) -> None:
        global _handler_pid
        if self._for_handler:
            _handler_pid = 0

    @property
    def missing(self) -> dict[str, str]:
        """What is not recorded although it was requested -> reason."""
        return self._options.missing

    def add_fact(self, key: str, value: str) -> None:
        """Add metadata of the process to the backing file. Any thread."""
        self._session.add_backing_metadata(key, encodable_text(value))

    def _report(self, observer: Observer, problems: list[str]) -> None:
        for problem in problems:
            report_missing(self._options, observer.missing, problem)

    def _report_backing_problem(self) -> None:
        if problem := self._session.backing_problem:
            report_missing(self._options, "backing_file", problem)

    def _alone(self, missing: str, what: str, step: Callable[[], T], otherwise: T) -> T:
        """Return the result of a step of the end. If it raises, name it in `missing` and return `otherwise`."""
        try:
            return step()
        except Exception as error:
            report_missing(self._options, missing, f"{what} ({type(error).__name__}: {error})")
            return otherwise

    def _finish_observing(self) -> None:
        for observer in reversed(self._observers):
            name = observer.missing or type(observer).__name__
            self._report(
                observer,
                self._alone(name, f"{name} could not be ended", observer.finish, list[str]()),
            )

    def _stop_observing(self) -> None:
        self._finish_observing()
        for observer in reversed(self._observers):
            name = observer.missing or type(observer).__name__
            self._alone(name, f"{name} could not be ended", observer.stop, None)

    @property
    def started(self) -> bool:
        """Whether recording has begun; stays true after stop()."""
        return self._session.running or self._session.has_capture

    def abandon(self) -> None:
        """End without a result. Has no effect if not running or when called again."""
        self._close_children()
        self._stop_observing()
        self._session.abandon()
        self._release_file()
        if self._for_handler and self.in_its_process:
            with suppress(OSError):  # not made
                os.unlink(self._options.backing_file)

    @property
    def collects_devices(self) -> bool:
        """Whether activities of devices are being collected."""
        return self._devices.are_open

    def hand_over_devices(self, receiver: ActivityReceiver, *, end: bool) -> None:
        """Pass the completed activities of devices to the receiver.

        end: wait for the devices first, and end the collections.
        """
        if end:
            self._devices.end(receiver)
        else:
            self._devices.hand_over(receiver)

    def release(self) -> None:
        """End without reading the records, which stay in the backing file. Any thread."""
        self._stop_observing()
        self._session.abandon()
        self._release_file()

    @property
    def in_its_process(self) -> bool:
        """False in a forked child, where the native session does not exist."""
        return self._pid == os.getpid()

    def _report_spill_error(self) -> None:
        """Warn, and add to `missing`, if records were lost because the spill file could not be written."""
        reason = self._session.spill_error
        if reason:
            report_missing(
                self._options,
                "spill",
                f"the spill file could not be written ({reason}): the missing events are counted as "
                "dropped under spill_failed; choose another spill_folder, or a larger max_bytes",
            )

    def devices_are_full(self) -> bool:
        """Return whether activities of a device are being lost because the memory for them is full."""
        return self._devices.are_full()

    def pause(self, paused: bool) -> None:
        """Begin (True) or end (False) a pause; events that begin in one are left out of the result."""
        now_ns = _core.now_ns()
        open_pause = bool(self._pauses) and self._pauses[-1][1] is None
        if paused and not open_pause:
            self._pauses.append([now_ns, None])
        elif not paused and open_pause:
            self._pauses[-1][1] = now_ns

    def so_far(self, metadata: Mapping[str, Any]) -> Result:
        """Return the events of this process so far; recording continues. Any thread.

        Raises errors.StateError if the recording is not running, or with overflow="spill".
        """
        capture = self._session.capture_so_far(self._thread_names(), program_name())
        now_ns = _core.now_ns()
        pauses = [(a, now_ns if b is None else b) for a, b in self._pauses]
        return self._with_parameters(Result(capture, self._options, metadata, pauses))

    def _with_parameters(self, result: Result) -> Result:
        if self._options.profile_memory and self._options.record_shapes:
            from fastprof.adapters.torch.parameters import parameter_addresses

            result.parameters = self._alone(
                "profile_memory",
                "the parameters could not be found, so that their memory has another category",
                parameter_addresses,
                frozenset(),
            )
        return result

    def _thread_names(self) -> dict[int, str]:
        threads: list[Any] = self._alone(
            "names",
            "the threads could not be listed, so that some have no name",
            listed_threads,
            list[Any](),
        )
        why = "a thread has no name, because it cannot be read"
        found = [self._alone("names", why, partial(name_of, thread), None) for thread in threads]
        return dict(filter(None, found))

    def _samples(self, capture: _core.Capture) -> SampledStacks | None:
        tracks = capture.tracks()
        # Tasks have the id of the kernel's thread, too.
        names = {tid: name for _, pid, tid, name, _, of, _ in tracks if pid == self._pid and of < 0}
        found = (observer.samples for observer in self._observers)
        samples: SampledStacks | None = next((each for each in found if each is not None), None)
        if samples is None:
            return None
        used, known = Counter(tid for tid, _ in samples.threads), {*samples.threads}

        def named(tid: int, name: str) -> tuple[int, str]:
            # Of an id used again, the sampler knows the names of threads that Python made. Others have one thread state
            # after the other, and none of these has a name.
            has_own = name != f"thread {tid}" or (tid, names.get(tid, "")) in known
            return tid, name if used[tid] > 1 and has_own else names.get(tid) or name

        return replace(samples, threads=tuple(named(*each) for each in samples.threads))

    def _close_children(self) -> None:
        if self._children is not None:
            self._alone(
                "follow_children",
                "the folder of the followed processes could not be removed",
                self._children.close,
                None,
            )

    def stop(self, metadata: Mapping[str, Any]) -> Result:
        """End, read everything and return the result. A repeated call returns the same result.

        What an observer or a description cannot deliver is named in `missing`. Raises MemoryError if there is no
        memory for the events, which are kept for the next call; errors.StateError in a forked child.
        """
        if self._result is None:
            with self._own_use.counting("stop"):
                self._own_use.look_at_threads()
                result = self._stopped(metadata)
                self._own_use.look_at_threads()
            result.metadata["own_use"] = self._own_use.read()
            if self.missing:  # in files, too
                result.metadata.setdefault("missing", dict(self.missing))
            self._result = result
        self._close_children()
        return self._result

    def _stopped(self, metadata: Mapping[str, Any]) -> Result:
        self._finish_observing()
        if self._session.running:
            self._alone(
                "devices",
                "work of devices is missing, because it could not be read",
                partial(self._devices.end, self._session),
                None,
            )
        try:
            capture = self._session.stop(self._thread_names(), program_name())
            self._release_file()
        except MemoryError as error:
            raise MemoryError(
                "profile: there is no memory for the events, which are kept. Free memory and call stop() again."
            ) from error
        finally:
            self._stop_observing()
        self._report_spill_error()
        self._report_backing_problem()
        pauses = [(a, b) for a, b in self._pauses]
        for observer in self._observers:
            name = observer.missing or type(observer).__name__
            why = f"metadata of {name} is missing"
            nothing: Mapping[str, Any] = {}
            added = self._alone(name, why, observer.metadata, nothing)
            metadata = {**metadata, **added}
        if self._children is not None:
            capture, processes = self._children.merged_with(capture)
            metadata = {**metadata, "processes": processes}
        result = self._with_parameters(Result(capture, self._options, metadata, pauses))
        result.distributed = self._distributed
        result.samples = self._samples(capture)
        if self._children is not None and result.samples is not None:
            result.samples = self._children.samples_with(result.samples)
        self._alone(
            "metadata",
            "metadata of the job or the GPUs is missing",
            partial(_describe, result),
            None,
        )
        return result


def _describe(result: Result) -> None:
    result.distributed = distributed_info() or result.distributed
    if "CUDA" in result.options.device_types:
        members = gpu_vendor().members()
        if (given := members.pop("deviceProperties", None)) is not None:
            result.metadata["deviceProperties"] = json.loads(given)  # as in a loaded trace
        result.device_members = members
