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
