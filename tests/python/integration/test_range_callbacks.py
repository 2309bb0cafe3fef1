# SPDX-License-Identifier: Apache-2.0
"""RecordFunction callbacks of a C++ library are called for ranges in Python."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compilers import INCLUDE, compile_and_link

import fastprof
from fastprof import record_function

pytestmark = pytest.mark.compilers

SOURCE = Path(__file__).resolve().parents[2] / "cpp" / "libraries" / "observer.cpp"

Observe = Callable[..., Callable[[], list[str]]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    output = tmp_path_factory.mktemp("observer") / "libobserver.so"
    flags = ("-std=c++17", f"-I{INCLUDE}", "-shared", "-fPIC")
    compile_and_link("g++", output, [SOURCE], *flags)
    loaded = ctypes.CDLL(str(output))
    loaded.take_seen.restype = ctypes.c_char_p
    return loaded


@pytest.fixture
def observe(library: ctypes.CDLL) -> Iterator[Observe]:
    """Begin to observe. Return a function that returns the lines since its last call."""

    def begin(inputs: bool = False) -> Callable[[], list[str]]:
        library.observe(int(inputs))
        return lambda: library.take_seen().decode().splitlines()

    yield begin
    library.stop_observing()
    library.take_seen()


@pytest.mark.parametrize("profiled", [False, True])
def test_ranges_are_told_with_and_without_a_profile(observe: Observe, profiled: bool) -> None:
    seen = observe()
    with fastprof.profile(enabled=profiled) as p:
        with record_function("outer"), record_function("inner", n=1):
            pass
    assert seen() == ["begin outer scope 7", "begin inner scope 7", "end inner", "end outer"]
    assert [event.name for event in p.events()] == (["outer", "inner"] if profiled else [])


def test_arguments_reach_callbacks_that_ask_for_inputs(observe: Observe) -> None:
    seen = observe(inputs=True)
    with record_function("x", number=3, share=0.5, on=True, text="t"):
        pass
    begin, end = seen()
    assert begin == 'begin x scope 7 number=3 share=0.5 on=true text="t"'
    assert end == "end x"


def test_exceptions_and_one_object_many_times(observe: Observe) -> None:
    seen = observe()
    one = record_function("one")
    with pytest.raises(KeyError), one, one:
        raise KeyError("x")
    with one:
        pass
    assert seen() == ["begin one scope 7"] * 2 + ["end one"] * 2 + ["begin one scope 7", "end one"]


def test_async_functions_end_as_async(observe: Observe) -> None:
    seen = observe(inputs=True)

    @record_function("work", n=4)
    async def work() -> None:
        await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(work(), work())

    asyncio.run(both())
    assert sorted(seen()) == ["begin work scope 7 n=4"] * 2 + ["end work async"] * 2


def test_a_future_ends_it_on_its_own_thread(observe: Observe) -> None:
    seen = observe()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with record_function("call") as range_:
            following = range_._call_end_callbacks_on_future(pool.submit(lambda: 3))
        assert following.result() == 3
    lines = seen()
    assert [line.removesuffix(" async") for line in lines] == ["begin call scope 7", "end call"]


def test_registered_and_removed_while_ranges_are_open(library: ctypes.CDLL) -> None:
    with record_function("before"):
        library.observe(0)
        with record_function("open") as range_:
            library.stop_observing()
        assert range_.name == "open"
    with record_function("after"):
        pass
    assert library.take_seen().decode().splitlines() == ["begin open scope 7", "end open"]
