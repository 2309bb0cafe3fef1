# SPDX-License-Identifier: Apache-2.0
"""Select the steps to profile: ProfilerAction, schedule() and the transitions between actions."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from fastprof.base import errors
from fastprof.base.same_enum import SameEnum

__all__ = ["ProfilerAction", "Schedule", "as_action", "schedule", "transition"]


class ProfilerAction(SameEnum, enum.Enum):
    """What a profile does during a step. Values are PyTorch's."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4
    """Set by the profiler alone: the device stopped collecting; the rest of the cycle is skipped."""


Schedule: TypeAlias = Callable[[int], ProfilerAction]


class InvalidScheduleError(errors.ValueError, AssertionError):
    """Invalid arguments of schedule(); an AssertionError too, as in PyTorch."""


def as_action(value: Any) -> ProfilerAction:
    """Convert to a ProfilerAction from ours or PyTorch's; errors.ValueError for any other value.

    DEVICE_STOPPED is rejected too: only the profiler sets it.
    """
    name = getattr(value, "name", None)
    if isinstance(name, str) and name in ProfilerAction.__members__:
        action = ProfilerAction[name]
        if action is not ProfilerAction.DEVICE_STOPPED:
            return action
    known = "NONE, WARMUP, RECORD or RECORD_AND_SAVE"
    raise errors.ValueError(
        f"a schedule must return a ProfilerAction ({known}), but this one returned {value!r}"
    )


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Schedule:
    """Return a function from step number (from 0) to action: cycles of wait, warmup, active steps.

    wait, warmup, active: lengths of the phases of a cycle, in steps. repeat: number of cycles; 0: no
    end. skip_first: steps before the first cycle. skip_first_wait: if not 0, the first cycle has no
    wait phase.

    Raises an error that is both a ValueError and an AssertionError for negative numbers and for
    active < 1. Warns if warmup is 0, because the first steps are often slower than later ones.

        with fastprof.profile(schedule=fastprof.schedule(wait=5, warmup=1, active=3)) as prof:
            for batch in data:
                train(batch)
                prof.step()

    Any thread.
    """
    try:
        wrong = min(wait, warmup, repeat, skip_first) < 0 or active < 1
        numbers = (wait, warmup, active, repeat, skip_first, skip_first_wait)
        wrong = wrong or any(number != int(number) for number in numbers)
    except (TypeError, ValueError, OverflowError):  # not numbers; nan, infinity
        wrong = True
    if wrong:
        raise InvalidScheduleError(
            f"schedule(wait={wait!r}, warmup={warmup!r}, active={active!r}, repeat={repeat!r}, "
            f"skip_first={skip_first!r}): active must be at least 1 and the others at least 0, in whole steps"
        )
    if warmup == 0:
        warnings.warn(
            "the schedule has no warmup step: the first recorded step may be slower than usual",
            stacklevel=2,
        )
    length = wait + warmup + active

    def action_of(step: int) -> ProfilerAction:
        if step < 0:
            raise InvalidScheduleError(f"the step must be at least 0, not {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        cycle, within = divmod(step, length)
        if within < wait or 0 < repeat <= cycle:
            return ProfilerAction.NONE
        if within < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if within == length - 1 else ProfilerAction.RECORD

    return action_of


_N, _W, _R, _S = (
    ProfilerAction.NONE,
    ProfilerAction.WARMUP,
    ProfilerAction.RECORD,
    ProfilerAction.RECORD_AND_SAVE,
)
_D = ProfilerAction.DEVICE_STOPPED

# (previous, next) -> methods to call in between; next None: the profile is stopped.
_TRANSITIONS: dict[tuple[ProfilerAction, ProfilerAction | None], tuple[str, ...]] = {
    (_N, _N): (),
    (_N, _W): ("prepare_trace",),
    (_N, _R): ("prepare_trace", "start_trace"),
    (_N, _S): ("prepare_trace", "start_trace"),
    (_W, _N): ("warn", "start_trace", "stop_trace"),
    (_W, _W): (),
    (_W, _R): ("start_trace",),
    (_W, _S): ("start_trace",),
    (_W, _D): ("start_trace", "stop_trace", "_trace_ready"),
    (_R, _N): ("warn", "stop_trace"),
    (_R, _W): ("warn", "stop_trace"),
    (_R, _R): (),
    (_R, _S): (),
    (_R, _D): ("stop_trace", "_trace_ready"),
    (_S, _N): ("stop_trace", "_trace_ready"),
    (_S, _W): ("stop_trace", "_trace_ready", "prepare_trace"),
    (_S, _R): ("stop_trace", "_trace_ready", "prepare_trace", "start_trace"),
    (_S, _S): ("stop_trace", "_trace_ready", "prepare_trace", "start_trace"),
    (_D, _N): (),
    (_D, _W): ("prepare_trace",),
    (_D, _R): ("prepare_trace", "start_trace"),
    (_D, _S): ("prepare_trace", "start_trace"),
    (_D, _D): (),
    (_N, None): (),
    (_W, None): ("start_trace", "stop_trace"),
    (_R, None): ("stop_trace", "_trace_ready"),
    (_S, None): ("stop_trace", "_trace_ready"),
    (_D, None): (),
}


def transition(previous: ProfilerAction, following: ProfilerAction | None) -> tuple[str, ...]:
    """Return the names of the profiler's methods to call, in order, between two steps' actions.

    "warn": warn that the schedule is inconsistent. following: None at the end.
    Raises errors.StateError for a device stop outside a recording.
    """
    steps = _TRANSITIONS.get((previous, following))
    if steps is None:
        raise errors.StateError(
            f"invalid change of action from {previous} to {following}: this is a bug in fastprof, "
            "please report it"
        )
    return steps
