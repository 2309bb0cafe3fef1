# SPDX-License-Identifier: Apache-2.0
"""The lines at which calls are made: recorded with each call, through filters, and through every file format."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.trace_writers import write_chrome_trace

# Each call is on a line whose comment names the caller and the callees.
PROGRAM = """\
def leaf(n):
    return n


def below(n):
    return n and below(n - 1)  # below: below


def numbers():
    yield leaf(1)  # numbers: leaf
    yield 2


class Shape:
    def __init__(self):
        self.size = abs(-1)  # __init__: abs

    @property
    def area(self):
        return leaf(2)  # area: leaf

    def __add__(self, other):
        return 3


def work():
    leaf(0)  # work: leaf
    leaf(
        0,  # the line of a call is that of its beginning
    )
    below(3)  # work: below
    sorted([2, 1], key=lambda n: -n)  # work: sorted <lambda>
    sum(numbers())  # work: sum numbers
    shape = Shape()  # work: __init__
    shape.area  # work: area
    shape + shape  # work: __add__
    for _ in range(3):
        len("abc"), leaf(1)  # work: len leaf
    try:
        int("x")
    except ValueError:
        repr("x")  # work: repr
"""
_FUNCTION = re.compile(r"(?:.*\(\d+\): |<built-in \w+ )(\w+|<\w+>).*")


def expected(name: str) -> set[tuple[str, str, int]]:
    """Return (caller, callee, line) as the program's comments have them."""
    return {
        (caller, callee, number)
        for number, text in enumerate(PROGRAM.splitlines(), 1)
        for caller, callees in re.findall(r"# (\w+): (.*)", text)
        for callee in callees.split()
        if name in (caller, "")
    }


def lines_of(table: Any) -> set[tuple[str, str, int]]:
    """Return (innermost Python function around it, function, line) of the calls with a line."""
    texts = [table.name(row) for row in range(len(table))]
    names = [_FUNCTION.fullmatch(text) for text in texts]
    tree = fastprof.EventTree.of(table)
    parents = tree.parent_rows().tolist()
    found = set()
    for row, (match, line) in enumerate(
        zip(names, table.column("call_line").tolist(), strict=True)
    ):
        up = parents[row]
        while up >= 0 and "<built-in" in texts[up]:
            up = parents[up]
        if line and match and up >= 0 and (around := names[up]):
            found.add((around[1], match[1], line))
    return found


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("lines") / "program.py"
    file.write_text(PROGRAM)
    space: dict[str, Any] = {"__name__": "program", "file": str(file)}
    exec(compile(PROGRAM, str(file), "exec"), space)
    return space


def record(work: Any, calls: Any = True) -> fastprof.profile:
    with fastprof.profile(python_calls=calls) as prof:
        work()
    return prof


def test_each_call_has_the_line_of_its_caller(program: dict[str, Any]) -> None:
    found = lines_of(record(program["work"]).event_table)
    missing = expected("") - found
    assert not missing
    wrong = {entry for entry in found if entry[0] in program} - expected("")
    assert {callee for _, callee, _ in wrong} <= {"leaf"}  # the call of several lines
    assert {line for _, _, line in wrong} == {PROGRAM.splitlines().index("    leaf(") + 1}


def test_a_call_from_a_function_that_is_left_out_has_the_line_of_the_one_around(
    program: dict[str, Any],
) -> None:
    def caller() -> None:
        program["work"]()

    table = record(caller, fastprof.CallFilter(files=[__file__])).event_table
    first = caller.__code__.co_firstlineno
    assert {line for _, name, line in lines_of(table) if name == "sorted"} == {first + 1}


def test_a_call_of_the_code_around_the_profile_has_a_line(program: dict[str, Any]) -> None:
    with fastprof.profile(python_calls=True) as prof:
        here = sys._getframe().f_lineno + 1
        program["leaf"](1)
    table = prof.event_table
    rows = [row for row in range(len(table)) if table.name(row).endswith(": leaf")]
    assert [int(table.column("call_line")[row]) for row in rows] == [here]


@pytest.mark.parametrize("suffix", [".fastprof", ".json", ".pftrace"])
def test_files_keep_the_lines(program: dict[str, Any], suffix: str, tmp_path: Path) -> None:
    prof = record(program["work"])
    path = tmp_path / f"trace{suffix}"
    prof.export(path)
    read = fastprof.load(path)
    assert lines_of(read) == lines_of(prof.event_table) > expected("work")
    write_chrome_trace(read, tmp_path / "again.json")
    assert lines_of(fastprof.load(tmp_path / "again.json")) == lines_of(read)
