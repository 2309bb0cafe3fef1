# SPDX-License-Identifier: Apache-2.0
"""make_importable: restores modules that the interpreter's shutdown has removed from sys.modules, and no others."""

from __future__ import annotations

import sys
import types

import pytest

from fastprof.profiler import at_exit


def imported(monkeypatch: pytest.MonkeyPatch, shutting_down: bool, is_kept: bool) -> list[str]:
    """Return which of two names can be imported after the call: one module was removed, one was not."""
    gone, there = types.ModuleType("gone"), types.ModuleType("there")
    loaded: dict[str, types.ModuleType | None] = {"gone": None, "there": there}
    copies = {
        "gone": gone,
        "there": types.ModuleType("another"),
        "never": types.ModuleType("never"),
    }
    with monkeypatch.context() as patch:
        patch.setattr(at_exit, "_copies", copies)
        patch.setattr(at_exit, "_loaded", loaded if is_kept else None)
        if shutting_down:
            patch.setattr(sys, "meta_path", None)
        at_exit.make_importable()
    assert loaded["there"] is there
    return [name for name, module in loaded.items() if module is not None]


def test_modules_that_are_gone_come_back_during_the_shutdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert imported(monkeypatch, True, True) == ["gone", "there", "never"]
    assert imported(monkeypatch, False, True) == ["there"]
    assert imported(monkeypatch, True, False) == ["there"]


def test_modules_are_copied_if_somebody_keeps_results(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module(types.ModuleType):
        """Of a type of its own, as some packages have."""

    plain, special, other = (
        types.ModuleType("numpy.plain"),
        Module("numpy.special"),
        types.ModuleType("x"),
    )
    plain.value = 7  # type: ignore[attr-defined]
    for module in (plain, special, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(at_exit, "_copies", {})
    monkeypatch.setattr(at_exit, "_loaded", None)
    monkeypatch.setattr(at_exit, "_results", [])
    at_exit._keep_modules()
    assert at_exit._copies == {} and at_exit._loaded is None
    monkeypatch.setattr(at_exit, "_results", ["a result"])
    at_exit._keep_modules()
    copied = at_exit._copies
    assert at_exit._loaded is sys.modules
    assert copied["numpy.plain"] is not plain and copied["numpy.plain"].value == 7
    assert not {"numpy.special", "x"} & copied.keys()
    assert set(at_exit._MODULES) <= copied.keys()


def test_one_function_is_registered_for_all_results(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[object] = []
    monkeypatch.setattr(at_exit.atexit, "register", registered.append)
    monkeypatch.setattr(at_exit, "_registered", False)
    results = [types.ModuleType(name) for name in "abc"]  # can be referred to weakly
    for result in results:
        at_exit.keep_readable_at_exit(result)
    assert registered == [at_exit._keep_modules]
    assert all(result in at_exit._results for result in results)
