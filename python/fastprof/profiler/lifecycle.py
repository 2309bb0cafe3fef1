# SPDX-License-Identifier: Apache-2.0
"""ProfileLife: start(), step() and stop() of a profile, each safe against interrupts.

A KeyboardInterrupt can be raised between any two bytecodes. Therefore every part of stop() can be run
twice (it inspects the current state, and takes effect in one C call or one assignment), and a profile
counts as running until it has ended completely: a second stop() continues where the first was
interrupted.
"""

from __future__ import annotations

import contextlib
import operator
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fastprof.base import errors, switch_interval
from fastprof.compat.execution_trace import check_observer_may_start
from fastprof.profiler.open_profiles import closed, opened
from fastprof.profiler.options import Options, outside_level
from fastprof.profiler.recording import Recording
from fastprof.profiler.result import Result
from fastprof.profiler.step_schedule import ProfilerAction, as_action, transition
from fastprof.profiler.step_tracker import PROFILER_STEP, KinetoStepTracker

# Also for the program's first use of it: within the block, this import would be recorded as calls.
from fastprof.record.ranges import record_function

__all__ = ["ProfileLife"]


class _Position(NamedTuple):
    """Position of a profile in its schedule. One object, so that its fields change together."""

    step_num: int
    action: ProfilerAction
    came_from: ProfilerAction | None
    """The action before, while the transition from it is not complete."""
    scheduled: ProfilerAction
    """The schedule's action for the step; differs from `action` after a device has stopped."""


