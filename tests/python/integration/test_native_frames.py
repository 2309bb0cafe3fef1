# SPDX-License-Identifier: Apache-2.0
"""Stacks of Python and C++ frames: profile(with_stack=True, native=True)."""

from __future__ import annotations

import asyncio
import ctypes
import random
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from compilers import INCLUDE, compile_and_link, run
from followed_programs import STRICT
from library_host import SOURCES

import fastprof
from fastprof import profile, record_function

pytestmark = pytest.mark.compilers

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
NAME = "callbacks.so"
THIS = Path(__file__).name
KNOWS_LOOPS = sys.version_info < (3, 14)  # else native frames between Python frames are left out
needs_loops = pytest.mark.skipif(
    not KNOWS_LOOPS, reason="this CPython does not tell which frames one evaluation loop runs"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("native") / NAME
    flags = ("-std=c++17", "-O1", "-fPIC", "-shared", f"-I{INCLUDE}")
    return compile_and_link("g++", output, [SOURCES / "callbacks.cpp"], *flags)


@pytest.fixture(scope="module")
def library(path: Path) -> ctypes.PyDLL:
    """The library; its functions are called with the GIL."""
    return ctypes.PyDLL(str(path))


def call_back(library: ctypes.PyDLL, function: Callable[[int], int], value: int = 0) -> int:
    made = CALLBACK(function)
    result: int = library.call_back(made, value)
    return result


def stack_of(p: profile, name: str) -> list[str]:
    (event,) = [e for e in p.events() if e.name == name]
    return list(event.stack or ())


def shown(stack: list[str]) -> list[str]:
    """The functions of this file and of the library, innermost first: "name" and "name (library)"."""
    found = []
    for line in stack:
        if line.endswith(f"({NAME})"):
            found.append(line)
        elif THIS in line:
            found.append(line.rpartition("): ")[2])
    return found


@needs_loops
def test_frames_of_both_kinds_are_in_the_order_of_the_calls(library: ctypes.PyDLL) -> None:
    def innermost(value: int) -> int:
        with record_function("leaf"):
            return value

    def inner(value: int) -> int:
        return innermost(value)

    def outer() -> int:
        return call_back(library, inner)

    with profile(with_stack=True, native=True) as p:
        outer()
    assert shown(stack_of(p, "leaf"))[:6] == [
        "innermost", "inner", f"shapes::apply ({NAME})", f"call_back ({NAME})", "call_back", "outer",
    ]  # fmt: skip


@needs_loops
def test_random_recursion_through_c_has_the_frames_of_traceback(library: ctypes.PyDLL) -> None:
    rng = random.Random(14)
    expected: dict[str, list[str]] = {}
    native_calls: dict[str, int] = {}

    def step(left: int) -> int:
        how = rng.randrange(4)
        name = f"{len(expected)}"
        expected[name] = [f.name for f in reversed(traceback.extract_stack())]
        native_calls[name] = depth[0]
        with record_function(name):
            pass
        if left == 0:
            return 0
        if how == 0:
            depth[0] += 1
            result = call_back(library, step, left - 1)
            depth[0] -= 1
            return result
        if how == 1:
            return sum(items(left))
        if how == 2:
            return max([left], key=lambda value: step(value - 1))
        return step(left - 1)

    def items(left: int) -> Iterator[int]:
        yield step(left - 1)

    depth = [0]
    with profile(with_stack=True, native=True) as p:
        for _ in range(40):
            step(rng.randrange(12))
    assert len(expected) > 100
    found = {e.name: list(e.stack) for e in p.events() if e.name in expected}
    assert found.keys() == expected.keys()
    for name, stack in found.items():
        python = [line.rpartition("): ")[2] for line in stack if "): " in line]
        assert python[:30] == expected[name][:30]
        assert stack.count(f"call_back ({NAME})") == native_calls[name]


def test_a_range_in_cpp_has_the_whole_stack(library: ctypes.PyDLL) -> None:
    def caller() -> int:
        result: int = library.record(3)
        return result

    with profile(with_stack=True, native=True) as p:
        assert caller() == 7
    lines = shown(stack_of(p, "in C++"))
    assert lines[:3] == [f"shapes::twice<> ({NAME})", f"record ({NAME})", "caller"]
    with profile(with_stack=True) as p:
        caller()
    assert stack_of(p, "in C++") == []  # as documented: native frames are what it costs


def test_a_thread_of_cpp_does_not_wait_for_the_gil(library: ctypes.PyDLL) -> None:
    # The library's function holds the GIL while it waits for the thread.
    with profile(with_stack=True, native=True) as p:
        assert library.record_on_a_thread(4) == 8
    stack = stack_of(p, "in C++")
    assert stack[0] == f"shapes::twice<> ({NAME})"
    assert not any("): " in line for line in stack)
    assert not stack[-1].endswith("(libc.so.6)")


def test_threads_generators_and_coroutines(library: ctypes.PyDLL) -> None:
    def generator() -> Iterator[int]:
        with record_function("in a generator"):
            yield 1

    async def coroutine() -> None:
        with record_function("in a coroutine"):
            await asyncio.sleep(0)

    def on_a_thread() -> None:
        with record_function("on a thread"):
            pass

    with profile(with_stack=True, native=True) as p:
        list(generator())
        asyncio.run(coroutine())
        with ThreadPoolExecutor(1) as pool:
            pool.submit(call_back, library, lambda value: on_a_thread() or value).result()
    assert shown(stack_of(p, "in a generator"))[0] == "generator"
    assert shown(stack_of(p, "in a coroutine"))[0] == "coroutine"
    assert shown(stack_of(p, "on a thread"))[0] == "on_a_thread"


def test_deep_stacks_are_cut_at_their_outer_end(library: ctypes.PyDLL) -> None:
    def down(value: int) -> int:
        if value:
            return call_back(library, down, value - 1)
        with record_function("deep"):
            return 0

    with profile(native=True) as p:  # implies stacks
        down(150)
    lines = shown(stack_of(p, "deep"))
    assert lines[0] == "down"
    assert lines.count("down") > 50


PROGRAM = """
import ctypes, sys
import fastprof
library = ctypes.PyDLL({path!r})
def inside():
    library.record(2)
"""


def python(source: str, *arguments: str, path: Path) -> str:
    source = PROGRAM.format(path=str(path)) + textwrap.dedent(source)
    return run([sys.executable, *STRICT, "-c", source, *arguments], timeout_s=120)


def test_a_followed_child_and_a_file_have_the_frames(path: Path, tmp_path: Path) -> None:
    source = """
        import os
        with fastprof.profile(with_stack=True, native=True, follow_children=True) as p:
            if os.fork() == 0:
                inside()
                os._exit(0)
            os.wait()
        (event,) = [e for e in p.events() if e.name == "in C++"]
        print(*(line for line in event.stack if "callbacks" in line or "inside" in line), sep="\\n")
    """
    expected = [f"shapes::twice<> ({NAME})", f"record ({NAME})", "<string>(6): inside"]
    assert python(source, path=path).splitlines() == expected
    file = tmp_path / "killed.fastprof"
    source = f"""
        import os, signal
        p = fastprof.profile(with_stack=True, native=True, backing_file={str(file)!r})
        p.start()
        inside()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with pytest.raises(pytest.fail.Exception, match="exit status -9"):
        python(source, path=path)
    (event,) = [
        e for e in fastprof.EventList.from_table(fastprof.recover(file)) if e.name == "in C++"
    ]
    assert [x for x in event.stack or () if "callbacks" in x or "inside" in x] == expected


def test_the_command_line(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.format(path=str(path)) + "inside()\n")
    trace = tmp_path / "trace.json"
    run([sys.executable, "-m", "fastprof", "run", "--native", "--no-calls", "-o", trace, script],
        timeout_s=120)  # fmt: skip
    text = trace.read_text()
    assert f"shapes::twice<> ({NAME});record ({NAME})" in text


def test_a_fork_while_another_thread_records(path: Path) -> None:
    # The child may inherit locks that the other thread held.
    source = """
        import os, threading
        stop = threading.Event()
        def record():
            while not stop.is_set():
                inside()
        thread = threading.Thread(target=record)
        with fastprof.profile(with_stack=True, native=True) as p:
            thread.start()
            for _ in range(30):
                if os.fork() == 0:
                    with fastprof.profile(with_stack=True, native=True) as own:
                        inside()
                    (event,) = [e for e in own.events() if e.name == "in C++"]
                    os._exit(len(event.stack) < 3)
                assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
            stop.set()
            thread.join()
        print(len(p.events()) > 30)
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(path=str(path)) + textwrap.dedent(source)],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.fail("a child hangs")
    assert done.stdout == "True\n", done.stderr
