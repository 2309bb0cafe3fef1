# SPDX-License-Identifier: Apache-2.0
"""Every name of torch.profiler and torch.autograd.profiler exists here; using an unsupported one raises an error."""

from __future__ import annotations

import sys
import textwrap
import threading
from typing import Any

import pytest
from processes import python

import fastprof
from fastprof import errors
from fastprof.profiler import step_tracker
from fastprof.profiler.step_tracker import KinetoStepTracker

# __all__ of both modules in PyTorch 2.13, and other names that scripts import.
NAMES = [
    "profile", "schedule", "supported_activities", "tensorboard_trace_handler",
    "ProfilerAction", "ProfilerActivity", "kineto_available", "DeviceType", "record_function",
    "ExecutionTraceObserver", "itt", "emit_itt", "emit_nvtx", "load_nvprof", "EnforceUnique",
    "parse_nvprof_trace", "KinetoStepTracker", "EventList", "FunctionEvent", "MemRecordsAcc",
    "RecordScope", "Kernel", "Interval", "StringTable", "FunctionEventAvg", "_KinetoProfile",
    "_ExperimentalConfig", "_RecordFunctionFast",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_name_is_here(name: str) -> None:
    assert getattr(fastprof, name) is not None
    assert name in fastprof.__all__


@pytest.mark.integrations
def test_no_name_of_torch_is_missing() -> None:
    torch_profiler = pytest.importorskip("torch.profiler")
    autograd_profiler = pytest.importorskip("torch.autograd.profiler")
    theirs = {*torch_profiler.__all__, *autograd_profiler.__all__}
    assert [name for name in sorted(theirs) if not hasattr(fastprof, name)] == []
    for name, value in torch_profiler.RecordScope.__members__.items():
        assert fastprof.RecordScope[name].value == int(value)


@pytest.mark.integrations
def test_enums_equal_torchs() -> None:
    torch_profiler = pytest.importorskip("torch.profiler")
    for name in ("DeviceType", "ProfilerActivity", "ProfilerAction"):
        ours, theirs = getattr(fastprof, name), getattr(torch_profiler, name)
        common = ours.__members__.keys() & theirs.__members__.keys()
        assert len(common) >= 4
        for member in common:
            values = theirs.__members__.items()
            assert {other for other, value in values if ours[member] == value} == {member}
            assert {other for other, value in values if ours[member] != value} == (
                theirs.__members__.keys() - {member}
            )
    assert torch_profiler.ProfilerActivity.CPU in fastprof.supported_activities()
    assert torch_profiler.ProfilerActivity.CUDA not in fastprof.supported_activities()


def test_enums_keep_their_own_ways() -> None:
    assert fastprof.DeviceType.CUDA == 1 and fastprof.DeviceType.CUDA != 2
    assert {1: "x"}[fastprof.DeviceType.CUDA] == "x"
    assert fastprof.ProfilerActivity.CPU != 0 and fastprof.ProfilerActivity.CPU != "CPU"
    assert fastprof.ProfilerAction.RECORD != fastprof.ProfilerActivity.CUDA
    assert len(set(fastprof.ProfilerAction)) == 5


@pytest.mark.integrations
def test_experimental_config_has_torchs_fields() -> None:
    torch = pytest.importorskip("torch")
    theirs: Any = torch._C._profiler._ExperimentalConfig(verbose=True, profile_all_threads=True)
    ours = fastprof._ExperimentalConfig(verbose=True, profile_all_threads=True)
    for config in (ours, theirs):
        with fastprof.profile(experimental_config=config) as p:
            with fastprof.record_function("x"):
                pass
        assert [e.name for e in p.events()] == ["x"]
    assert torch._C._profiler._ExperimentalConfig(*vars(ours).values()).trace_only is False


def test_execution_traces_and_nvprof_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    observer = fastprof.ExecutionTraceObserver()
    with fastprof.profile(execution_trace_observer=observer):
        pass
    with pytest.raises(errors.UnavailableError, match="execution traces"):
        observer.register_callback("x.json")
    monkeypatch.delenv("ENABLE_PYTORCH_EXECUTION_TRACE", raising=False)
    assert observer.build_execution_trace_obs_from_env() is None
    with pytest.raises(errors.IoError):
        fastprof.load_nvprof("x.db")
    unique = fastprof.EnforceUnique()
    unique.see(1, "a")
    with pytest.raises(RuntimeError, match="twice"):
        unique.see(1, "a")


def test_fast_ranges_are_ranges() -> None:
    again = fastprof._RecordFunctionFast("again", [1], {"grid": 2, "scope": "user_scope"})
    with fastprof.profile() as p:
        for _ in range(2):
            with again:
                pass
    assert [(e.name, e.kwinputs) for e in p.events()] == [("again", {"grid": 2})] * 2


def test_steps_of_the_process() -> None:
    start = KinetoStepTracker.current_step()
    KinetoStepTracker.init_step_count("a")
    assert KinetoStepTracker.increment_step("a") == start + 1
    assert KinetoStepTracker.increment_step("b") == start + 2  # begins at the current step
    assert KinetoStepTracker.increment_step("a") == start + 2
    counts = step_tracker._counts()
    counts._step_dict["a"] += 2
    with pytest.warns(UserWarning, match="grew by 3"):
        KinetoStepTracker.increment_step("a")
    counts._step_dict["a"] += 1
    with pytest.warns(UserWarning, match="grew by 2"):
        KinetoStepTracker.increment_step("a")
    assert KinetoStepTracker.current_step() == start + 7
    assert KinetoStepTracker.erase_step_count("a") and not KinetoStepTracker.erase_step_count("a")
    KinetoStepTracker.erase_step_count("b")
    threads = [
        threading.Thread(target=lambda: [KinetoStepTracker.increment_step("c") for _ in range(500)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert KinetoStepTracker.current_step() == start + 2007
    KinetoStepTracker.erase_step_count("c")


@pytest.mark.integrations
def test_steps_are_counted_together_with_torch() -> None:
    code = """
        import fastprof
        from fastprof.profiler.step_tracker import PROFILER_STEP
        ours = fastprof.KinetoStepTracker
        p = fastprof.profile(schedule=fastprof.schedule(wait=1, warmup=1, active=1))
        p.step()
        from torch.autograd.profiler import KinetoStepTracker as theirs
        assert ours.current_step() == theirs.current_step() == 1
        p.step()
        theirs.increment_step("Optimizer")   # begins at 2
        assert ours.current_step() == theirs.current_step() == 3
        p.step()
        assert ours.current_step() == theirs.current_step() == 3
        assert theirs._step_dict == {PROFILER_STEP: 3, "Optimizer": 3}
        assert ours.erase_step_count("Optimizer") and not theirs.erase_step_count("Optimizer")
    """
    pytest.importorskip("torch")
    python("-c", textwrap.dedent(code), check=True)
