# SPDX-License-Identifier: Apache-2.0
"""after_import(): calls a function once a module has been imported, and leaves nothing behind afterwards."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprof.adapters import import_watch
from fastprof.adapters.import_watch import after_import


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path; its modules are removed from sys.modules afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(import_watch, "_awaited", {})
    before = set(sys.modules)
    finders = list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_call_comes_when_the_module_is_complete(modules: Path) -> None:
    (modules / "awaited_module.py").write_text("value = 1\n")
    seen: list[Any] = []
    after_import("awaited_module", lambda: seen.append(sys.modules["awaited_module"].value))
    after_import("awaited_module", lambda: seen.append("second"))
    assert seen == []
    assert import_watch._watch in sys.meta_path
    module = importlib.import_module("awaited_module")
    assert seen == [1, "second"]
    assert import_watch._watch not in sys.meta_path
    # It looks as if it had been loaded without the watch.
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__


def test_the_call_comes_at_once_for_a_loaded_module(modules: Path) -> None:
    seen: list[int] = []
    after_import("json", lambda: seen.append(1))
    assert seen == [1]


def test_an_import_that_fails_is_awaited_further(modules: Path) -> None:
    path = modules / "awaited_failing.py"
    path.write_text("raise KeyError('x')\n")
    seen: list[int] = []
    after_import("awaited_failing", lambda: seen.append(1))
    with pytest.raises(KeyError):
        importlib.import_module("awaited_failing")
    assert seen == []
    path.write_text("value = 12345\n")
    importlib.invalidate_caches()
    importlib.import_module("awaited_failing")
    assert seen == [1]


def test_packages_without_a_loader_of_code_and_absent_ones(modules: Path) -> None:
    (modules / "awaited_namespace").mkdir()
    (modules / "awaited_namespace" / "part.py").write_text("value = 1\n")
    after_import("awaited_namespace", lambda: None)
    assert importlib.import_module("awaited_namespace.part").value == 1
    after_import("awaited_absent", lambda: None)
    with pytest.raises(ModuleNotFoundError, match="awaited_absent"):
        importlib.import_module("awaited_absent")
