# SPDX-License-Identifier: Apache-2.0
"""Which step of a run is profiled: ProfilerAction, schedule() and the transitions between actions."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from fastprof.base import errors
from fastprof.base.same_enum import SameEnum

__all__ = ["ProfilerAction", "Schedule", "as_action", "schedule", "transition"]


class ProfilerAction(SameEnum, enum.Enum):
    """What a profiler does during a step. Same numbers as PyTorch's."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4
    """Set by the profiler alone: the device stopped collecting; the rest of the cycle is skipped."""


Schedule: TypeAlias = Callable[[int], ProfilerAction]


class InvalidScheduleError(errors.ValueError, AssertionError):
    """Arguments of schedule() that make no sense; an AssertionError too, as in PyTorch."""


def as_action(value: Any) -> ProfilerAction:
    """A ProfilerAction from ours or PyTorch's own; errors.ValueError for what is none.

    DEVICE_STOPPED is refused as well: no schedule may ask for it.
    """
    name = getattr(value, "name", None)
    if isinstance(name, str) and name in ProfilerAction.__members__:
        action = ProfilerAction[name]
        if action is not ProfilerAction.DEVICE_STOPPED:
            return action
    known = "NONE, WARMUP, RECORD or RECORD_AND_SAVE"
    raise errors.ValueError(f"a schedule must return a ProfilerAction ({known}), not {value!r}")


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Schedule:
    """A function from step number (from 0) to action: cycles of wait, warmup, active steps.

    The first `skip_first` steps are none of any cycle. `repeat`: number of cycles, 0 for no end.
    `skip_first_wait` not 0: the first cycle leaves its wait out. Raises an error that is both a
    ValueError and an AssertionError for negative numbers and for active < 1; warns when warmup is
    0, because first steps are often slower than later ones.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise InvalidScheduleError(
            f"schedule(wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
            f"skip_first={skip_first}): active must be at least 1 and the others at least 0"
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

# (previous, next) -> what is done in between; next None: the profiler is stopped.
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
    """Names of the profiler's methods to call, in order, between two steps' actions.

    "warn" stands for a warning that the schedule makes no sense. `following` None: the end.
    The device cannot stop outside a recording; such a transition raises errors.StateError.
    """
    steps = _TRANSITIONS.get((previous, following))
    if steps is None:
        raise errors.StateError(
            f"the profiler cannot go from {previous} to {following}: please report this"
        )
    return steps