class ProfileLife:
    """The life cycle of a profile. Use from one thread at a time, except for stop()."""

    enabled: bool
    acc_events: bool
    on_trace_ready: Callable[[Any], Any] | None
    execution_trace_observer: Any
    custom_trace_id_callback: Callable[[], str] | None
    preset_metadata: dict[str, str]
    trace_id: str

    def __init__(self, schedule: Callable[[int], Any] | None) -> None:
        self.record_steps = schedule is not None
        self.schedule: Callable[[int], Any] = schedule if schedule is not None else _always
        self.step_rec_fn: Any = None
        first = as_action(self.schedule(0))
        self._position = _Position(0, first, None, first)
        self._metadata: dict[str, Any] = {}
        self._recording: Recording | None = None
        self._results: list[Result] = []
        self._all: Any = None  # the events of all results, joined on first use
        self._running = False
        self._stopping = False  # stop() has begun and has not completed
        self._ended = False
        self._was_prepared = False
        # Yields this profile once for each trace that on_trace_ready must still be called for.
        self._due: Iterator[ProfileLife] | None = None
        self._due_for: Recording | None = None
        if self.enabled:
            KinetoStepTracker.init_step_count(PROFILER_STEP)

    # Implemented by profile.
    def _current_options(self) -> Options:
        raise NotImplementedError

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON text to the exported traces; errors.ValueError if it is invalid JSON."""
        raise NotImplementedError

    @property
    def step_num(self) -> int:
        """Number of the current step, that is, of step() calls so far."""
        return self._position.step_num

    @step_num.setter
    def step_num(self, number: int) -> None:
        self._position = self._position._replace(step_num=number)

    @property
    def current_action(self) -> ProfilerAction:
        """The schedule's action for the current step."""
        return self._position.action

    @current_action.setter
    def current_action(self, action: ProfilerAction) -> None:
        self._position = self._position._replace(action=as_action(action))

    # ---- start ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with the schedule's action for the current step.

        Raises errors.StateError if the profile runs already. After any exception (KeyboardInterrupt
        included) the profile is not running and has recorded nothing.
        """
        if self._running or self._records():
            raise errors.StateError(
                "this profile is already running and is not reentrant. Stop it, or create another one."
            )
        try:
            self._running = True
            self._stopping = self._ended = False
            if not self.enabled:
                return
            opened(self)
            switch_interval.shorten(self)
            self._carry_out(ProfilerAction.NONE, self.current_action)
            self._open_step()
        except BaseException:
            self._abandon()
            raise
        finally:
            switch_interval.restore(self)

    def _abandon(self) -> None:
        self._close_step()
        if self._recording is not None:
            self._recording.abandon()
            self._recording = None
        closed(self)
        self._running = False

    # ---- stop ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the recording; call on_trace_ready if something was recorded.

        Has no effect if the profile is not running. If Ctrl-C interrupts stop(), recording has ended
        and the result is available; a second stop(), or the interpreter's exit, calls the handler. An
        exception of the handler propagates; the profile has then ended.

        Any thread: if several stop it at once, each returns after the recording has ended, and one of
        them calls the handler.

        Raises MemoryError if there is no memory for the events. They are kept: free memory, and call
        stop() again. Other parts of the end that fail are named in `missing`.
        """
        if not self._is_open():
            return
        try:
            if self.enabled:
                try:
                    self._end()
                except KeyboardInterrupt:
                    self._end()  # again from the start: completed parts are skipped
                    raise
                self._hand_over()
            self._finish()
        except BaseException:
            if self._stopping and self._recording is None and not self._is_due():
                self._finish()
            raise

    def _is_open(self) -> bool:
        """Return whether stop() has anything to do."""
        return (
            self._running
            or self._recording is not None
            or self.step_rec_fn is not None
            or self._is_due()
        )

    def _is_due(self) -> bool:
        """Return whether on_trace_ready must still be called for a trace."""
        due = self._due  # read once: another thread's stop() may remove it
        return due is not None and operator.length_hint(due) > 0

    def _records(self) -> bool:
        return self._recording is not None and self._recording.started

    def _end(self) -> None:
        """Stop recording and keep the result. A second call continues where the first was interrupted."""
        self._stopping = True
        KinetoStepTracker.erase_step_count(PROFILER_STEP)
        recording = self._recording
        if recording is not None and not recording.in_its_process:
            recording = self._recording = None  # the parent's: its records are not here
        self._close_step()
        if recording is not None:
            # The lock is the recording's, so that a forked child, which has no recording, never waits for it.
            with recording.ending:
                if self._recording is recording:  # else another thread's stop() has ended it
                    self._make_due(recording)
                    self.stop_trace()
        self._ended = True

    def _make_due(self, recording: Recording) -> None:
        if recording.started and self._due_for is not recording:
            self._due = iter((self,))
            self._due_for = recording

    def _hand_over(self) -> None:
        """Call on_trace_ready exactly once for each trace, in spite of interrupts."""
        due, handler = self._due, self.on_trace_ready
        if due is None:
            return
        if handler is None:
            self._due = None
        else:
            # One C call takes the profile from `due` and passes it to the handler: no bytecode lies
            # in between, where an interrupt could lose or repeat the call.
            next(map(handler, due), None)

    def _finish(self) -> None:
        self._due = self._due_for = None
        closed(self)
        self._ended = True
        self._running = self._stopping = False

    # ---- step ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Begin the next step of the program.

        Without start(), a profile with a schedule begins to record when the schedule says so. After
        stop(), only the step number grows. An exception of on_trace_ready propagates once the next
        step has begun.
        """
        if not self.enabled or self._stopping:
            return
        self._close_step()
        position = self._position
        scheduled = as_action(self.schedule(position.step_num + 1))  # may raise: before any change
        previous = position.came_from or position.action
        following = self._action_of_step(position, scheduled)
        self._position = _Position(position.step_num + 1, following, previous, scheduled)
        KinetoStepTracker.increment_step(PROFILER_STEP)
        if self._ended:
            self._position = _Position(position.step_num + 1, following, None, scheduled)
            return
        failure: BaseException | None = None
        try:
            failure = self._carry_out(previous, following)
        finally:
            if self._recording is not None and not self._running:
                opened(self)
        self._position = self._position._replace(came_from=None)
        self._open_step()
        if failure is not None:
            raise failure

    def _action_of_step(self, position: _Position, scheduled: ProfilerAction) -> ProfilerAction:
        """Return the action of the next step: DEVICE_STOPPED while a cycle's device has stopped.

        A device stops when there is no room for its activities. The recording then ends and is handed
        over, and the rest of the cycle is skipped, as in PyTorch.
        """
        rest_of_cycle = position.scheduled is ProfilerAction.RECORD and scheduled in _RECORDS
        if not (self.record_steps and rest_of_cycle):
            return scheduled
        if position.action is ProfilerAction.DEVICE_STOPPED:
            return position.action
        full = self._recording is not None and self._recording.devices_are_full()
        return ProfilerAction.DEVICE_STOPPED if full else scheduled

    def _open_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _close_step(self) -> None:
        step = self.step_rec_fn
        if step is not None:
            with contextlib.suppress(RuntimeError):  # not open: an interrupt, or another thread
                step.__exit__(None, None, None)
            self.step_rec_fn = None

    def _carry_out(
        self, previous: ProfilerAction, following: ProfilerAction
    ) -> BaseException | None:
        """Execute a transition of the schedule; return the handler's exception, if any, at the end.

        SystemExit and KeyboardInterrupt of the handler, too: recording must go on if the program catches them.
        """
        failure: BaseException | None = None
        names = transition(previous, following)
        for name in names:
            if name == "warn":
                warnings.warn(
                    f"Incorrect schedule: {previous.name} followed by {following.name}",
                    stacklevel=outside_level(),
                )
            elif name == "_trace_ready":
                try:
                    self._trace_ready()
                except BaseException as error:
                    if self._is_due():  # an interrupt before the call, which stop() will make
                        raise
                    failure = error
            else:
                if name == "stop_trace" and "_trace_ready" in names and self._recording is not None:
                    self._make_due(self._recording)
                getattr(self, name)()
        return failure

    def _trace_ready(self) -> None:
        self._hand_over()

    # ---- one recording -------------------------------------------------------------------------

    def prepare_trace(self) -> None:
        """Create a session and a trace id; in a warm-up step, also fault in the session's memory."""
        self.trace_id = self.create_trace_id()
        options = self._current_options()
        # Of the type: an object such as a mock has any attribute.
        keeper = getattr(type(self.on_trace_ready), "records_of", None)
        kept = None if keeper is None else keeper(self.on_trace_ready, options)
        if kept is None:
            self._recording = Recording(options, keep_file=options.keep_backing_file)
        else:
            self._recording = Recording(kept[0], more_facts=kept[1])
        self._was_prepared = True
        if self.current_action is ProfilerAction.WARMUP:
            self._recording.warm_up()

    def start_trace(self) -> None:
        """Begin to record; has no effect while recording."""
        if self._recording is None:
            self.prepare_trace()
        recording = self._recording
        assert recording is not None
        if recording.started:
            return
        for key, value in self.preset_metadata.items():
            self.add_metadata_json(key, value)
        try:
            check_observer_may_start(self.execution_trace_observer)
            recording.start()
            # Start the observer after the self-tests of torch, which it must not see.
            observer = self.execution_trace_observer
            if hasattr(observer, "start"):
                observer.start()
        except BaseException:
            recording.abandon()
            self._recording = None
            raise

    def stop_trace(self) -> None:
        """End the recording and keep its result. Has no effect when called again.

        A recording that was prepared but not started (a warm-up) is discarded, and the previous
        result stays.
        """
        recording = self._recording
        if recording is None:
            return
        if not recording.started:
            recording.abandon()
            self._recording = None
            return
        result = recording.stop(self._metadata)
        if not self._results or self._results[-1] is not result:
            self._all = None
            self._results = [*self._results, result] if self.acc_events else [result]
        observer, self._recording = self.execution_trace_observer, None
        if hasattr(observer, "stop"):
            observer.stop()

    # ---- identity ------------------------------------------------------------------------------

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Take the ids of later recordings from `callback()`; None: generate them."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """Return the id of the current or last recording; None before the first."""
        return self.trace_id if self._was_prepared else None

    def create_trace_id(self) -> str:
        """Return a new id: the callback's, or else 32 hexadecimal digits."""
        if self.custom_trace_id_callback is not None:
            return str(self.custom_trace_id_callback())
        return os.urandom(16).hex().upper()


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD
