# SPDX-License-Identifier: Apache-2.0
"""after_import(): calls a function once a module has been imported, and leaves nothing behind afterwards."""

from __future__ import annotations

import importlib
import sys
import threading
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


def test_an_import_in_progress_when_it_is_awaited(modules: Path) -> None:
    (modules / "awaited_partial.py").write_text(
        "from fastprof.adapters.import_watch import after_import\n"
        "seen = []\n"
        "after_import('awaited_partial', lambda: seen.append(complete))\n"
        "complete = True\n"
    )
    (modules / "imported_later.py").write_text("")
    module = importlib.import_module("awaited_partial")
    importlib.import_module("imported_later")
    assert module.seen == [True]


def test_two_watches_in_front_of_each_other(modules: Path) -> None:
    """Another finder also queries all other finders, as the watch does: no endless recursion."""
    (modules / "awaited_twice.py").write_text("")
    seen: list[int] = []

    class Other:
        def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
            for finder in sys.meta_path:
                if name == "awaited_twice" and finder is not self:
                    spec = finder.find_spec(name, path, target)
                    if spec is not None:
                        return spec
            return None

    other = Other()
    sys.meta_path.insert(0, other)  # type: ignore[arg-type]
    try:
        after_import("awaited_twice", lambda: seen.append(1))
        importlib.import_module("awaited_twice")
    finally:
        sys.meta_path.remove(other)  # type: ignore[arg-type]
    assert seen == [1]


def test_one_call_when_two_threads_import(modules: Path) -> None:
    (modules / "awaited_by_two.py").write_text("import time\ntime.sleep(0.05)\n")
    seen: list[int] = []
    after_import("awaited_by_two", lambda: seen.append(1))
    threads = [
        threading.Thread(target=importlib.import_module, args=("awaited_by_two",)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert seen == [1]


def test_a_call_that_is_taken_back_is_not_made(modules: Path) -> None:
    (modules / "awaited_package.py").write_text("")
    calls: list[str] = []

    def call() -> None:
        calls.append("called")

    import_watch.watch_import("awaited_package", call)
    assert import_watch._watch in sys.meta_path
    import_watch.forget_import("awaited_package", call)
    import_watch.forget_import("awaited_package", call)
    assert import_watch._watch not in sys.meta_path
    importlib.import_module("awaited_package")
    assert calls == []


def test_packages_without_a_loader_of_code_and_absent_ones(modules: Path) -> None:
    (modules / "awaited_namespace").mkdir()
    (modules / "awaited_namespace" / "part.py").write_text("value = 1\n")
    after_import("awaited_namespace", lambda: None)
    assert importlib.import_module("awaited_namespace.part").value == 1
    after_import("awaited_absent", lambda: None)
    with pytest.raises(ModuleNotFoundError, match="awaited_absent"):
        importlib.import_module("awaited_absent")
