# SPDX-License-Identifier: Apache-2.0
"""CallFilter: accepted values, absolute paths. TracedCalls: what it passes to the native part, what it reports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof import CallFilter, errors
from fastprof.record import python_calls
from fastprof.record.python_calls import TracedCalls


def test_everything_is_recorded_by_default() -> None:
    chosen = CallFilter()
    assert chosen.files == chosen.exclude_files == chosen.modules == chosen.exclude_modules == ()
    assert chosen.c_calls is True and chosen.max_depth is None


def test_files_become_absolute_and_modules_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = CallFilter(
        files=["a.py", Path("b"), "<string>"],  # type: ignore[arg-type]
        exclude_files=("c/../d",),
        modules=["a.py"],  # type: ignore[arg-type]
        exclude_modules=iter(["d"]),  # type: ignore[arg-type]
    )
    assert chosen.files == (f"{tmp_path}/a.py", f"{tmp_path}/b", "<string>")
    assert chosen.exclude_files == (f"{tmp_path}/d",)
    assert chosen.modules == ("a.py",) and chosen.exclude_modules == ("d",)


@pytest.mark.parametrize("name", ["files", "exclude_files", "modules", "exclude_modules"])
@pytest.mark.parametrize("value", ["torch", Path("torch")])
def test_one_name_is_no_list(name: str, value: Any) -> None:
    with pytest.raises(errors.ValueError, match=rf"CallFilter: {name} must be a list"):
        CallFilter(**{name: value})


def test_depths() -> None:
    for wrong in (0, -1, 1 << 32):
        with pytest.raises(errors.ValueError, match=f"max_depth must be at least 1, not {wrong}"):
            CallFilter(max_depth=wrong)
    for allowed in (None, 1, (1 << 32) - 1):
        assert CallFilter(max_depth=allowed).max_depth == allowed


class _Native:
    """A double of the native tracing: keeps its arguments, and returns what a test has set."""

    def __init__(self, **given: Any) -> None:
        self.given = given
        self.others = ""
        self.filter = ""

    def begin(self) -> tuple[str, str]:
        return self.others, self.filter

    def end(self) -> str:
        return self.others


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Core:
        PythonCalls = _Native

    monkeypatch.setattr(python_calls, "_core", _Core)


@pytest.mark.usefixtures("native")
def test_the_native_part_gets_the_filter_and_the_folders_of_ours_and_the_library() -> None:
    chosen = CallFilter(
        files=("/a",), exclude_files=("/b",), modules=("c",), exclude_modules=("d",),
        c_calls=False, max_depth=7,
    )  # fmt: skip
    hold: Any = TracedCalls(chosen)._hold
    own = os.path.dirname(os.path.abspath(fastprof.__file__)) + os.sep
    assert hold.given == {
        "files": ["/a"],
        "excluded_files": ["/b"],
        "modules": ["c"],
        "excluded_modules": ["d"],
        "c_calls": False,
        "max_depth": 7,
        "sum_frequent": False,
        "own_folder": own,
        "library_folder": os.path.dirname(os.__file__) + os.sep,
    }
    without: Any = TracedCalls(CallFilter())._hold
    assert without.given["max_depth"] == (1 << 32) - 1


@pytest.mark.usefixtures("native")
def test_what_is_not_traced_is_reported() -> None:
    traced = TracedCalls(CallFilter())
    hold: Any = traced._hold
    assert traced.start() == [] and traced.stop() == []
    hold.filter = "the filter of another profile counts"
    assert traced.start() == [hold.filter]
    hold.others = "Threads 1, 2"
    first, second = traced.start()
    assert first == hold.filter
    assert "(Threads 1, 2)" in second and "some threads are not traced" in second
    (missing,) = traced.stop()
    assert "(Threads 1, 2)" in missing and "replaced the tracing" in missing
