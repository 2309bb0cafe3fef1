# SPDX-License-Identifier: Apache-2.0
"""Collecting what devices do, on stand-ins for native collections and for torch: order, errors, problems."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastprof import ProfilerActivity, _core, errors
from fastprof.profiler.device_collections import DeviceCollections
from fastprof.record import cuda
from fastprof.record.devices import Device


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What happened, in order."""
    happened: list[Any] = []

    class Collection:
        def __init__(self, name: str, types: list[str]) -> None:
            if name == "absent":
                raise errors.UnavailableError("no such device")
            self.name = name
            happened.append(("begin", name, types))

        def end(self) -> list[str]:
            happened.append(("end", self.name))
            return ["buffers were lost"] if self.name == "first" else []

        def collect_so_far(self) -> list[str]:
            happened.append(("so far", self.name))
            return ["a buffer was lost", "another, too"] if self.name == "first" else []

        def abandon(self) -> None:
            happened.append(("abandon", self.name))

    monkeypatch.setattr(_core, "DeviceCollection", Collection)
    return happened


def made(log: list[Any]) -> DeviceCollections:
    types = {"first": ("kernel", "copy"), "absent": (), "second": ()}
    return DeviceCollections(types, lambda name, what: log.append(("tell", name, what)))  # type: ignore[arg-type]


def test_collections_begin_end_and_are_handed_over(
    log: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    devices = SimpleNamespace(
        is_initialized=lambda: True, device_count=lambda: 2, synchronize=waits.append
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=devices))  # type: ignore[arg-type]
    session = SimpleNamespace(add_activities=lambda each: log.append(("added", each.name)))
    collections = made(log)
    collections.begin()
    assert log == [
        ("begin", "first", ["kernel", "copy"]), ("tell", "absent", "no such device"), ("begin", "second", []),
    ]  # fmt: skip
    log.clear()
    collections.end(session)  # type: ignore[arg-type]
    assert log == [
        ("end", "first"), ("tell", "first", "buffers were lost"), ("added", "first"),
        ("end", "second"), ("added", "second"),
    ]  # fmt: skip
    assert waits == [0, 1]
    log.clear()
    collections.end(session)  # type: ignore[arg-type]
    collections.abandon()
    assert log == [] and waits == [0, 1]  # nothing is left


def test_activities_that_are_handed_over_while_the_session_runs(log: list[Any]) -> None:
    session = SimpleNamespace(add_activities=lambda each: log.append(("added", each.name)))
    collections = made(log)
    collections.begin()
    for _ in range(2):
        log.clear()
        collections.hand_over(session)  # type: ignore[arg-type]
        assert log == [
            ("so far", "first"), ("tell", "first", "a buffer was lost; another, too"), ("added", "first"),
            ("so far", "second"), ("added", "second"),
        ]  # fmt: skip
    collections.abandon()


def test_collections_that_are_abandoned(log: list[Any]) -> None:
    collections = made(log)
    collections.begin()
    log.clear()
    collections.abandon()
    assert sorted(log) == [("abandon", "first"), ("abandon", "second")]
    collections.abandon()
    assert len(log) == 2


@pytest.mark.parametrize(
    "torch",
    [None, SimpleNamespace(), SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))],
)
def test_torch_is_waited_for_only_if_it_uses_cuda(
    log: list[Any], monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    collections = made(log)
    collections.begin()
    collections.end(SimpleNamespace(add_activities=lambda each: None))  # type: ignore[arg-type]
    assert ("end", "second") in log


# ---- whether CUDA can be collected -----------------------------------------------------------------


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """The native module's answers; NVIDIA's driver is installed."""
    answers = SimpleNamespace(problem="", registered=[], runtime=[], without_events="?")
    monkeypatch.setattr(_core, "register_cuda", answers.registered.append)
    monkeypatch.setattr(_core, "register_cuda_events", answers.runtime.append)
    monkeypatch.delenv("FASTPROF_CUDART_LIBRARY", raising=False)
    monkeypatch.setattr(
        _core,
        "device_problem",
        lambda kind: answers.problem if kind == "CUDA" else answers.without_events,
    )
    monkeypatch.delenv("FASTPROF_CUPTI_LIBRARY", raising=False)
    driver = tmp_path / "driver"
    driver.touch()
    monkeypatch.setattr(cuda, "_DRIVER_FILES", ("/none", str(driver)))
    cuda.register_cuda.cache_clear()
    yield answers
    cuda.register_cuda.cache_clear()


def test_problems_of_cuda(native: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda.cuda_problem() is None
    native.problem = "another profiler has CUPTI"
    assert cuda.cuda_problem() == "work on CUDA devices is not recorded: another profiler has CUPTI"
    assert len(native.registered) == len(native.runtime) == 1  # once
    native.without_events = ""  # ranges can be timed by CUDA events
    assert cuda.cuda_problem() is None
    native.without_events = "?"
    monkeypatch.setattr(cuda, "_DRIVER_FILES", ("/none",))
    driver = cuda.cuda_problem()
    assert driver is not None and driver.startswith("NVIDIA's driver is not installed")
    monkeypatch.setenv("FASTPROF_CUPTI_LIBRARY", "/lib/libcupti.so")
    assert cuda.cuda_problem() == "work on CUDA devices is not recorded: another profiler has CUPTI"
    monkeypatch.setenv("FASTPROF_CUPTI_LIBRARY", "")
    assert (
        cuda.cuda_problem()
        == "CUDA is switched off, because FASTPROF_CUPTI_LIBRARY is empty: unset it"
    )


def test_libraries_in_packages(
    native: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import importlib.util

    one, two = tmp_path / "one", tmp_path / "two"
    names = cuda._CUPTI_IN_PACKAGES
    for folder, name in ((one, names[-1]), (two, names[0])):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    spec = SimpleNamespace(submodule_search_locations=[str(one), str(two)])
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: spec if name == "nvidia" else None
    )
    assert cuda.cuda_problem() is None
    assert native.registered == [[str(two / names[0]), str(one / names[-1])]]
    for nothing in (None, SimpleNamespace(submodule_search_locations=None)):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, spec=nothing: spec)
        assert cuda._libraries(names) == []


def test_problems_of_plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library's as the native module says; an object's as its problem() says, if it has one."""
    reasons = {"chip": "no driver", "fine": ""}
    monkeypatch.setattr(_core, "device_problem", reasons.__getitem__)

    def device(name: str, python: Any = None) -> Device:
        return Device(name, ProfilerActivity.PrivateUse1, "here", 20, False, python)

    assert device("chip").problem() == "no driver" and device("fine").problem() is None

    def fail() -> str:
        raise OSError("lost")

    for problem, expected in (
        (lambda: "no power", "no power"),
        (lambda: 7, "7"),
        (lambda: "", None),
        (lambda: None, None),
        (fail, "problem() of its plug-in raised OSError: lost"),
    ):
        assert device("chip", SimpleNamespace(problem=problem)).problem() == expected
    assert device("chip", SimpleNamespace()).problem() is None
