# SPDX-License-Identifier: Apache-2.0
"""Profiles that begin inside an `__init__` which the interpreter calls directly, below a frame of its own."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

import fastprof
from fastprof import record_function


class Model:
    def __init__(self, action: Callable[[], Any]) -> None:
        action()


def build(action: Callable[[], Any]) -> Model:
    return Model(action)


@pytest.fixture(autouse=True)
def warm() -> None:
    """From its second call on, the interpreter specialises `Model(action)`."""
    for _ in range(100):
        build(lambda: None)


@pytest.mark.parametrize(
    "options",
    [{"python_calls": True}, {"with_stack": True}, {"python_calls": True, "with_stack": True}],
)
def test_frames_of_the_interpreter_are_left_alone(options: dict[str, Any]) -> None:
    found: list[list[str]] = []

    def profiled() -> None:
        with fastprof.profile(**options) as prof, record_function("range"):
            found.append([frame.name for frame in traceback.extract_stack()])
        found.append([event.name for event in prof.events()])

    build(profiled)
    assert found[0][-3:] == ["build", "__init__", "profiled"] and "range" in found[1]


def test_stacks_and_lines_are_those_of_the_interpreter() -> None:
    places: list[tuple[str, int]] = []

    def ranged() -> None:
        with record_function("range"):
            places.extend((f.name, f.lineno or 0) for f in reversed(traceback.extract_stack()[-3:]))

    with fastprof.profile(with_stack=True, python_calls=False) as prof:
        build(ranged)
    (event,) = [event for event in prof.events() if event.name == "range"]
    functions = [line.rpartition(" ")[2] for line in event.stack[:3]]
    assert functions == [name for name, _ in places]
    with fastprof.profile(python_calls=True) as prof:
        build(lambda: None)
    table = prof.event_table
    lines = {
        table.name(i).rpartition(": ")[2]: int(table.column("call_line")[i])
        for i in range(len(table))
    }
    assert lines["__init__"] == build.__code__.co_firstlineno + 1
    assert lines["<lambda>"] == Model.__init__.__code__.co_firstlineno + 1
