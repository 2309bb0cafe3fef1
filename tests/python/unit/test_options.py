# SPDX-License-Identifier: Apache-2.0
"""make_options: the result of each argument alone and with others, and the first value of each that is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof import ProfilerActivity, errors
from fastprof.profiler.options import OVERFLOW_POLICIES, Options, make_options

DEFAULTS: dict[str, Any] = {
    "activities": None,
    "activity_filters": None,
    "use_cpu": True,
    "use_cuda": None,
    "use_device": None,
    "use_kineto": True,
    "record_shapes": False,
    "profile_memory": False,
    "memory_attribution": "innermost",
    "with_stack": False,
    "with_flops": False,
    "with_modules": False,
    "experimental_config": None,
    "execution_trace_observer": None,
    "acc_events": False,
    "all_threads": None,
    "max_bytes": 0,
    "max_name_bytes": 0,
    "overflow": "drop_newest",
}


def options(**changes: Any) -> Options:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_options(**(DEFAULTS | changes))


def test_bounds_are_0_or_at_least_64_kb() -> None:
    for name in ("max_bytes", "max_name_bytes"):
        assert getattr(options(**{name: 65536}), name) == 65536
        for wrong in (65535, 1, -1):
            with pytest.raises(errors.ValueError, match=f"{name} must be at least 65536 .*{wrong}"):
                options(**{name: wrong})


def test_what_happens_when_memory_is_full(tmp_path: Path) -> None:
    for name, number in OVERFLOW_POLICIES.items():
        assert options(overflow=name).overflow == number
    assert sorted(OVERFLOW_POLICIES.values()) == [0, 1, 2]
    assert options(overflow="spill", spill_folder=tmp_path).spill_folder == str(tmp_path)
    with pytest.raises(errors.ValueError, match="unknown overflow policy 'wait'"):
        options(overflow="wait")
    with pytest.raises(errors.ValueError, match="spill_folder has no effect without"):
        options(spill_folder=tmp_path)


def test_devices() -> None:
    for how in ({"use_cuda": True}, {"use_device": "cuda"}, {"use_device": "CUDA:1"}):
        given = options(**how)
        assert given.asked == {ProfilerActivity.CPU, ProfilerActivity.CUDA}
        if ProfilerActivity.CUDA not in given.activities:
            assert given.use_device is None and "CUDA" in given.missing
    assert options(use_device="cpu").asked == {ProfilerActivity.CPU}
    asked = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    assert options(activities=asked, use_cuda=False).asked == {ProfilerActivity.CPU}
    assert options(activities=asked).asked == set(asked)
    with pytest.raises(errors.UnavailableError, match="no activities to record"):
        options(use_cpu=False)


def test_an_observer_without_methods_is_reported() -> None:
    class Observer:
        def start(self) -> None: ...

    assert "execution_trace_observer" not in options(execution_trace_observer=Observer()).missing
    missing = options(execution_trace_observer=object()).missing
    assert "no methods start() and stop()" in missing["execution_trace_observer"]


def test_cuda_that_can_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastprof.base.native_numbers import Category
    from fastprof.profiler import options as module

    monkeypatch.setattr(
        module,
        "missing_reason",
        lambda activity: None if activity.name in ("CPU", "CUDA") else "no",
    )
    given = options()
    assert (
        given.activities == {ProfilerActivity.CPU, ProfilerActivity.CUDA}
        and given.use_device == "cuda"
    )
    types = given.device_types["CUDA"]
    assert types and "cuda_sync" not in types
    both = int(Category.RUNTIME | Category.DEVICE)
    assert given.categories & both == both
    waits = fastprof._ExperimentalConfig(enable_cuda_sync_events=True)
    with_waits = options(experimental_config=waits)
    assert "cuda_sync" in with_waits.device_types["CUDA"]
    assert "enable_cuda_sync_events" not in with_waits.missing
    without = options(use_cuda=False, experimental_config=waits)
    assert without.activities == {ProfilerActivity.CPU} and without.device_types == {}
    assert without.use_device is None and "enable_cuda_sync_events" in without.missing
    alone = options(use_cpu=False)
    assert alone.activities == {ProfilerActivity.CUDA}
    assert alone.categories & ~both & int(Category.MEMORY | Category.PYTHON_CALL) == 0
    with pytest.raises(
        errors.UnavailableError, match="none of the activities XPU can be recorded here: no"
    ):
        options(activities=[ProfilerActivity.XPU])


def test_native_frames_imply_stacks() -> None:
    assert options(native=True) == options(native=True, with_stack=True)


def test_values_of_the_wrong_kind() -> None:
    for wrong in ("yes", 3, object()):
        with pytest.raises(
            errors.ValueError, match="python_calls must be True, False or a CallFilter"
        ):
            options(python_calls=wrong)
    for wrong_counters in ("cycles", [1]):
        with pytest.raises(errors.ValueError, match="counters must be a list of names"):
            options(counters=wrong_counters)
