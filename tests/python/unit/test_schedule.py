# SPDX-License-Identifier: Apache-2.0
"""schedule(), and the transitions from one action of a profiler to the next."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest

import fastprof
from fastprof import ProfilerAction, errors
from fastprof.profiler.step_schedule import as_action, transition

NONE, WARMUP, RECORD, SAVE = list(ProfilerAction)[:4]
LETTERS = {NONE: ".", WARMUP: "w", RECORD: "r", SAVE: "S"}


def text(function: object, steps: int) -> str:
    assert callable(function)
    return "".join(LETTERS[function(step)] for step in range(steps))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"wait": 1, "warmup": 1, "active": 2}, ".wrS.wrS.wrS"),
        ({"wait": 1, "warmup": 1, "active": 1, "repeat": 2}, ".wS.wS......"),
        ({"wait": 0, "warmup": 1, "active": 1, "skip_first": 3}, "...wSwSwSwSw"),
        ({"wait": 3, "warmup": 1, "active": 1, "skip_first": 1}, "....wS...wS."),
        (
            {"wait": 3, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1},
            ".wS...wS...w",
        ),
        ({"wait": 2, "warmup": 1, "active": 1, "repeat": 1, "skip_first_wait": 1}, "wS.........."),
    ],
)
def test_cycles(arguments: dict[str, int], expected: str) -> None:
    assert text(fastprof.schedule(**arguments), len(expected)) == expected


@pytest.mark.integrations
def test_same_actions_as_pytorch() -> None:
    torch_profiler = pytest.importorskip("torch.profiler")
    for wait, warmup, active, repeat, skip, skip_wait in itertools.product(
        (0, 1, 3), (1, 2), (1, 2), (0, 1, 2), (0, 2), (0, 1)
    ):
        arguments = {
            "wait": wait,
            "warmup": warmup,
            "active": active,
            "repeat": repeat,
            "skip_first": skip,
            "skip_first_wait": skip_wait,
        }
        ours, theirs = fastprof.schedule(**arguments), torch_profiler.schedule(**arguments)
        for step in range(30):
            assert ours(step).name == theirs(step).name, (arguments, step)


@pytest.mark.parametrize(
    "wrong",
    [
        {"wait": -1},
        {"warmup": -1},
        {"active": 0},
        {"repeat": -1},
        {"skip_first": -1},
        {"wait": "1"},
        {"wait": 1.5},
        {"skip_first_wait": float("nan")},
    ],
)
def test_wrong_arguments_are_both_kinds_of_error(wrong: dict[str, Any]) -> None:
    arguments = {"wait": 1, "warmup": 1, "active": 1, **wrong}
    for kind in (errors.ValueError, AssertionError, ValueError):
        with pytest.raises(kind, match="active must be at least 1"):
            fastprof.schedule(**arguments)


def test_no_warmup_warns() -> None:
    with pytest.warns(UserWarning, match="no warmup") as told:
        fastprof.schedule(wait=1, warmup=0, active=1)
    assert told[0].filename == __file__


def test_negative_step() -> None:
    with pytest.raises(AssertionError, match="at least 0"):
        fastprof.schedule(wait=1, warmup=1, active=1)(-1)


@pytest.mark.integrations
def test_transitions_are_those_of_pytorch() -> None:
    """Compare the whole table with the action map of PyTorch's profiler."""
    torch_profiler = pytest.importorskip("torch.profiler")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch_profiler.profile(activities=[torch_profiler.ProfilerActivity.CPU]).action_map
    checked = 0
    for (previous, following), calls in theirs.items():
        names = [getattr(call, "__name__", "warn") for call in calls]
        ours_previous = ProfilerAction[previous.name]
        ours_following = None if following is None else ProfilerAction[following.name]
        if "DEVICE_STOPPED" in (
            (ours_following and ours_following.name) or ""
        ) and previous.name in ("NONE", "RECORD_AND_SAVE"):
            with pytest.raises(errors.StateError):
                transition(ours_previous, ours_following)
            continue
        assert list(transition(ours_previous, ours_following)) == names, (previous, following)
        checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("following", "calls"),
    [
        (ProfilerAction.NONE, ()),
        (ProfilerAction.WARMUP, ("prepare_trace",)),
        (ProfilerAction.RECORD, ("prepare_trace", "start_trace")),
        (ProfilerAction.RECORD_AND_SAVE, ("prepare_trace", "start_trace")),
        (ProfilerAction.DEVICE_STOPPED, ()),
        (None, ()),
    ],
)
def test_what_follows_a_device_stop(
    following: ProfilerAction | None, calls: tuple[str, ...]
) -> None:
    assert transition(ProfilerAction.DEVICE_STOPPED, following) == calls


def test_as_action_refuses_what_no_schedule_may_return() -> None:
    assert as_action(RECORD) is RECORD
    for wrong in (ProfilerAction.DEVICE_STOPPED, None, 3):
        with pytest.raises(errors.ValueError, match=r"\(NONE, WARMUP, RECORD or RECORD_AND_SAVE\)"):
            as_action(wrong)


def traces_of(actions: list[ProfilerAction]) -> tuple[list[list[str]], list[str]]:
    """Return the steps in each trace that the handler gets, and the warnings, for a list with one action per step."""
    traces: list[list[str]] = []

    def ready(prof: fastprof.profile) -> None:
        traces.append([event.name for event in prof.events() if event.name.startswith("s")])

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with fastprof.profile(
            schedule=lambda step: actions[min(step, len(actions) - 1)], on_trace_ready=ready
        ) as prof:
            for step in range(len(actions)):
                with fastprof.record_function(f"s{step}"):
                    pass
                if step < len(actions) - 1:
                    prof.step()
    return traces, [str(warning.message) for warning in found]


@pytest.mark.parametrize("actions", list(itertools.product((NONE, WARMUP, RECORD, SAVE), repeat=3)))
def test_what_is_recorded_and_handed_over(actions: tuple[ProfilerAction, ...]) -> None:
    """RECORD and SAVE steps are recorded; a trace ends with SAVE or with the profile, or is lost with a warning."""
    expected: list[list[str]] = []
    warned = []
    recorded: list[str] = []
    for step, (action, following) in enumerate(zip(actions, [*actions[1:], None], strict=True)):
        if action in (RECORD, SAVE):
            recorded.append(f"s{step}")
        if action is SAVE or (action is RECORD and following is None):
            expected.append(recorded)
            recorded = []
        elif action in (WARMUP, RECORD) and following is NONE:
            warned.append(f"Incorrect schedule: {action.name} followed by NONE")
            recorded = []
        elif action is RECORD and following is WARMUP:
            warned.append("Incorrect schedule: RECORD followed by WARMUP")
            recorded = []
    assert traces_of(list(actions)) == (expected, warned)
