# SPDX-License-Identifier: Apache-2.0
"""Execution traces requested by the environment: torch's observer is used if torch is imported, and only on request."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

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
