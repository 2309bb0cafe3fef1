# SPDX-License-Identifier: Apache-2.0
"""Execution traces requested by the environment: torch's observer is used if torch is imported, and only on request."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any, ClassVar

import pytest

import fastprof
from fastprof.compat.execution_trace import observer_of_environment


class _Observer:
    calls: list[str]

    def __init__(self) -> None:
        self.calls = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def cleanup(self) -> None:
        self.calls.append("cleanup")


def torch_with(observer: Any) -> Any:
    class Theirs:
        @staticmethod
        def build_execution_trace_obs_from_env() -> Any:
            return observer

    return types.SimpleNamespace(profiler=types.SimpleNamespace(ExecutionTraceObserver=Theirs))


def test_only_when_asked_for_and_only_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = _Observer()
    monkeypatch.setitem(sys.modules, "torch", torch_with(observer))
    for value in (None, "0", "yes"):
        monkeypatch.delenv("ENABLE_PYTORCH_EXECUTION_TRACE", raising=False)
        if value is not None:
            monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", value)
        assert observer_of_environment() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    assert observer_of_environment() is observer
    for torch in (types.SimpleNamespace(), None):
        monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
        assert observer_of_environment() is None


def test_an_observer_without_torch_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    observer = fastprof.ExecutionTraceObserver()
    with pytest.raises(fastprof.errors.UnavailableError, match="Import torch before"):
        observer.register_callback("trace.json")
    observer.start()
    observer.stop()
    observer.cleanup()
    assert not observer.is_registered
    assert not observer.is_running()
    assert observer.get_output_file_path() is observer.get_resources_dir() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    with pytest.raises(fastprof.errors.UnavailableError, match="libtorch"):
        fastprof.ExecutionTraceObserver.build_execution_trace_obs_from_env()


def test_folder_of_resources(tmp_path: Path) -> None:
    folder_of = fastprof.ExecutionTraceObserver.get_resources_dir_for_et_path
    trace = str(tmp_path / "a.json")
    assert folder_of(trace) is None
    assert folder_of(trace, create_dir=True) == folder_of(trace) == str(tmp_path / "a_resources")
    (tmp_path / "file").write_text("")
    with pytest.raises(fastprof.errors.IoError, match="Choose another path"):
        folder_of(str(tmp_path / "file" / "b.json"), create_dir=True)


class _Theirs:
    """torch.profiler.ExecutionTraceObserver, as far as it is used."""

    made: ClassVar[list[_Theirs]] = []

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self._registered = self._execution_trace_running = False
        self.path = ""
        _Theirs.made.append(self)

    @staticmethod
    def build_execution_trace_obs_from_env() -> _Theirs:
        return _Theirs().register_callback("from environment")

    def register_callback(self, path: str) -> _Theirs:
        self.path, self._registered = path, True
        return self

    def unregister_callback(self) -> None:
        self._registered = False
        self.calls.append("unregister")

    def start(self) -> None:
        self._execution_trace_running = True

    def stop(self) -> None:
        self._execution_trace_running = False

    def get_output_file_path(self) -> str:
        return self.path

    def set_extra_resource_collection(self, value: bool) -> None:
        self.calls.append(("extras", value))

    def get_resources_dir(self, can_create: bool) -> str:
        return f"folder {can_create}"
