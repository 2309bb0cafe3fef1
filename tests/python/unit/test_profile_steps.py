# SPDX-License-Identifier: Apache-2.0
"""profile(): schedules, steps, handlers of finished traces, observers, pauses."""

from __future__ import annotations

from typing import Any

import pytest

import fastprof
from fastprof import ProfilerAction, errors, record_function, schedule


def names(profile: fastprof.profile) -> list[str]:
    return [event.trace_name for event in profile.events()]


def test_a_refused_action_changes_nothing() -> None:
    actions: list[Any] = [ProfilerAction.RECORD, "nonsense", ProfilerAction.RECORD]
    p = fastprof.profile(schedule=lambda step: actions[step])
    with p:
        with pytest.raises(errors.ValueError, match="must return a ProfilerAction"):
            p.step()
        assert p.step_num == 0 and p.current_action is ProfilerAction.RECORD
    with pytest.raises(errors.ValueError):
        fastprof.profile(schedule=lambda step: ProfilerAction.DEVICE_STOPPED)


def test_stop_during_warmup_is_empty_and_record_calls_the_handler() -> None:
    called: list[int] = []
    p = fastprof.profile(
        schedule=schedule(wait=0, warmup=2, active=1), on_trace_ready=lambda p: called.append(1)
    )
    with p, record_function("x"):
        pass
    assert len(p.events()) == 0 and called == []
    with fastprof.profile(on_trace_ready=lambda p: called.append(len(p.events()))):
        with record_function("x"):
            pass
    assert called == [1]


def test_handler_failure_reaches_the_caller_but_not_over_the_blocks_error() -> None:
    def fail(p: fastprof.profile) -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"), fastprof.profile(on_trace_ready=fail):
        pass
    with pytest.warns(UserWarning, match="could not be finished") as told:
        with pytest.raises(KeyError), fastprof.profile(on_trace_ready=fail):
            raise KeyError("mine")
    assert told[0].filename == __file__


def test_step_numbers_go_on_over_stop_and_start() -> None:
    p = fastprof.profile(schedule=lambda step: ProfilerAction.RECORD)
    for _ in range(2):
        p.start()
        p.step()
        p.stop()
    assert p.step_num == 2


def test_toggling_collection() -> None:
    with fastprof.profile() as p:
        for name, change in (("a", None), ("b", False), ("c", True)):
            if change is not None:
                p.toggle_collection_dynamic(change, [fastprof.ProfilerActivity.CPU])
            with record_function(name):
                pass
    assert names(p) == ["a", "c"]
    with pytest.raises(errors.StateError, match="while the profile records"):
        p.toggle_collection_dynamic(False, ["CPU"])
