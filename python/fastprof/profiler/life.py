# SPDX-License-Identifier: Apache-2.0
"""ProfileLife: start(), step() and stop() of a profile, each of which may be interrupted anywhere.

A KeyboardInterrupt can be raised between any two bytecodes. So every part of an end can be run twice
(it looks at what is there, and its effect is one call into C or one assignment), and a profile counts
as running until its end is complete: stop() called again goes on where the first was broken off.
"""

from __future__ import annotations

import contextlib
import operator
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fastprof._core import record_function
from fastprof.base import errors
from fastprof.profiler.lifecycle import closed, opened
from fastprof.profiler.options import Options, outside_level
from fastprof.profiler.recording import Recording, Result
from fastprof.profiler.step_schedule import ProfilerAction, as_action, transition
from fastprof.profiler.step_tracker import PROFILER_STEP, KinetoStepTracker

__all__ = ["ProfileLife"]


class _Position(NamedTuple):
    """Where a profile is in its schedule. One object, so that its fields change together."""

    step_num: int
    action: ProfilerAction
    came_from: ProfilerAction | None
    """The action before, while the transition from it is not complete."""


class ProfileLife:
    """What profile does over time. One thread at a time."""

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
        self._position = _Position(0, as_action(self.schedule(0)), None)
        self._metadata: dict[str, Any] = {}
        self._recording: Recording | None = None
        self._results: list[Result] = []
        self._all: Any = None  # the events of all results, made when asked for
        self._running = False
        self._stopping = False  # stop() has begun, and has not finished
        self._ended = False
        self._was_prepared = False
        # Yields this profile once for each trace that on_trace_ready is to be called for.
        self._due: Iterator[ProfileLife] | None = None
        self._due_for: Recording | None = None
        if self.enabled:
            KinetoStepTracker.init_step_count(PROFILER_STEP)

    # For the parts of profile.
    def _current_options(self) -> Options:
        raise NotImplementedError

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a JSON text into the exported traces; errors.ValueError when it is none."""
        raise NotImplementedError

    @property
    def step_num(self) -> int:
        """Number of the current step: of calls of step()."""
        return self._position.step_num

    @step_num.setter
    def step_num(self, number: int) -> None:
        self._position = self._position._replace(step_num=number)

    @property
    def current_action(self) -> ProfilerAction:
        """What the schedule says for the current step."""
        return self._position.action

    @current_action.setter
    def current_action(self, action: ProfilerAction) -> None:
        self._position = self._position._replace(action=as_action(action))

    # ---- start ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with the schedule's action for the current step. errors.StateError when it runs.

        After an exception (KeyboardInterrupt included) it does not run, and nothing is recorded.
        """
        if self._running or self._records():
            raise errors.StateError(
                "this profile runs already and is not reentrant: stop it, or make another one"
            )
        try:
            self._running = True
            self._stopping = self._ended = False
            if not self.enabled:
                return
            opened(self)
            self._carry_out(ProfilerAction.NONE, self.current_action)
            self._open_step()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        self._close_step()
        if self._recording is not None:
            self._recording.abandon()
            self._recording = None
        closed(self)
        self._running = False

    # ---- stop ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """End; calls on_trace_ready when something was recorded. Nothing when it does not run.

        If an interrupt (Ctrl-C) breaks it off, recording has ended nevertheless and the result is
        there; call it again, or leave it to the interpreter's exit, for the handler. An exception of
        the handler passes through; the profile has then ended.
        """
        if not self._is_open():
            return
        try:
            if self.enabled:
                try:
                    self._end()
                except KeyboardInterrupt:
                    self._end()  # once more from the start: what has been done is left out
                    raise
                self._hand_over()
            self._finish()
        except BaseException:
            if self._stopping and self._recording is None and not self._is_due():
                self._finish()
            raise

    def _is_open(self) -> bool:
        """Whether stop() has anything to do."""
        return (
            self._running
            or self._recording is not None
            or self.step_rec_fn is not None
            or self._is_due()
        )

    def _is_due(self) -> bool:
        """Whether a trace is to be handed over to on_trace_ready."""
        return self._due is not None and operator.length_hint(self._due) > 0

    def _records(self) -> bool:
        return self._recording is not None and self._recording.started

    def _end(self) -> None:
        """Stop recording and keep the result. Called again: goes on where it was broken off."""
        self._stopping = True
        KinetoStepTracker.erase_step_count(PROFILER_STEP)
        recording = self._recording
        if recording is not None and not recording.in_its_process:
            self._recording = None  # the parent's: its records are not here
        self._close_step()
        if self._recording is not None:
            self._make_due(self._recording)
            self.stop_trace()
        self._ended = True

    def _make_due(self, recording: Recording) -> None:
        if recording.started and self._due_for is not recording:
            self._due = iter((self,))
            self._due_for = recording

    def _hand_over(self) -> None:
        """Call on_trace_ready, once for each trace, whatever interrupts it."""
        due, handler = self._due, self.on_trace_ready
        if due is None:
            return
        if handler is None:
            self._due = None
        else:
            # One call into C takes the profile from `due` and calls the handler with it: between
            # the two lies no bytecode, where an interrupt could lose the call or repeat it.
            next(map(handler, due), None)

    def _finish(self) -> None:
        self._due = self._due_for = None
        closed(self)
        self._ended = True
        self._running = self._stopping = False

    # ---- step ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Begin the next step of the program.

        Without start(), a profile with a schedule records from here on when its schedule says so.
        After stop(), it only counts. An exception of on_trace_ready passes through when the next
        step has begun.
        """
        if not self.enabled or self._stopping:
            return
        self._close_step()
        position = self._position
        following = as_action(self.schedule(position.step_num + 1))  # before anything is changed
        previous = position.came_from or position.action
        self._position = _Position(position.step_num + 1, following, previous)
        KinetoStepTracker.increment_step(PROFILER_STEP)
        if self._ended:
            self._position = _Position(position.step_num + 1, following, None)
            return
        failure: Exception | None = None
        try:
            failure = self._carry_out(previous, following)
        finally:
            if self._recording is not None and not self._running:
                opened(self)
        self._position = self._position._replace(came_from=None)
        self._open_step()
        if failure is not None:
            raise failure

    def _open_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _close_step(self) -> None:
        if self.step_rec_fn is not None:
            with contextlib.suppress(RuntimeError):  # not open: an interrupt came in between
                self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _carry_out(self, previous: ProfilerAction, following: ProfilerAction) -> Exception | None:
        """Do what the transition asks for; returns what the handler raised, when all is done."""
        failure: Exception | None = None
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
                except Exception as error:
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
        """Make a session ready and give the trace its id; in a warm-up step, fault its memory in."""
        self.trace_id = self.create_trace_id()
        self._recording = Recording(self._current_options())
        self._was_prepared = True
        if self.current_action is ProfilerAction.WARMUP:
            self._recording.warm_up()

    def start_trace(self) -> None:
        """Begin to record."""
        if self._recording is None:
            self.prepare_trace()
        recording = self._recording
        assert recording is not None
        if recording.started:
            return
        for key, value in self.preset_metadata.items():
            self.add_metadata_json(key, value)
        try:
            recording.start()
            # After the self-tests of torch, which the observer must not see.
            observer = self.execution_trace_observer
            if hasattr(observer, "start"):
                observer.start()
        except BaseException:
            recording.abandon()
            self._recording = None
            raise

    def stop_trace(self) -> None:
        """End the recording and keep its result. Called again: no effect.

        One that was prepared and not started (a warm-up) is dropped: the result before it stays.
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
        """From the next recording on, its id is what `callback()` returns."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """Id of the current or last recording; None before the first."""
        return self.trace_id if self._was_prepared else None

    def create_trace_id(self) -> str:
        """A new id for a recording: the callback's, else 32 hexadecimal digits."""
        if self.custom_trace_id_callback is not None:
            return str(self.custom_trace_id_callback())
        return os.urandom(16).hex().upper()


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD
