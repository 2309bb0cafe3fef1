# SPDX-License-Identifier: Apache-2.0
"""fastprof.metal where there is no Metal: it can be imported, and says why it cannot be used."""

from __future__ import annotations

import re
import sys

import pytest

import fastprof
from fastprof import metal
from fastprof._paths import include_dir
from fastprof.record.metal_problem import metal_problem

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="macOS has Metal")


@pytest.fixture(autouse=True)
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTPROF_METAL_LIBRARY", raising=False)


def test_functions_say_why_they_are_unavailable() -> None:
    wanted = f"the Metal profiler is unavailable because Metal exists on macOS only, and this is {sys.platform}"
    for call in (
        metal.start,
        metal.stop,
        metal.statistics,
        metal.tables,
        metal.log_options,
        lambda: metal.set_log_options(metal.LogOptions.ALL_STATS),
        metal.profile().__enter__,
        metal.emit_signposts().__enter__,
        metal.metal_capture("x").__enter__,
    ):
        with pytest.raises(fastprof.errors.UnavailableError) as caught:
            call()
        assert str(caught.value) == wanted
    assert not metal.is_metal_capture_enabled()
    assert not metal.is_capturing_metal()


def test_a_library_that_is_none_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPROF_METAL_LIBRARY", "/nonexistent/library.so")
    problem = metal_problem()
    assert problem is not None and problem.startswith("FASTPROF_METAL_LIBRARY: ")
    import _ctypes

    monkeypatch.setenv("FASTPROF_METAL_LIBRARY", _ctypes.__file__)
    problem = metal_problem()
    assert problem is not None and "has no platform for this version of fastprof" in problem


def test_log_options_are_those_of_the_header() -> None:
    text = (include_dir() / "fastprof" / "metal" / "options.hpp").read_text()
    body = re.search(r"enum LogOptions : uint32_t \{(.*?)\};", text, re.S)
    assert body is not None
    header = {name: 1 << int(bit) for name, bit in re.findall(r"(\w+) = 1u << (\d+)", body[1])}
    named = {o.name: int(o) for o in metal.LogOptions if o}  # CPython 3.10 lists NONE, too
    assert header == named
